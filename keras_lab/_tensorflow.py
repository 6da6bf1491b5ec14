"""What keras.ops does not have, in TensorFlow. See `_backend.py`."""

import functools
import os
import warnings

import keras
import tensorflow as tf
from keras import ops
from tensorflow.python.ops import control_flow_util

from keras_lab import _common, _sums

# An optimizer can assign α inside a compiled step.
SCALE_IS_TRAINABLE = False

init_scope = tf.init_scope
# The versions of keras.ops may round float64 to float32.
sqrt, expm1 = tf.sqrt, tf.math.expm1
# The same on another backend.
attributes = _common.attributes
clip = _common.clip
sign = _common.sign
signed = _common.signed
sync = _common.sync


def adam_update(variable, m, v, gradient, rate, betas, epsilon):
    """Takes one step of Adam in one pass over the variables.

        m ← β₁m + (1−β₁)g,   v ← β₂v + (1−β₂)g²,   w ← w − rate·m / (√v + ε)

    With keras.ops it would be twelve passes, unless XLA fuses them.
    """
    # The rate and epsilon already contain the bias corrections.
    no_power = tf.zeros((), gradient.dtype)
    tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=m.handle,
        v=v.handle,
        beta1_power=no_power,
        beta2_power=no_power,
        lr=rate,
        beta1=tf.constant(betas[0], gradient.dtype),
        beta2=tf.constant(betas[1], gradient.dtype),
        epsilon=epsilon,
        grad=gradient,
    )


def constrain_value(variable):
    """Gives a variable's constraint to TensorFlow's own variable inside.

    An optimizer that gets those of `tape.watched_variables()` applies it, too.
    """
    if isinstance(variable.value, tf.Variable):
        variable.value._constraint = variable.constraint


def custom_gradient(function, *inputs):
    """Calls `function`, which returns its outputs and the rule of its gradient.

    `keras.ops.custom_gradient` allows one output on torch.
    """
    return tf.custom_gradient(function)(*inputs)


def dense(gradient):
    """The gradient as a tensor, also if it is sparse."""
    return tf.convert_to_tensor(gradient)


def finite(g):
    """The gradient, with zeros where its square is not finite."""
    if _in_xla():
        # XLA makes it part of the update, at no cost.
        return _common.finite(g)
    # Checking every entry costs more than the one sum that says whether to.
    is_finite = ops.isfinite(tf.nn.l2_loss(g))
    return ops.cond(is_finite, lambda: g, lambda: _common.finite(g))


def gradients(function, variables):
    """The gradients of the scalar function() with respect to variables."""
    with tf.GradientTape() as tape:
        loss = function()
    return tape.gradient(loss, [variable.value for variable in variables])


def _in_xla():
    """Whether XLA will compile what is being traced."""
    graph = tf.compat.v1.get_default_graph()
    return control_flow_util.GraphOrParentsInXlaContext(graph)


def is_concrete(x) -> bool:
    """Whether operations run now, instead of being traced."""
    return tf.executing_eagerly()


def keep_memory():
    """See `keras_lab.config.keep_memory`."""
    if "TF_CPU_ALLOCATOR_USE_BFC" in os.environ:
        return
    if _has_started():
        warnings.warn(
            "`keep_memory()` has no effect: TensorFlow has already run an "
            "operation. Call it right after `import keras_lab`.",
            stacklevel=3,
        )
        return
    os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"
    if hasattr(os, "sysconf"):
        # The allocator's own limit is 64 GB.
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        limit = max(memory >> 20, 1 << 16)
        os.environ.setdefault("TF_CPU_BFC_MEM_LIMIT_IN_MB", str(limit))


def _has_started():
    """Whether TensorFlow has run an operation in this process."""
    # Once it has, the number of threads cannot be changed any more.
    threads = tf.config.threading.get_inter_op_parallelism_threads()
    try:
        tf.config.threading.set_inter_op_parallelism_threads(threads + 1)
    except RuntimeError:
        return True
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    return False


def pull_back(function, x, others, upstream):
    """The gradients of the list function(x, others), times `upstream`."""
    x, others = tf.convert_to_tensor(x), list(others)
    with tf.GradientTape() as tape:
        tape.watch([x, *others])
        outputs = function(x, others)
    return tape.gradient(
        outputs, [x, *others], upstream, tf.UnconnectedGradients.ZERO
    )


def scan(step, carry, inputs, like, reverse=False):
    """Runs `carry, outputs = step(carry, inputs)` over the first axis.

    Returns the last `carry` and the list of stacked outputs, each step of which
    is `like` one of these tensors. In the loop of keras.ops, outputs are like
    the carry.
    """
    inputs = [tf.convert_to_tensor(x) for x in inputs]
    steps = tf.shape(inputs[0])[0]

    def array(tensor, shape):
        return tf.TensorArray(tensor.dtype, steps, element_shape=shape)

    arrays = [array(x, x.shape[1:]).unstack(x) for x in inputs]
    outputs = tuple(array(tensor, tensor.shape) for tensor in like)

    def body(count, carry, outputs):
        i = steps - 1 - count if reverse else count
        carry, now = step(list(carry), [each.read(i) for each in arrays])
        outputs = [each.write(i, x) for each, x in zip(outputs, now)]
        return count + 1, tuple(carry), tuple(outputs)

    _, carry, outputs = tf.while_loop(
        lambda count, *_: count < steps,
        body,
        (0, tuple(tf.convert_to_tensor(x) for x in carry), outputs),
        maximum_iterations=steps,
    )
    return list(carry), [each.stack() for each in outputs]


def _sum_all(x, axes):
    *others, last = axes
    if others:
        x, axes = ops.sum(x, last), others
    # Added up one by one, many numbers in float32 lose digits.
    wide = tf.complex128 if x.dtype.is_complex else tf.float64
    return tf.cast(tf.reduce_sum(tf.cast(x, wide), axes), x.dtype)


def _sum_pair(x, y, axes):
    both = _sum_all(tf.complex(x, y), axes)
    return tf.math.real(both), tf.math.imag(both)


sum_of = functools.partial(_sums.sum_of, sum_all=_sum_all)


def weighted_sums(function, x, w, keep):
    """Σ d|w| and Σ d with d = function(x), over all axes but `keep`."""
    pair = _sum_pair if _in_xla() else None
    return _sums.weighted_sums(function, x, w, keep, _sum_all, pair)


class TrainStep:
    """The training step of `keras_lab.LABModel`: Algorithm 1, line by line."""

    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)

        # Lines 1-9. α is a function of w^t and d^{t-1}: the optimizer computed
        # it at the end of the last step.
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred, sample_weight, training=True)
            self._track_loss(loss, x)
            loss = self.optimizer.scale_loss(loss)

        # Lines 10-14 and 17: the gradient at ŵ, applied to w unchanged.
        weights = self.trainable_weights
        if not weights:
            warnings.warn(
                "The model does not have any trainable weights.", stacklevel=2
            )
        gradients = tape.gradient(loss, weights)

        # Lines 15-25: moments, curvature, weights, learning rate; and line 3
        # of the next step, so that α is up to date between steps.
        self.optimizer.apply(gradients, weights)

        logs = self.compute_metrics(x, y, y_pred, sample_weight)
        return {**logs, **self.alpha_logs()}

    def _track_loss(self, loss, x):
        # Exactly as in Keras: otherwise TensorFlow's graph optimizer rounds
        # differently.
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if replicas > 1:
            loss = loss * replicas
        batch_size = ops.shape(keras.tree.flatten(x)[0])[0]
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=batch_size)
