"""Models exported in every format, and what tests ask about the files."""

import functools

import numpy as np
import pytest

import keras_lab
from tests.tflite_export.models import CASES, SIGN_CASES
from tflite_export import Format, read_packed
from tflite_export.convert import convert
from tflite_export.flatbuffer.model import FlatModel, name_of
from tflite_export.prepare import (
    as_functional,
    fixed_batch_size,
    input_names,
    trained_kernels,
)
from tflite_export.rewrite import rewrite
from tflite_export.validate import predict

FORMATS = [str(name) for name in Format]
# All ways in which the two interpreters can run a file.
RUNTIMES = [
    {"runtime": runtime, "xnnpack": xnnpack, "threads": threads}
    for runtime in ("litert", "tf")
    for xnnpack in (True, False)
    for threads in (1, 2)
]
FLOAT_TOLERANCE, INT8_TOLERANCE = 1e-5, 0.02


def tolerance(format):
    return FLOAT_TOLERANCE if "float" in format else INT8_TOLERANCE


def representatives(cases, *names):
    """All cases as parameters; those that are not named are slow."""
    assert set(names) <= set(cases)
    return [
        case if case in names else pytest.param(case, marks=pytest.mark.slow)
        for case in cases
    ]


def randomize(model, seed=0):
    """Weights as after training: no zeros, γ of both signs and one of 0."""
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        shape = weight.shape
        if weight.name == "gamma":
            gamma = rng.normal(size=shape)
            gamma[-1] = 0
            weight.assign(gamma)
        elif weight.name in ("beta", "moving_mean", "bias"):
            weight.assign(0.3 * rng.normal(size=shape))
        elif weight.name == "moving_variance":
            weight.assign(rng.uniform(0.5, 2, size=shape))
    for weight in keras_lab.binary_weights(model).values():
        weight.latent.assign(rng.normal(size=weight.latent.shape))
        weight.refresh()
    return model


class Exported:
    """A model with its file in every format, converted once."""

    def __init__(self, model, batch_size=None):
        self.model = model
        self.frozen = as_functional(keras_lab.freeze(model, strict=False))
        batch_size = fixed_batch_size(self.frozen, batch_size)
        self.converted = convert(self.frozen, batch_size).to_bytes()

    def flat(self):
        """The float model, to be changed."""
        return FlatModel(self.converted)

    @functools.cache  # noqa: B019, it lives as long as the tests of a module
    def content(self, format):
        kernels = trained_kernels(self.model)
        return rewrite(self.flat(), Format(format), kernels)

    def inputs(self, samples, seed=0):
        rng = np.random.default_rng(seed)
        return {
            name: rng.normal(size=(samples, *tensor.shape[1:])).astype("f")
            for name, tensor in zip(
                input_names(self.frozen), self.frozen.inputs
            )
        }

    def expected(self, inputs):
        return predict(self.frozen, inputs)


@functools.cache
def exported(case):
    return Exported(randomize(CASES[case]()))


@functools.cache
def exported_signs(case):
    return Exported(randomize(SIGN_CASES[case]()))


def max_error(expected, actual):
    """The largest difference over the largest output."""
    scale = max(np.abs(y).max() for y in expected.values())
    return max(
        np.abs(actual[name] - y).max() / scale for name, y in expected.items()
    )


def operators(content):
    """Yields each operator: its name, and for its inputs the types, whether
    they are constant, and the tensors."""
    model = FlatModel(content)
    for subgraph in model.subgraphs:
        for operator in subgraph.operators:
            tensors = [
                subgraph.tensors[i] for i in operator.inputs.tolist() if i >= 0
            ]
            yield (
                model.operator_name(operator),
                [model.type_name(tensor) for tensor in tensors],
                [model.is_constant(tensor) for tensor in tensors],
                tensors,
            )


def names_of(content):
    """The names of a file's operators, in order."""
    return [name for name, *_ in operators(content)]


def check_weights_are_read_back(model, content):
    """Signs and α of every kernel are in the file, to the bit."""
    trained = keras_lab.binary_weights(model)
    packed = read_packed(content)
    assert sorted(weight.path for weight in packed) == sorted(trained)
    for weight in packed:
        latent = trained[weight.path].latent.numpy()
        assert weight.shape == weight.signs.shape == latent.shape
        np.testing.assert_array_equal(
            weight.signs, np.where(latent >= 0, 1, -1)
        )
        np.testing.assert_array_equal(weight.alpha, trained[weight.path].alpha)


# Other operators with INT8 inputs fail, or are silently wrong, in one runtime.
INT8_OPERATORS = {
    "FULLY_CONNECTED",
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "TRANSPOSE_CONV",
    "DEQUANTIZE",
}
MOVING_OPERATORS = {
    "GATHER",
    "RESHAPE",
    "CONCATENATION",
    "STRIDED_SLICE",
    "WHILE",
}


def check_no_traps(content):
    """The file has nothing that one of the runtimes gets wrong."""
    for name, types, constant, tensors in operators(content):
        assert not name.startswith("CUSTOM") and "FLEX" not in name
        assert "INT2" not in types
        if "INT4" in types:
            assert name == "FULLY_CONNECTED"
            # XNNPACK's kernel takes a scale per channel and even inputs.
            assert tensors[1].shape[1] % 2 == 0
            assert len(tensors[1].quantization.scale) == tensors[1].shape[0]
        if "INT8" in types:
            assert name in INT8_OPERATORS | MOVING_OPERATORS
        if name in INT8_OPERATORS and "INT8" in types:
            scales = tensors[types.index("INT8")].quantization.scale
            assert np.all(scales > 0) and np.all(np.isfinite(scales))
            if name != "FULLY_CONNECTED":
                assert len(scales) > 1 or 1 in tensors[1].shape
            if name == "CONV_2D":
                assert constant[1]
        if name == "CONCATENATION":
            assert all(len(tensor.shape) < 7 for tensor in tensors)
    # What is unpacked in a loop is unpacked in each call.
    for subgraph in FlatModel(content).subgraphs[1:]:
        names = [name_of(tensor) for tensor in subgraph.tensors]
        assert not any(name.endswith("/sign_bits") for name in names)
