"""The few things that keras.ops does not have, in TensorFlow.

TensorFlow is imported when they run, not when the package is imported.
"""

__all__ = ["adam_update", "gradients", "replicas"]


def adam_update(variable, m, v, gradient, rate, betas, epsilon):
    """One step of Adam, in one pass over the variables.

        m ← β₁m + (1−β₁)g,   v ← β₂v + (1−β₂)g²,   w ← w − rate·m / (√v + ε)

    Written with keras.ops it is twelve passes, unless XLA fuses them.
    """
    import tensorflow as tf

    # The corrections for bias are in the rate and in epsilon already.
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
