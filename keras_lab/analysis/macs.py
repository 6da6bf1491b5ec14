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

__all__ = ["Call", "Product", "calls", "products"]

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
        A list, or `None` where they are not known: a layer that is not built,
        or of another kind with a matrix among its weights.
    """
    if not layer.built:
        return None
    if isinstance(layer, keras.Model):
        inside = calls(layer, shape and [shape])
        return _joined([products(call.layer, call.shape) for call in inside])
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


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a layer; its shapes have the batch first.

    Attributes:
        layer: The layer.
        shape: The shape of its first input; `None` if unknown.
        output_shape: The shape of its outputs, in their structure; `None` if
            unknown.
    """

    layer: keras.Layer
    shape: tuple | None
    output_shape: tuple | None


def calls(model: keras.Model, shapes: list | None = None) -> list[Call]:
    """Each call of a layer in a model; nested models give theirs instead.

    A Sequential or functional model is walked through with shapes alone. In
    another one each layer counts as called once, with the shape that it was
    built for.

    Args:
        model: The model.
        shapes: Of its inputs; its own if `None`. A nested model may leave open
            what the model around it does not.
    """
    found = []
    if getattr(model, "inputs", None):
        _walk(model, shapes, found)
    else:
        for layer in model.layers:
            shape = _built_shape(layer)
            _record(layer, shape and [shape], None, found)
    return found


def _walk(model, shapes, found):
    # A new one of the same layers: it may be called, and is not changed.
    graph = keras.Model(model.inputs, model.outputs)
    shapes = shapes or [tensor.shape for tensor in model.inputs]
    inputs = [
        keras.Input(batch_shape=shape, dtype=tensor.dtype)
        for shape, tensor in zip(shapes, model.inputs)
    ]

    def stand_in(operation):
        if isinstance(operation, keras.Layer):
            return _StandIn(operation, found)
        return type(operation).from_config(operation.get_config())

    keras.models.clone_model(graph, inputs, clone_function=stand_in)


class _StandIn(keras.Layer):
    """Takes a layer's place and notes the shapes that it is called with."""

    def __init__(self, layer, found):
        super().__init__(name=layer.name)
        self._noted = lambda: (layer, found)  # Not an attribute to track.

    def compute_output_spec(self, *args, **kwargs):
        layer, found = self._noted()
        outputs = layer.compute_output_spec(*args, **kwargs)
        tensors = keras.tree.flatten(args or list(kwargs.values()))
        shapes = [tuple(tensor.shape) for tensor in tensors]
        _record(layer, shapes, _shapes(outputs), found)
        return outputs

    def call(self, *args, **kwargs):
        raise NotImplementedError


def _record(layer, shapes, output_shape, found):
    if isinstance(layer, keras.Model):
        found += calls(layer, shapes)
    else:
        found.append(Call(layer, shapes[0] if shapes else None, output_shape))


def _shapes(tensors):
    return keras.tree.map_structure(lambda x: tuple(x.shape), tensors)


def _built_shape(layer):
    shape = (layer.get_build_config() or {}).get("input_shape")
    return tuple(shape) if _is_shape(shape) else None


def _is_shape(shape):
    return isinstance(shape, (list, tuple)) and all(
        size is None or isinstance(size, int) for size in shape
    )
