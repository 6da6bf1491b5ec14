"""How many multiply-accumulates a layer takes for one example.

A layer is a list of `Product`s: each weight of a kernel is multiplied at so
many positions. Counted are the products with kernels of dense, convolution and
recurrent layers. A bias, a batch norm, an activation or a pooling count
nothing; an embedding is looked up.
"""

import dataclasses
import math

import keras
from keras import layers

__all__ = ["Product", "calls", "products"]

CONVOLUTIONS = (layers.Conv1D, layers.Conv2D, layers.Conv3D)
DEPTHWISE = (layers.DepthwiseConv1D, layers.DepthwiseConv2D)
SEPARABLE = (layers.SeparableConv1D, layers.SeparableConv2D)
TRANSPOSED = (
    layers.Conv1DTranspose,
    layers.Conv2DTranspose,
    layers.Conv3DTranspose,
)
CELLS = (layers.LSTMCell, layers.GRUCell, layers.SimpleRNNCell)


@dataclasses.dataclass(frozen=True)
class Product:
    """A kernel, and the axes along which it is multiplied again and again.

    Attributes:
        kernel: The variable.
        axes: The sizes of those axes, `None` for one that is open; `None` where
            they are not known at all.
        sign_inputs: Whether its inputs are binarized.
    """

    kernel: keras.Variable
    axes: tuple | None
    sign_inputs: bool = False

    @property
    def macs(self) -> int | None:
        """How many there are, for one position on each open axis."""
        if self.axes is None:
            return None
        known = [size for size in self.axes if size is not None]
        return math.prod(known) * math.prod(self.kernel.shape)

    @property
    def is_open(self) -> bool:
        return self.axes is not None and None in self.axes


def products(layer: keras.Layer, shape) -> list[Product] | None:
    """The products of one call of a layer.

    Args:
        layer: A built layer.
        shape: The shape of its inputs, the batch first; `None` if unknown.

    Returns:
        A list, or `None` where they are not known: a layer of another kind
        that has a matrix among its weights.
    """
    signs = getattr(layer, "input_quantizer", None) is not None
    if isinstance(layer, layers.Dense):
        return [Product(layer.kernel, shape and shape[1:-1], signs)]
    # Before the convolutions, of which Keras derives it.
    if isinstance(layer, TRANSPOSED):
        return [Product(layer.kernel, _spatial(layer, shape), signs)]
    if isinstance(layer, CONVOLUTIONS + DEPTHWISE):
        axes = _spatial(layer, _output_shape(layer, shape))
        return [Product(layer.kernel, axes, signs)]
    if isinstance(layer, SEPARABLE):
        axes = _spatial(layer, _output_shape(layer, shape))
        return [
            Product(layer.depthwise_kernel, axes, signs),
            Product(layer.pointwise_kernel, axes),
        ]
    if isinstance(layer, layers.Embedding):
        return []
    if isinstance(layer, layers.RNN):
        return _repeated(products(layer.cell, None), shape)
    if isinstance(layer, layers.StackedRNNCells):
        return _joined([products(cell, None) for cell in layer.cells])
    if isinstance(layer, CELLS):
        return _cell_products(layer, signs)
    if isinstance(layer, layers.Bidirectional):
        directions = (layer.forward_layer, layer.backward_layer)
        return _joined([products(part, shape) for part in directions])
    if isinstance(layer, layers.TimeDistributed):
        inner = shape and (shape[0], *shape[2:])
        return _repeated(products(layer.layer, inner), shape)
    has_matrix = any(len(weight.shape) > 1 for weight in layer.weights)
    return None if has_matrix else []


def _cell_products(cell, signs):
    recurrent = Product(cell.recurrent_kernel, (), signs)
    if getattr(cell, "one_hot", None) is not None:
        return [recurrent]
    inputs_are_signs = getattr(cell, "binarize_inputs", False)
    return [Product(cell.kernel, (), inputs_are_signs), recurrent]


def _repeated(parts, shape):
    """The products at each time step; time is the second axis of the shape."""
    if parts is None:
        return None
    return [
        dataclasses.replace(
            part,
            axes=None
            if shape is None or part.axes is None
            else (shape[1], *part.axes),
        )
        for part in parts
    ]


def _joined(lists):
    if any(parts is None for parts in lists):
        return None
    return [part for parts in lists for part in parts]


def _spatial(layer, shape):
    if shape is None:
        return None
    first = layer.data_format == "channels_first"
    return shape[2:] if first else shape[1:-1]


def _output_shape(layer, shape):
    return None if shape is None else layer.compute_output_shape(tuple(shape))


def calls(model: keras.Model) -> dict[int, list]:
    """The input shapes of each call of each layer, by the layer's `id`.

    A functional model says in its config how it calls its layers. In another
    one each layer counts as called once, with the shape that it was built for.
    """
    found = {}

    def visit(model, times):
        nodes = _inbound_shapes(model)
        for layer in model.layers:
            shapes = nodes.get(layer.name, [_built_shape(layer)])
            if isinstance(layer, keras.Model):
                visit(layer, times * len(shapes))
            else:
                found.setdefault(id(layer), []).extend(shapes * times)

    visit(model, 1)
    return found


def _inbound_shapes(model):
    """The input shape of each call, by the name of the layer."""
    try:
        config = model.get_config()
    except (NotImplementedError, TypeError, ValueError):
        return {}
    entries = config.get("layers") if isinstance(config, dict) else None
    return {
        entry["name"]: [_first_shape(node) for node in entry["inbound_nodes"]]
        for entry in entries or []
        if isinstance(entry, dict) and "inbound_nodes" in entry
    }


def _first_shape(node):
    """The shape of the first tensor in the config of a call."""
    if isinstance(node, dict):
        if node.get("class_name") == "__keras_tensor__":
            return tuple(node["config"]["shape"])
        node = list(node.values())
    if isinstance(node, (list, tuple)):
        shapes = (_first_shape(item) for item in node)
        return next((shape for shape in shapes if shape is not None), None)
    return None


def _built_shape(layer):
    shape = (layer.get_build_config() or {}).get("input_shape")
    return tuple(shape) if _is_shape(shape) else None


def _is_shape(shape):
    return isinstance(shape, (list, tuple)) and all(
        size is None or isinstance(size, int) for size in shape
    )
