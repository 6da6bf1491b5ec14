"""The few things that keras.ops does not have, in TensorFlow.

TensorFlow is imported when they run, not when this module is imported.
"""

__all__ = [
    "EventWriter",
    "adam_update",
    "dense",
    "executing_eagerly",
    "gradient_tape",
    "half_sum_of_squares",
    "is_compiling",
    "replicas",
]


def adam_update(variable, m, v, gradient, rate, betas, epsilon):
    """Takes one step of Adam in one pass over the variables.

        m ← β₁m + (1−β₁)g,   v ← β₂v + (1−β₂)g²,   w ← w − rate·m / (√v + ε)

    With keras.ops it would be twelve passes, unless XLA fuses them.
    """
    import tensorflow as tf

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


def dense(gradient):
    """The gradient as a tensor, also if it is sparse."""
    import tensorflow as tf

    return tf.convert_to_tensor(gradient)


def half_sum_of_squares(x):
    """½·Σx², in one pass over x and without a copy."""
    import tensorflow as tf

    return tf.nn.l2_loss(x)


class EventWriter:
    """Writes scalars and histograms for TensorBoard, which may be missing.

    `tf.summary.scalar` and `tf.summary.histogram` need TensorBoard's package.
    `tf.summary.write`, which they call, does not.

    Args:
        log_dir: The folder that TensorBoard reads.
    """

    def __init__(self, log_dir):
        import tensorflow as tf

        self._writer = tf.summary.create_file_writer(str(log_dir))

    def scalar(self, tag, value, step):
        import tensorflow as tf

        self._write("scalars", tag, tf.constant(value, tf.float32), step)

    def histogram(self, tag, edges, counts, step):
        import tensorflow as tf

        rows = list(zip(edges[:-1], edges[1:], counts))
        self._write("histograms", tag, tf.constant(rows, tf.float64), step)

    def _write(self, plugin, tag, tensor, step):
        import tensorflow as tf

        metadata = tf.compat.v1.SummaryMetadata(
            plugin_data=tf.compat.v1.SummaryMetadata.PluginData(
                plugin_name=plugin
            )
        )
        # Summary operations exist only for the CPU.
        with self._writer.as_default(), tf.device("cpu:0"):
            tf.summary.write(tag, tensor, step=step, metadata=metadata)

    def flush(self):
        self._writer.flush()

    def close(self):
        self._writer.close()


def is_compiling() -> bool:
    """Whether the function that is being traced is compiled by XLA."""
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util

    return control_flow_util.GraphOrParentsInXlaContext(
        tf.compat.v1.get_default_graph()
    )


def executing_eagerly() -> bool:
    """Whether operations run now, instead of being traced."""
    import tensorflow as tf

    return tf.executing_eagerly()


def gradient_tape():
    """Records operations, to compute gradients of them."""
    import tensorflow as tf

    return tf.GradientTape()


def replicas():
    """The number of replicas that train together."""
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync
