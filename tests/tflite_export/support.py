"""Models exported in every format, and what tests ask about the files."""

import functools

import keras
import numpy as np
import pytest

import keras_lab
from tests.tflite_export.models import CASES
from tflite_export import Format, layers_in_float, read_packed, run
from tflite_export.convert import convert
from tflite_export.flatbuffer.model import FlatModel, name_of
from tflite_export.formats import OtherWeights
from tflite_export.prepare import (
    as_functional,
    fixed_batch_size,
    input_names,
    trained_kernels,
)
from tflite_export.recipe import Recipe
from tflite_export.rewrite import rewrite, rewrite_once
from tflite_export.runtimes import Runtime
from tflite_export.validate import predict

slow_param = functools.partial(pytest.param, marks=pytest.mark.slow)
# All ways in which the two interpreters can run a file.
RUNTIMES = [
    {"runtime": runtime, "xnnpack": xnnpack}
    for runtime in ("litert", "tf")
    for xnnpack in (True, False)
]
FORMATS = [str(name) for name in Format]
BINARY_FORMATS = [format for format in FORMATS if format != "float"]


def tolerance(format, case=""):
    """The largest error of a format, or of a case in it.

    Signs are exact in int8, and packed rows and Winograd's products are float.
    """
    floats = format == "packed" and case.startswith(("rows", "winograd"))
    return 1e-5 if "float" in format or "sign" in case or floats else 0.02


def random_signs(rng, *shape):
    return np.where(rng.normal(size=shape) >= 0, 1, -1).astype("f")


def randomize(model, size=0.3):
    """Weights as after training: no zeros, γ of both signs and one of 0.

    With a `size` of 0.3, α·√units is below 1 in small recurrent layers, and a
    state forgets errors. Above 1 it amplifies them from step to step.
    """
    rng = np.random.default_rng(0)
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
        weight.latent.assign(size * rng.normal(size=weight.latent.shape))
        weight.refresh()
    return model


def mostly_slow(values, quick):
    """Parameters that are slow unless they are among the quick ones."""
    return [v if v in quick else slow_param(v) for v in values]


class Exported:
    """A model with its file in every format, converted once."""

    def __init__(self, model):
        self.model = model
        self.frozen = as_functional(keras_lab.freeze(model, strict=False))
        batch_size = fixed_batch_size(self.frozen, None)
        self.converted = convert(self.frozen, batch_size)
        self.content = functools.cache(self._content)
        self.samples = functools.cache(self._samples)

    def _content(self, format, other_weights="float32", runtime=None):
        recipe = Recipe(
            Format(format),
            trained_kernels(self.model),
            other_weights=OtherWeights(other_weights),
            runtime=Runtime.of(runtime),
        )
        # The small models of the tests stand for large ones.
        return rewrite_once(self.converted, recipe)[0]

    def _samples(self, count):
        """Random inputs, and what Keras computes from them, by name."""
        rng, inputs = np.random.default_rng(0), {}
        for name, x in zip(input_names(self.frozen), self.frozen.inputs):
            shape = count, *x.shape[1:]
            values = rng.normal(size=shape)
            if not keras.backend.is_float_dtype(x.dtype):
                values = rng.integers(0, 9, shape)
            inputs[name] = values.astype(x.dtype)
        return inputs, predict(self.frozen, inputs)

    def error(self, format, samples=5, **options):
        """The largest difference from Keras, over the largest output."""
        return self.error_of(self.content(format), samples, **options)

    def error_of(self, content, samples=5, **options):
        inputs, expected = self.samples(samples)
        return max_error(expected, run(content, inputs, **options))

    def check_read_back(self, format):
        """The signs and α of every kernel are in the file, to the bit."""
        trained = keras_lab.binary_weights(self.model)
        packed = read_packed(self.content(format))
        assert sorted(weight.path for weight in packed) == sorted(trained)
        for weight in packed:
            latent = trained[weight.path].latent.numpy()
            assert weight.shape == weight.signs.shape == latent.shape
            signs = np.where(latent >= 0, 1, -1)
            np.testing.assert_array_equal(weight.signs, signs)
            alpha = trained[weight.path].alpha
            np.testing.assert_array_equal(weight.alpha, alpha)


@functools.cache
def exported(case):
    model = CASES[case]()
    recurrent = any(
        isinstance(x, keras.layers.RNN) for x in keras_lab.walk(model).values()
    )
    return Exported(randomize(model, 0.3 if recurrent else 1))


def max_error(expected, actual):
    """The largest difference over the largest output."""
    assert set(expected) == set(actual)
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


def sign_bits(model):
    """The tensors of a flat model's main subgraph that hold sign bits."""
    tensors = model.subgraphs[0].tensors
    return [t for t in tensors if name_of(t).endswith("/sign_bits")]


def change_sign_bits(model, change):
    """Changes the words of the first binary weight of a packed flat model."""
    tensor = sign_bits(model)[0]
    words = change(model.constant(tensor).copy()).astype(np.int16)
    tensor.buffer = model.add_buffer(words)


def change_files(monkeypatch, change):
    """Makes each file that is exported another one, before it is validated."""

    def changed(content, recipe):
        flat = FlatModel(rewrite(content, recipe))
        change(flat)
        return flat.to_bytes()

    monkeypatch.setattr(layers_in_float, "rewrite", changed)
