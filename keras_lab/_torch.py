"""What keras.ops does not have, in torch. See `_backend.py`."""

import contextlib
import math
import warnings

import keras
import torch
from keras import ops

from keras_lab import _common, _malloc

# An optimizer can assign α in a training step.
SCALE_IS_TRAINABLE = False
# How many weights to sum at a time, so that they stay in the cache.
PART = 1 << 20

init_scope = contextlib.nullcontext
keep_memory = _malloc.keep_memory
# The versions of keras.ops may round float64 to float32.
sqrt, expm1 = torch.sqrt, torch.expm1
# The same on another backend.
constrain_value = _common.constrain_value
sync = _common.sync


def sign(x):
    """As `keras.ops.sign`, but the sign of a NaN is a NaN."""
    x = ops.convert_to_tensor(x)
    return torch.where(torch.isnan(x), x, torch.sign(x))


def signed(alpha, w):
    """α where w ≥ 0, and −α elsewhere, in the dtype of α."""
    # Several times as fast as torch.where. The zero makes 0 of −0. A NaN may
    # have either sign, but then α is a NaN, too.
    w = w.to(torch.promote_types(w.dtype, alpha.dtype)) + 0.0
    return torch.copysign(alpha, w).to(alpha.dtype)


@torch.no_grad()
def adam_update(variable, m, v, gradient, rate, betas, epsilon):
    """Takes one step of Adam in place.

    m ← β₁m + (1−β₁)g,   v ← β₂v + (1−β₂)g²,   w ← w − rate·m / (√v + ε)
    """
    m, v = m.value, v.value
    m.lerp_(gradient, 1 - betas[0])
    v.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    denominator = v.sqrt().add_(epsilon).div_(rate)
    variable.value.addcdiv_(m, denominator, value=-1)


def attributes(layer) -> dict:
    """The attributes of a layer; torch keeps layers apart from the others."""
    return {**vars(layer), **dict(layer.named_children())}


def clip(w, limit):
    """w with its entries clipped to ±limit.

    A variable is clipped in place, several times as fast: an optimizer assigns
    the result to it anyway.
    """
    if isinstance(w, keras.Variable):
        with torch.no_grad():
            return w.value.clamp_(-limit, limit)
    return ops.clip(w, -limit, limit)


def custom_gradient(function, *inputs):
    """Calls `function`, which returns its outputs and its gradient's rule."""
    return _CustomGradient.apply(function, *inputs)


class _CustomGradient(torch.autograd.Function):
    """Like `keras.ops.custom_gradient`, with several outputs."""

    @staticmethod
    def forward(context, function, *inputs):
        outputs, context.gradient = function(*inputs)
        return outputs

    @staticmethod
    def backward(context, *upstream):
        return None, *context.gradient(*upstream)


def dense(gradient):
    """The gradient as a tensor, also if it is sparse."""
    return gradient.to_dense() if gradient.is_sparse else gradient


@torch.no_grad()
def finite(g):
    """The gradient, with zeros where its square is not finite."""
    # Checking every entry costs more than the one sum that says whether to, as
    # long as the processor need not wait for the sum.
    if g.device.type == "cpu":
        flat = g.reshape(-1)
        if torch.isfinite(torch.dot(flat, flat)):
            return g
    return torch.where(torch.isfinite(g * g), g, torch.zeros_like(g))


def gradients(function, variables):
    """The gradients of the scalar function() with respect to variables."""
    values = [variable.value for variable in variables]
    return torch.autograd.grad(function(), values, allow_unused=True)


def is_concrete(x) -> bool:
    """Whether x has a value, instead of being traced."""
    return getattr(getattr(x, "device", None), "type", "cpu") != "meta"


def pull_back(function, x, others, upstream):
    """The gradients of the list function(x, others), times `upstream`."""
    x, *others = (t.detach().requires_grad_() for t in (x, *others))
    with torch.enable_grad():
        outputs = function(x, others)
    return torch.autograd.grad(
        outputs, [x, *others], upstream, materialize_grads=True
    )


def scan(step, carry, inputs, like, reverse=False):
    """Runs `carry, outputs = step(carry, inputs)` over the first axis.

    Returns the last `carry` and the list of stacked outputs.
    """
    count = len(inputs[0])
    outputs = [None] * count
    for i in reversed(range(count)) if reverse else range(count):
        carry, outputs[i] = step(carry, [x[i] for x in inputs])
    return carry, [torch.stack(each) for each in zip(*outputs)]


@torch.no_grad()
def weighted_sums(function, x, w, keep):
    """Σ d|w| and Σ d with d = function(x), over all axes but `keep`."""

    def both(x, w):
        d = function(x)
        return w.abs().mul_(d), d

    return _sums(both, (x, w), keep)


@torch.no_grad()
def sum_of(function, tensors, keep):
    """Σ function(*tensors) over all axes but `keep`."""
    (total,) = _sums(lambda *parts: [function(*parts)], tensors, keep)
    return total


def _sums(function, tensors, keep):
    """As `sum_of`, of each tensor that the function returns."""
    if not keep:
        tensors = [x.reshape(-1) for x in tensors]
    shape = tensors[0].shape
    total = rows = max(shape[0], 1)
    if 0 not in keep and tensors[0].device.type == "cpu":
        rows = max(PART // max(math.prod(shape[1:]), 1), 1)
    axes = [axis for axis in range(len(shape)) if axis not in keep]

    def add_up(y):  # torch takes no axes for all of them.
        return y.sum(axes) if axes else y

    parts = [
        map(add_up, function(*(x[i : i + rows] for x in tensors)))
        for i in range(0, total, rows)
    ]
    return [torch.stack(part).sum(0) for part in zip(*parts)]


class TrainStep:
    """The training step of `keras_lab.LABModel`: Algorithm 1, line by line."""

    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)

        # Lines 1-9. α is a function of w^t and d^{t-1}: the optimizer computed
        # it at the end of the last step.
        y_pred = self(x, training=True)
        self.zero_grad()
        loss = self.compute_loss(x, y, y_pred, sample_weight, training=True)
        batch_size = ops.shape(keras.tree.flatten(x)[0])[0]
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=batch_size)

        # Lines 10-14 and 17: the gradient at ŵ, applied to w unchanged.
        weights = self.trainable_weights
        if weights:
            self.optimizer.scale_loss(loss).backward()
            gradients = [variable.value.grad for variable in weights]
            # Lines 15-25: moments, curvature, weights, learning rate; and line
            # 3 of the next step, so that α is up to date between steps.
            with torch.no_grad():
                self.optimizer.apply(gradients, weights)
        else:
            warnings.warn(
                "The model does not have any trainable weights.", stacklevel=2
            )
        logs = self.compute_metrics(x, y, y_pred, sample_weight)
        return {**logs, **self.alpha_logs()}
