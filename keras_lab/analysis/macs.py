"""The number of multiply-accumulates (MACs) that a layer needs per example.

A layer is a list of `Product`s: each weight of a kernel is multiplied at a
number of positions. Only products with the kernels of dense, convolutional and
recurrent layers count. A bias, a batch norm, an activation or a pooling counts
nothing, and an embedding is only looked up.
"""

import dataclasses
import math
from collections.abc import Iterator

import keras
from keras import layers

from keras_lab.binary_weight import weight_of
from keras_lab.convert.graph import Call, trace

__all__ = ["Product", "layer_calls", "products_of_calls"]

# These multiply at each position of the input, others of the output.
TRANSPOSED = (
    layers.Conv1DTranspose,
    layers.Conv2DTranspose,
    layers.Conv3DTranspose,
)
CONVOLUTIONS = (layers.Conv1D, layers.Conv2D, layers.Conv3D, *TRANSPOSED)
CONVOLUTIONS += (layers.DepthwiseConv1D, layers.DepthwiseConv2D)
SEPARABLE = (layers.SeparableConv1D, layers.SeparableConv2D)
RECURRENT_CELLS = (layers.LSTMCell, layers.GRUCell, layers.SimpleRNNCell)


@dataclasses.dataclass(frozen=True)
class Product:
    """A kernel, and the sizes of the axes along which its products repeat.

    A size is `None` if it is open.
    """

    kernel: keras.Variable
    axes: tuple
    sign_inputs: bool = False

    @property
    def is_binary(self) -> bool:
        """Whether the kernel has two values."""
        return weight_of(self.kernel) is not None

    @property
    def macs(self) -> int:
        """Their number, for one position on each axis of open size."""
        known = [size for size in self.axes if size is not None]
        return math.prod(known) * math.prod(self.kernel.shape)


def products_of_calls(layer: keras.Layer, calls) -> list[Product] | None:
    """The products of all calls of a layer.

    `None` if they are not known: the layer is not built, or it has a matrix
    among its weights and is of another kind or its inputs are not known.
    """
    return _joined(_products(layer, call.input_shape) for call in calls)


def _products(layer, shape):
    """The products of one call of a layer on inputs of a shape."""
    if not layer.built:
        return None
    has_matrix = any(len(weight.shape) > 1 for weight in layer.weights)
    if isinstance(layer, layers.Embedding) or not has_matrix:
        return []
    if shape is None:
        return None
    if isinstance(layer, keras.Model):
        inside = layer_calls(layer, [keras.KerasTensor(shape)])
        return _joined(_products(x.layer, x.input_shape) for x in inside)
    signs = getattr(layer, "input_quantizer", None) is not None
    if isinstance(layer, layers.Dense):
        return [Product(layer.kernel, shape[1:-1], signs)]
    if isinstance(layer, CONVOLUTIONS):
        return [Product(layer.kernel, _positions(layer, shape), signs)]
    if isinstance(layer, SEPARABLE):
        axes = _positions(layer, shape)
        return [
            Product(layer.depthwise_kernel, axes, signs),
            Product(layer.pointwise_kernel, axes),
        ]
    if isinstance(layer, layers.RNN):
        return _repeated(_products(layer.cell, ()), shape[1])
    if isinstance(layer, layers.StackedRNNCells):
        return _joined(_products(cell, ()) for cell in layer.cells)
    if isinstance(layer, RECURRENT_CELLS):
        return _cell_products(layer, signs)
    if isinstance(layer, layers.Bidirectional):
        directions = (layer.forward_layer, layer.backward_layer)
        return _joined(_products(part, shape) for part in directions)
    if isinstance(layer, layers.TimeDistributed):
        inner = _products(layer.layer, (shape[0], *shape[2:]))
        return _repeated(inner, shape[1])
    return None


def _cell_products(cell, signs):
    recurrent = Product(cell.recurrent_kernel, (), signs)
    if getattr(cell, "one_hot", None) is not None:
        return [recurrent]
    inputs_are_signs = getattr(cell, "binarize_inputs", False)
    return [Product(cell.kernel, (), inputs_are_signs), recurrent]


def _repeated(parts, steps):
    return parts and [
        dataclasses.replace(part, axes=(steps, *part.axes)) for part in parts
    ]


def _joined(lists):
    lists = list(lists)
    if None in lists:
        return None
    return [part for parts in lists for part in parts]


def _positions(layer, shape):
    """The axes along which a convolution multiplies its kernel."""
    if not isinstance(layer, TRANSPOSED):
        shape = layer.compute_output_shape(tuple(shape))
    first = layer.data_format == "channels_first"
    return shape[2:] if first else shape[1:-1]


def layer_calls(model: keras.Model, inputs=()) -> Iterator[Call]:
    """Each call of a layer in a model; an inner model gives its calls instead.

    In a model that is neither Sequential nor functional, each layer counts as
    called once, with the shape that it was built for.
    """
    if getattr(model, "inputs", None):
        calls = trace(model, inputs).calls
    else:
        calls = [Call(x, (_built_for(x), {}), None) for x in model.layers]
    for call in calls:
        if isinstance(call.layer, keras.Model):
            # It has its own `call`.
            yield from layer_calls(call.layer, call.inputs)
        elif isinstance(call.layer, keras.Layer):
            yield call


def _built_for(layer):
    shape = (layer.get_build_config() or {}).get("input_shape")
    is_shape = isinstance(shape, (list, tuple)) and all(
        size is None or isinstance(size, int) for size in shape
    )
    return (keras.KerasTensor(shape),) if is_shape else ()
