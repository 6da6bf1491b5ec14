"""`binarize_model` of KerasHub's transformers, with random weights."""

import functools

import keras
import numpy as np
import pytest

import keras_lab
from tests.keras_lab.support import assert_same, saved_and_loaded
from tflite_export import export_tflite, read_packed

keras_hub = pytest.importorskip("keras_hub")
TEXT = {"vocabulary_size": 50, "num_layers": 2, "num_heads": 2, "dropout": 0.0,
        "hidden_dim": 16, "intermediate_dim": 32,
        "max_sequence_length": 8}  # fmt: skip
IMAGE = {"image_shape": (16, 16, 3), "patch_size": (8, 8), "num_layers": 2,
         "num_heads": 2, "hidden_dim": 16, "mlp_dim": 32, "dropout_rate": 0.0,
         "attention_dropout": 0.0}  # fmt: skip
MODELS = {
    "bert": lambda hub: hub.BertBackbone(**TEXT),
    "gpt2": lambda hub: hub.GPT2Backbone(**TEXT),
    # Its embedding is also in the model inside it.
    "gpt2_lm": lambda hub: hub.GPT2CausalLM(backbone=hub.GPT2Backbone(**TEXT)),
    "vit": lambda hub: hub.ViTBackbone(**IMAGE),
    "vit_classifier": lambda hub: hub.ViTImageClassifier(
        backbone=hub.ViTBackbone(**IMAGE), num_classes=3
    ),
}
# Layers with kernels, the embeddings that are not tied included.
PROJECTIONS = {"bert": 14, "gpt2": 12, "gpt2_lm": 12, "vit": 14}
PROJECTIONS["vit_classifier"] = 15
# One representative by default: each takes seconds.
each = pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n == "gpt2" else pytest.mark.slow)
        for n in MODELS
    ],
)


@functools.cache
def model_of(name):
    keras.utils.set_random_seed(0)
    return MODELS[name](keras_hub.models)


def data(model):
    rng = np.random.default_rng(0)

    def random(tensor):
        shape = [2, *(8 if n is None else n for n in tensor.shape[1:])]
        if "int" in tensor.dtype:
            return rng.integers(0, 2, shape).astype("int32")
        return rng.normal(size=shape).astype("float32")

    return keras.tree.map_structure(random, model.input)


def outputs(model, x):
    return [np.asarray(y) for y in keras.tree.flatten(model(x, training=False))]


@each
@pytest.mark.parametrize("ends", [True, False])
def test_in_full_precision_the_outputs_are_the_same(name, ends, tmp_path):
    model, x = model_of(name), data(model_of(name))
    before = model.get_weights()
    new = keras_lab.binarize_model(
        model, None, skip_first=ends, skip_last=False
    )
    again = saved_and_loaded(new, tmp_path)
    for other in (new, again):
        for a, b in zip(outputs(other, x), outputs(model, x), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
    assert_same(before, model.get_weights())


@each
def test_every_projection_is_converted(name):
    new, report = keras_lab.binarize_model(
        model_of(name), skip_first=False, skip_last=False, return_report=True
    )
    assert len(keras_lab.binary_weights(new)) == PROJECTIONS[name]
    assert all("cannot" not in (row.skipped or "") for row in report)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_it_is_saved_resumed_frozen_and_exported(name, tmp_path):
    model = model_of(name)
    x = data(model)
    new = keras_lab.binarize_model(model, skip_first=False, skip_last=False)
    y = keras.tree.map_structure(
        lambda output: np.zeros_like(output), new(x, training=False)
    )
    new.compile(keras_lab.LABAdam(1e-3), "mse", jit_compile=False)
    new.fit(x, y, verbose=0)
    again = saved_and_loaded(new, tmp_path)
    assert_same(new.get_weights(), again.get_weights())
    for model in (new, again):
        model.fit(x, y, verbose=0, shuffle=False)
    assert_same(new.get_weights(), again.get_weights())
    frozen = keras_lab.freeze(new)
    assert not keras_lab.binary_weights(frozen)
    assert_same(outputs(frozen, x), outputs(new, x))
    path = tmp_path / "model.tflite"
    for format in ("float", "packed", "fast", "packed_float"):
        report = export_tflite(
            new, path, format, validation_data=x, batch_size=1
        )
        # The positions of a ViT are constant, so the converter folds them.
        assert all("position" in name for name in report.not_packed)
    stored = len(read_packed(path)) + len(report.not_packed)
    assert stored == PROJECTIONS[name]


def test_a_tied_embedding_is_named():
    model = keras_hub.models.BertMaskedLM(backbone=model_of("bert"))
    with pytest.raises(ValueError, match=r"'mlm_head' share.*token_embedding"):
        keras_lab.binarize_model(model)
    _, report = keras_lab.binarize_model(model_of("gpt2"), return_report=True)
    reasons = {row.layer: row.skipped for row in report}
    assert "tied embedding" in reasons["token_embedding"]
