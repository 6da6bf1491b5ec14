"""The layers of a model, each under one unique path.

Keras' own paths are not unique: two models inside a model may each have a layer
`dense`. Here a path has the names of all models and layers around a layer.
"""

from collections.abc import Callable

import keras

__all__ = [
    "leaf_layers",
    "own_weights",
    "sublayers",
    "unused_name",
    "walk",
    "with_inner_layers",
]


def walk(
    model: keras.Layer, enter: Callable[[keras.Layer], bool] | None = None
) -> dict[str, keras.Layer]:
    """Every layer inside a model, by its unique path.

    The layers inside models, wrappers, cells and custom layers are included,
    also those in lists and dicts. A layer that is used several times appears
    once, under the first of its paths. If two layers have the same name in the
    same place, the second one gets a number.

    Args:
        model: A model, or any other layer. It is not part of the result.
        enter: Whether to look inside a layer. Defaults to `None`: always.

    Returns:
        A dict from paths such as `"encoder/dense_1"` to layers, in the order
        of `model.layers`. A layer comes before the layers inside it.

    Example:

    >>> for path, layer in keras_lab.walk(model).items():
    ...     print(path, type(layer).__name__)
    """
    if not isinstance(model, keras.Layer):
        raise TypeError(
            "`model` must be a Keras model or layer. "
            f"Received: model={model!r} of type {type(model).__name__}"
        )
    layers, seen = {}, {id(model)}

    def visit(layer, prefix):
        for inner in sublayers(layer):
            if id(inner) in seen:
                continue
            seen.add(id(inner))
            path = unused_name(prefix + inner.name, layers)
            layers[path] = inner
            if enter is None or enter(inner):
                visit(inner, f"{path}/")

    visit(model, "")
    return layers


def with_inner_layers(layer: keras.Layer) -> list[keras.Layer]:
    """The layer itself, then every layer inside it."""
    return [layer, *walk(layer).values()]


def leaf_layers(
    model: keras.Model, is_container: Callable | None = None
) -> dict[str, keras.Layer]:
    """The layers of a model by path; a container gives those inside it.

    By default, each model is a container.
    """
    is_container = is_container or _is_model
    layers = walk(model, enter=is_container)
    return {path: x for path, x in layers.items() if not is_container(x)}


def own_weights(layer: keras.Layer) -> list[keras.Variable]:
    """The weights of a layer that no layer inside it has."""
    inner = {id(weight) for part in sublayers(layer) for weight in part.weights}
    return [weight for weight in layer.weights if id(weight) not in inner]


def sublayers(layer):
    """The layers directly inside a layer, in order."""
    found = list(layer.layers) if _is_model(layer) else []
    # A Sequential also holds itself as a functional model.
    if not isinstance(layer, keras.Sequential):
        found += _layers_in(list(vars(layer).values()))
    return list({id(x): x for x in found}.values())


def _layers_in(value):
    if isinstance(value, keras.Layer):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple, set)):
        return []
    return [layer for item in value for layer in _layers_in(item)]


def _is_model(layer):
    return isinstance(layer, keras.Model)


def unused_name(name, names):
    """The name, with a number if it is among the names already."""
    number, unused = 1, name
    while unused in names:
        unused, number = f"{name}_{number}", number + 1
    return unused
