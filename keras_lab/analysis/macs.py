"""The number of multiply-accumulates (MACs) that a layer needs per example.

A layer is a list of `Product`s: each weight of a kernel is multiplied at a
number of positions. Only products with the kernels of dense, convolutional and
recurrent layers count. A bias, a batch norm, an activation or a pooling counts
nothing, and an embedding is only looked up.
"""

import dataclasses
import math

import keras
from keras import layers

from keras_lab.convert.graph import trace

__all__ = ["LayerCall", "Product", "layer_calls", "products"]

CONVOLUTIONS = (layers.Conv1D, layers.Conv2D, layers.Conv3D)
DEPTHWISE = (layers.DepthwiseConv1D, layers.DepthwiseConv2D)
SEPARABLE = (layers.SeparableConv1D, layers.SeparableConv2D)
TRANSPOSED = (
    layers.Conv1DTranspose,
    layers.Conv2DTranspose,
    layers.Conv3DTranspose,
)
RECURRENT_CELLS = (layers.LSTMCell, layers.GRUCell, layers.SimpleRNNCell)


@dataclasses.dataclass(frozen=True)
class Product:
    """A kernel, and the sizes of the axes along which its products repeat.

    A size is `None` if it is open, and `axes` is `None` if it is not known.
    """

    kernel: keras.Variable
    axes: tuple | None
    sign_inputs: bool = False

    @property
    def macs(self) -> int | None:
        """Their number, for one position on each axis of open size."""
        if self.axes is None:
            return None
        known = [size for size in self.axes if size is not None]
        return math.prod(known) * math.prod(self.kernel.shape)

    @property
    def is_open(self) -> bool:
        return self.axes is not None and None in self.axes


def products(layer: keras.Layer, shape) -> list[Product] | None:
    """The products of one call of a layer on inputs of a shape.

    `None` if they are not known: the layer is not built, or it is of another
    kind and has a matrix among its weights.
    """
    if not layer.built:
        return None
    if isinstance(layer, keras.Model):
        inside = layer_calls(layer, shape and [shape])
        return _joined([products(call.layer, call.shape) for call in inside])
    signs = getattr(layer, "input_quantizer", None) is not None
    if isinstance(layer, layers.Dense):
        return [Product(layer.kernel, shape and shape[1:-1], signs)]
    # Before the convolutions: Keras derives it from them.
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
    if isinstance(layer, RECURRENT_CELLS):
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
    """The products at all time steps; time is the second axis of `shape`."""
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


@dataclasses.dataclass(frozen=True)
class LayerCall:
    """A call of a layer: the shapes of its first input and of its outputs.

    They include the batch. A shape is `None` if it is unknown.
    """

    layer: keras.Layer
    shape: tuple | None
    output_shape: tuple | None


def layer_calls(
    model: keras.Model, shapes: list | None = None
) -> list[LayerCall]:
    """Each call of a layer in a model; an inner model gives its calls instead.

    In a model that is neither Sequential nor functional, each layer counts as
    called once, with the shape that it was built for. An inner model may leave
    axes open that have a size in the model around it, hence the shapes.
    """
    found = []
    if not getattr(model, "inputs", None):
        for layer in model.layers:
            shape = _built_shape(layer)
            found += _with_inner_calls(layer, shape and [shape], None)
        return found
    for call in trace(model, shapes).calls:
        if isinstance(call.layer, keras.Layer):
            inputs = [tuple(tensor.shape) for tensor in call.inputs]
            outputs = keras.tree.map_structure(
                lambda x: tuple(x.shape), call.outputs
            )
            found += _with_inner_calls(call.layer, inputs, outputs)
    return found


def _with_inner_calls(layer, shapes, output_shape):
    if isinstance(layer, keras.Model):
        return layer_calls(layer, shapes)
    return [LayerCall(layer, shapes[0] if shapes else None, output_shape)]


def _built_shape(layer):
    shape = (layer.get_build_config() or {}).get("input_shape")
    is_shape = isinstance(shape, (list, tuple)) and all(
        size is None or isinstance(size, int) for size in shape
    )
    return tuple(shape) if is_shape else None
