"""The few things that keras.ops does not have, in TensorFlow.

TensorFlow is imported when they run, not when the package is imported.
"""

import os

__all__ = [
    "EventWriter",
    "adam_update",
    "dense",
    "gradient_tape",
    "is_compiling",
    "keep_memory",
    "replicas",
]


def keep_memory():
    """Has TensorFlow keep the memory of a CPU step for the next step.

    The binary kernels of a large network are a large block, new in each step.
    glibc's malloc gives blocks of more than 32 MB back to the system, and a
    compiled step then spends a fifth of its time on page faults. TensorFlow's
    own allocator keeps them. It reads these variables before its first
    operation; later they do nothing. What the user has set stays.
    """
    os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "1")
    if hasattr(os, "sysconf"):
        # Its limit is 64 GB unless told.
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        limit = max(memory >> 20, 1 << 16)
        os.environ.setdefault("TF_CPU_BFC_MEM_LIMIT_IN_MB", str(limit))


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


def dense(gradient):
    """The gradient as a tensor, also where it is that of some rows only."""
    import tensorflow as tf

    return tf.convert_to_tensor(gradient)


class EventWriter:
    """Writes scalars and histograms for TensorBoard, which need not be there.

    `tf.summary.scalar` and `histogram` live in TensorBoard's package;
    `tf.summary.write`, to which they come down, is TensorFlow's own.

    Args:
        log_dir: The folder that TensorBoard is pointed to.
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
        # On the host: summaries have no kernel elsewhere.
        with self._writer.as_default(), tf.device("cpu:0"):
            tf.summary.write(tag, tensor, step=step, metadata=metadata)

    def flush(self):
        self._writer.flush()

    def close(self):
        self._writer.close()


def is_compiling() -> bool:
    """Whether XLA will compile what is being traced."""
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util

    return control_flow_util.GraphOrParentsInXlaContext(
        tf.compat.v1.get_default_graph()
    )


def gradient_tape():
    """Records what happens in its context, and gives gradients of it."""
    import tensorflow as tf

    return tf.GradientTape()


def replicas():
    """How many replicas train in step."""
    import tensorflow as tf

    return tf.distribute.get_strategy().num_replicas_in_sync
