"""What is done to a Keras model, and asked of it, before it is converted."""

import keras

__all__ = [
    "as_functional",
    "channels_first_note",
    "compute_in_float32",
    "fixed_batch_size",
    "input_names",
    "is_recurrent",
    "layers_of",
    "output_names",
    "unique_names",
]


def layers_of(model: keras.Model) -> list:
    """All layers of a model, those inside of models and wrappers included."""
    return list(model._flatten_layers(include_self=False, recursive=True))


def channels_first_note(model: keras.Model) -> str:
    """A sentence on layers that TFLite may not have, or nothing."""
    names = [
        f"'{layer.name}'"
        for layer in layers_of(model)
        if getattr(layer, "data_format", None) == "channels_first"
    ]
    if not names:
        return ""
    return f" Of data_format='channels_first': {', '.join(names)}."


def as_functional(model: keras.Model) -> keras.Model:
    """A Sequential or functional model as a functional one."""
    if isinstance(model, keras.Sequential):
        return keras.Model(model.inputs[0], model.outputs[0], name=model.name)
    return model


def compute_in_float32(model: keras.Model) -> None:
    """Ends mixed precision: TFLite does not compute in half precision."""
    for layer in (model, *layers_of(model)):
        if layer.compute_dtype != "float32":
            layer.dtype_policy = "float32"


def is_recurrent(model: keras.Model) -> bool:
    """Whether a model has a loop over time in it."""
    return any(isinstance(part, keras.layers.RNN) for part in layers_of(model))


def fixed_batch_size(model: keras.Model, batch_size: int | None) -> int | None:
    """The batch size of the file: as asked for, or as the model needs it."""
    fixed = {int(x.shape[0]) for x in model.inputs if x.shape[0] is not None}
    if fixed - {batch_size or min(fixed, default=0)}:
        raise ValueError(
            f"Model '{model.name}' has the batch size "
            f"{' and '.join(map(str, sorted(fixed)))}. "
            f"Received: batch_size={batch_size}"
        )
    if batch_size is None and fixed:
        (batch_size,) = fixed
    if batch_size is None and is_recurrent(model):
        batch_size = 1
    return batch_size


def input_names(model: keras.Model) -> list[str]:
    """The name of each input, in the order of `model.inputs`."""
    layers = [
        layer
        for layer in model.layers
        if isinstance(layer, keras.layers.InputLayer)
    ]
    return [
        next(layer.name for layer in layers if layer.output is tensor)
        for tensor in model.inputs
    ]


def output_names(model: keras.Model) -> list[str]:
    """A name for each output, in the order of `keras.tree.flatten`.

    The key, of a dict of outputs; else the name of the layer. Where one name
    would stand for several, `_1`, `_2` are appended.
    """
    names = [
        path[-1] if path and isinstance(path[-1], str) else name
        for (path, _), name in zip(
            keras.tree.flatten_with_path(model.output), model.output_names
        )
    ]
    return unique_names(names)


def unique_names(names: list[str]) -> list[str]:
    """The names, with a number appended to those that occurred before."""
    unique = []
    for name in names:
        number, candidate = 0, name
        while candidate in unique or (number and candidate in names):
            number += 1
            candidate = f"{name}_{number}"
        unique.append(candidate)
    return unique
