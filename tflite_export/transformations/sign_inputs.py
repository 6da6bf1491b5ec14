"""Sign activations as {0, 1}, which int8 arithmetic represents exactly.

With x = 2z − 1, an operator's W·x + b becomes (2W)·z + (b − W·1). W·1 is the
sum of the weights of a channel. Where a convolution pads its inputs, only the
weights that do not fall on the padding count, so the sum is a map over the
image. Only its few different rows and columns are stored, and the runtime
spreads them out when it allocates the model.
"""

import dataclasses

import numpy as np

from tflite_export.flatbuffer.schema import schema, shape_of
from tflite_export.graph.replacement import Replacement
from tflite_export.graph.signs import sign_argument
from tflite_export.graph.weight_site import WeightSite
from tflite_export.graph.weights import WEIGHTED_OPERATORS, bias_of, data_of
from tflite_export.transformations import int8_arithmetic


def can_apply(site: WeightSite) -> bool:
    """Whether operators that can compute in int8 have signs as inputs."""
    return not site.why_not_int8 and site.has_sign_inputs


def apply(site: WeightSite) -> None:
    """Gives the operators z instead of sign(x), and doubles the weights."""
    weight = site.stored
    int8_arithmetic.apply(site)
    for user in site.users:
        _encode(site.model, weight, user)
    site.stored = dataclasses.replace(weight, scales=2 * weight.scales)


def _encode(model, constant, operator):
    subgraph = model.subgraphs[constant.subgraph]
    name = model.operator_name(operator)
    x = sign_argument(model, subgraph, data_of(model, operator))
    z = _step(model, subgraph, x, operator)
    operator.inputs[WEIGHTED_OPERATORS[name].data] = z
    aligned = np.moveaxis(constant.signs, constant.axis, -1)
    weights = aligned.astype(np.float64) * constant.scales
    if name == "FULLY_CONNECTED":
        sums = weights.sum(axis=0)[None, None]
        rows = columns = np.zeros(1, np.int32)
    else:
        weights = weights.sum(axis=2 if name == "CONV_2D" else 0)
        if name == "DEPTHWISE_CONV_2D":
            weights = weights.reshape(*constant.signs.shape[1:])
        sums, rows, columns = _spatial_sums(model, subgraph, operator, weights)
    if sums.shape[:2] == (1, 1):
        _add_to_bias(model, subgraph, operator, -sums[0, 0])
    else:
        _add_map(model, subgraph, operator, -sums, rows, columns)


def _step(model, subgraph, x, operator):
    """Adds the operators of z: 1 where x ≥ 0, 0 elsewhere."""
    condition = model.add_tensor_like(subgraph, x, "BOOL")
    z = model.add_tensor_like(subgraph, x)
    zero, one = (
        model.add_constant(subgraph, name, np.float32(value))
        for name, value in (("zero", 0), ("one", 1))
    )
    position = subgraph.operators.index(operator)
    subgraph.operators[position:position] = [
        model.operator("GREATER_EQUAL", [x, zero], [condition]),
        model.operator("SELECT_V2", [condition, one, zero], [z]),
    ]
    return z


def _spatial_sums(model, subgraph, operator, weights):
    """Sums of the weights over the taps that fall on data.

    That is, the different rows and columns of the map, [rows, columns,
    channels]; and for each row and each column of the output, which it is.
    """
    shapes = Replacement(model, subgraph, operator)
    different, which = [], []
    for axis in (0, 1):
        stride, dilation = shapes.steps(axis)
        output = np.arange(shapes.shape(shapes.output)[1 + axis])[:, None]
        taps = np.arange(weights.shape[axis])
        places = output * stride - shapes.padding(axis)[0] + taps * dilation
        on_data = (places >= 0) & (places < shapes.shape(shapes.data)[1 + axis])
        kinds, numbers = np.unique(on_data, axis=0, return_inverse=True)
        different.append(kinds)
        which.append(numbers.reshape(-1).astype(np.int32))
    sums = np.einsum("rh,cw,hwo->rco", *different, weights)
    return sums, *which


def _add_to_bias(model, subgraph, operator, addition):
    addition = 0 + addition  # It may be −0.
    for index in bias_of(operator):
        addition = addition + model.constant(subgraph.tensors[index])
    bias = model.add_constant(subgraph, "bias", addition.astype(np.float32))
    operator.inputs = np.append(operator.inputs[:2], np.int32(bias))


def _add_map(model, subgraph, operator, addition, rows, columns):
    """Adds a map to the outputs, before the activation."""
    (output,) = operator.outputs.tolist()
    shape = shape_of(subgraph.tensors[output])
    small = addition.astype(np.float32)[None]
    table = model.add_constant(subgraph, "border_sums", small)
    tall, full = (
        model.add_tensor(subgraph, None, sizes, "FLOAT32")
        for sizes in ((1, len(rows), *small.shape[2:]), (1, *shape[1:]))
    )
    product = model.add_tensor_like(subgraph, output)
    operator.outputs = np.array([product], np.int32)
    options = operator.builtinOptions
    activation = {"fusedActivationFunction": options.fusedActivationFunction}
    options.fusedActivationFunction = schema.ActivationFunctionType.NONE
    position = subgraph.operators.index(operator) + 1
    rows = model.add_constant(subgraph, "rows", rows)
    columns = model.add_constant(subgraph, "columns", columns)
    subgraph.operators[position:position] = [
        model.operator("GATHER", [table, rows], [tall], axis=1),
        model.operator("GATHER", [tall, columns], [full], axis=2),
        model.operator("ADD", [product, full], [output], **activation),
    ]
