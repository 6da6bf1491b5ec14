"""What keras.ops does not have, in JAX. See `_backend.py`."""

import functools

import jax
import keras
from keras import ops

from keras_lab import _common, _malloc, _sums

LONGEST_PART = 64
# The training step is a pure function. What an optimizer assigns is kept only
# if it is one of its own variables or a trainable one.
SCALE_IS_TRAINABLE = True

# In a function that is compiled, a variable gets a value, not a tracer.
init_scope = jax.ensure_compile_time_eval
keep_memory = _malloc.keep_memory
# The versions of keras.ops may round float64 to float32.
sqrt, expm1 = jax.numpy.sqrt, jax.numpy.expm1
# The same on another backend.
attributes = _common.attributes
clip = _common.clip
constrain_value = _common.constrain_value
finite = _common.finite
sign = _common.sign
signed = _common.signed


def adam_update(variable, m, v, gradient, rate, betas, epsilon):
    """Takes one step of Adam, which XLA compiles to one pass.

    m ← β₁m + (1−β₁)g,   v ← β₂v + (1−β₂)g²,   w ← w − rate·m / (√v + ε)
    """
    m.assign(m + (gradient - m) * (1 - betas[0]))
    v.assign(v + (gradient * gradient - v) * (1 - betas[1]))
    variable.assign(variable - rate * m / (sqrt(v.value) + epsilon))


def custom_gradient(function, *inputs):
    """Calls `function`, which returns its outputs and its gradient's rule."""

    def with_one_upstream(*inputs):
        outputs, gradient = function(*inputs)
        return outputs, lambda upstream: gradient(*upstream)

    return jax.custom_gradient(with_one_upstream)(*inputs)


def dense(gradient):
    """The gradient as a tensor, also if it is sparse."""
    return ops.convert_to_tensor(gradient, sparse=False)


def gradients(function, variables):
    """The gradients of the scalar function() with respect to variables."""

    def loss(values):
        state = list(zip(variables, values))
        with keras.StatelessScope(state_mapping=state):
            return function()

    return jax.grad(loss)([variable.value for variable in variables])


def is_concrete(x) -> bool:
    """Whether x has a value, instead of being traced."""
    return not isinstance(x, jax.core.Tracer)


def pull_back(function, x, others, upstream):
    """The gradients of the list function(x, others), times `upstream`."""
    _, rule = jax.vjp(function, x, list(others))
    dx, dothers = rule(list(upstream))
    return [dx, *dothers]


def scan(step, carry, inputs, like, reverse=False):
    """Runs `carry, outputs = step(carry, inputs)` over the first axis.

    Returns the last `carry` and the list of stacked outputs.
    """
    return jax.lax.scan(step, list(carry), list(inputs), reverse=reverse)


def _times_ones(x, axes):
    """The sum of x over axes, as products with ones.

    XLA moves the operations that compute x into a sum, and takes ten times as
    long for it. It does not move them into a product.
    """
    for axis in sorted(axes, reverse=True):
        ones = jax.numpy.ones(x.shape[axis], x.dtype)
        precision = jax.lax.Precision.HIGHEST
        x = jax.numpy.tensordot(x, ones, (axis, 0), precision=precision)
    return x


def _sum_all(x, axes):
    # In short parts first: added up one by one, many numbers lose digits.
    shape, last = list(x.shape), axes[-1]
    length = shape[last]
    part = max(n for n in range(1, LONGEST_PART + 1) if length % n == 0)
    shape[last : last + 1] = [length // part, part]
    x = _times_ones(ops.reshape(x, shape), [last + 1])
    return _times_ones(x, axes)


def _sum_pair(x, y, axes):
    *others, last = axes
    both = ops.sum(jax.lax.complex(x, y), last)
    return _times_ones(both.real, others), _times_ones(both.imag, others)


sum_of = functools.partial(_sums.sum_of, sum_all=_sum_all)
weighted_sums = functools.partial(
    _sums.weighted_sums, sum_all=_sum_all, sum_pair=_sum_pair
)


def sync(model):
    """Gives the variables of a model their values inside an epoch of `fit`."""
    model.jax_state_sync()


class TrainStep:
    """The training step of `keras_lab.LABModel`.

    It is Keras' own step. The optimizer updates α in its `stateless_apply`.
    """

    def train_step(self, state, data):
        logs, state = super().train_step(state, data)
        variables = [*self.trainable_variables, *self.non_trainable_variables]
        values = [*state[0], *state[1]]
        with keras.StatelessScope(state_mapping=list(zip(variables, values))):
            return {**logs, **self.alpha_logs()}, state
