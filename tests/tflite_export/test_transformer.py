"""Embeddings and attention are stored with one bit per weight."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
import tflite_export


@pytest.mark.parametrize("scale", ["tensor", "channel"])
def test_every_kernel_of_a_transformer_takes_one_bit(scale, tmp_path):
    options = {"kernel_quantizer": keras_lab.LAB(scale=scale)}
    words = keras.Input((6,), dtype="int32")
    x = keras_lab.BinaryEmbedding(50, 16, name="words", **options)(words)
    y = keras_lab.BinaryMultiHeadAttention(2, 8, name="heads", **options)(
        x, x, use_causal_mask=True
    )
    y = keras_lab.BinaryEinsumDense(
        "abc,cd->abd", (None, 8), bias_axes="d", name="mix", **options
    )(layers.LayerNormalization()(x + y))
    model = keras.Model(words, y)
    data = np.random.default_rng(0).integers(0, 50, (4, 6)).astype("int32")
    formats = ["packed_float", "packed"] if scale == "tensor" else ["fast"]
    for format in formats:
        path = tmp_path / f"{format}.tflite"
        report = tflite_export.export_tflite(
            model, path, format, validation_data=data
        )
        assert not report.not_packed
        found = {w.path: w for w in tflite_export.read_packed(path)}
        trained = keras_lab.binary_weights(model)
        assert set(found) == set(trained)
        for name, weight in trained.items():
            signs = np.sign(np.asarray(weight.value()))
            np.testing.assert_array_equal(
                np.reshape(found[name].signs, signs.shape), signs
            )
