"""The few things that keras.ops does not have, in TensorFlow.

TensorFlow is imported when they run, not when the package is imported.
"""

__all__ = ["adam_update", "gradients", "replicas"]


def adam_update(variable, m, v, v_max, *, gradient, rate, betas, epsilon):
    """One step of Adam, in one pass over the variables.

        m ← β₁m + (1−β₁)g,   v ← β₂v + (1−β₂)g²,   w ← w − rate·m / (√v + ε)

    With `v_max` (AMSGrad) its maximum with v takes the place of v in the last.
    Written with keras.ops it is twelve passes, unless XLA fuses them.
    """
    import tensorflow as tf

    arguments = {
        "var": variable.handle,
        "m": m.handle,
        "v": v.handle,
        # The corrections for bias are in the rate and in epsilon already.
        "beta1_power": tf.zeros((), gradient.dtype),
        "beta2_power": tf.zeros((), gradient.dtype),
        "lr": rate,
        "beta1": tf.constant(betas[0], gradient.dtype),
        "beta2": tf.constant(betas[1], gradient.dtype),
        "epsilon": tf.cast(epsilon, gradient.dtype),
        "grad": gradient,
    }
    if v_max is None:
        tf.raw_ops.ResourceApplyAdam(**arguments)
    else:
        tf.raw_ops.ResourceApplyAdamWithAmsgrad(vhat=v_max.handle, **arguments)


def gradients(loss_function, variables):
    """The outputs of a function that returns a loss first, and gradients."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        outputs = loss_function()
    return outputs, tape.gradient(outputs[0], variables)


def replicas():
    """How many replicas train in step."""
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync
