"""The few things that keras.ops does not have, in TensorFlow.

TensorFlow is imported when they run, not when the package is imported.
"""

__all__ = ["adam_update", "gradient_tape", "replicas"]


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


def gradient_tape():
    """Records what happens in its context, and gives gradients of it."""
    import tensorflow as tf

    return tf.GradientTape()


def replicas():
    """How many replicas train in step."""
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync
