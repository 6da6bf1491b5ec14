"""Small models, random arrays, and checks that several tests share."""

import keras
import numpy as np

import keras_lab


def random(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def sequential(shape, *layers, dtype=None, **options):
    inputs = keras.Input(shape, dtype=dtype)
    return keras.Sequential([inputs, *layers], **options)


def saved_and_loaded(model, folder):
    model.save(folder / "model.keras")
    return keras.models.load_model(folder / "model.keras")


class Subclassed(keras.Model):
    """A model with its own `call`, not built before it is called."""

    def __init__(self, *parts, **kwargs):
        super().__init__(**kwargs)
        self.parts = list(parts)

    def call(self, x):
        for layer in self.parts:
            x = layer(x)
        return x


class Holder(keras.layers.Layer):
    """A custom layer that creates another, which its config does not name."""

    def __init__(self, create=lambda: keras_lab.BinaryDense(5), **kwargs):
        super().__init__(**kwargs)
        self.inner = create()

    def get_config(self):
        return {"name": self.name}

    def build(self, shape):
        self.inner.build(shape)

    def call(self, x, training=None):
        return self.inner(x, training=training)


def assert_same(one, other):
    """Two lists of arrays are equal to the bit."""
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def in_full_precision(model, **options):
    return keras_lab.binarize_model(
        model, None, skip_first=False, skip_last=False, **options
    )


def assert_equal_in_full_precision(model, tolerance=1e-6):
    new, report = in_full_precision(model, return_report=True)
    assert report.converted
    shapes = keras.tree.map_shape_structure(
        lambda shape: (2, *(8 if n is None else n for n in shape[1:])),
        model.input_shape,
    )
    x = keras.tree.map_shape_structure(random, shapes)
    expected = keras.tree.flatten(model(x, training=False))
    for a, b in zip(keras.tree.flatten(new(x, training=False)), expected):
        scale = max(1.0, float(np.abs(b).max()))
        np.testing.assert_allclose(a / scale, b / scale, atol=tolerance)
    names = [layer.name for layer in model.layers]
    assert [layer.name for layer in new.layers] == names
