"""Statistics of batch norm, measured anew."""

import contextlib
import itertools

import keras

__all__ = ["recalibrate_batch_norm"]


def recalibrate_batch_norm(
    model: keras.Model, data, batch_size: int = 128, batches: int | None = None
) -> int:
    """Sets the moving statistics of batch norm to those of some data.

    Binary kernels give a network other activations than the ones its moving
    means and variances were averaged over, and flipping signs move them faster
    than the averages follow. Here each becomes the plain average over some
    batches, with the weights as they are now. All other layers run as in
    inference, and nothing else changes.

    Args:
        model: A built model. Layers of batch norm in models within it count;
            frozen ones are left alone, as in training.
        data: The inputs: an array, or batches of them as a `tf.data.Dataset`,
            a `keras.utils.PyDataset` or another iterable. Of a batch that is a
            tuple, the first element is taken.
        batch_size: How many rows of an array make a batch. Defaults to `128`.
        batches: How many batches to use at most. Defaults to all of them.

    Returns:
        The number of batches used.

    Example:

    >>> keras_lab.recalibrate_batch_norm(model, train_images[:5000])
    """
    layers = [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.BatchNormalization)
        and layer.trainable
    ]
    count = 0
    with _only_these_learn(layers):
        for inputs in itertools.islice(_batches(data, batch_size), batches):
            for layer in layers:
                layer.momentum = count / (count + 1)
            model(inputs, training=False)
            count += 1
    if not count:
        raise ValueError(
            "`recalibrate_batch_norm` needs at least one batch. "
            f"Received: data={data!r:.200}, batches={batches!r}"
        )
    return count


@contextlib.contextmanager
def _only_these_learn(layers):
    """In here, layers of batch norm run as in training, whatever they hear."""
    before = [(layer, layer.call, layer.momentum) for layer in layers]
    for layer, call, _ in before:
        layer.call = _in_training(call)
    try:
        yield
    finally:
        for layer, _, momentum in before:
            del layer.call
            layer.momentum = momentum


def _in_training(call):
    def call_in_training(*args, training=None, **kwargs):
        return call(*args, training=True, **kwargs)

    return call_in_training


def _batches(data, batch_size):
    if hasattr(data, "shape"):
        starts = range(0, len(data), batch_size)
        yield from (data[start : start + batch_size] for start in starts)
        return
    if isinstance(data, keras.utils.PyDataset):
        data = (data[index] for index in range(len(data)))
    for batch in data:
        yield batch[0] if isinstance(batch, (tuple, list)) else batch
