"""Scalars and histograms for TensorBoard."""

__all__ = ["EventWriter"]


class EventWriter:
    """Writes scalars and histograms for TensorBoard, which may be missing.

    `tf.summary.scalar` and `tf.summary.histogram` need TensorBoard's package.
    `tf.summary.write`, which they call, does not. It needs TensorFlow, whatever
    the backend of Keras is.

    Args:
        log_dir: The folder that TensorBoard reads.
    """

    def __init__(self, log_dir):
        try:
            import tensorflow as tf
        except ImportError as error:
            raise ImportError(
                "Files for TensorBoard are written with TensorFlow. Run: pip "
                f"install tensorflow. Received: log_dir='{log_dir}'"
            ) from error
        self._tf = tf
        self._writer = tf.summary.create_file_writer(str(log_dir))

    def scalar(self, tag, value, step):
        value = self._tf.constant(value, self._tf.float32)
        self._write("scalars", tag, value, step)

    def histogram(self, tag, edges, counts, step):
        rows = list(zip(edges[:-1], edges[1:], counts))
        value = self._tf.constant(rows, self._tf.float64)
        self._write("histograms", tag, value, step)

    def _write(self, plugin, tag, tensor, step):
        summary = self._tf.compat.v1.SummaryMetadata
        plugin = summary.PluginData(plugin_name=plugin)
        metadata = summary(plugin_data=plugin)
        # Summary operations exist only for the CPU.
        with self._writer.as_default(), self._tf.device("cpu:0"):
            self._tf.summary.write(tag, tensor, step=step, metadata=metadata)

    def flush(self):
        self._writer.flush()

    def close(self):
        self._writer.close()
