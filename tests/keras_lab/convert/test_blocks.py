"""`binarize_model` goes into custom layers, or keeps them whole."""

import re

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.keras_lab.support import (
    assert_equal_in_full_precision,
    assert_same,
    random,
    saved_and_loaded,
    sequential,
)

register = keras.saving.register_keras_serializable(package="test_blocks")


@register
class Block(layers.Layer):
    """Layers from `__init__` and `build`, alone, in a list and in a dict."""

    def __init__(self, units=6, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.first = layers.Dense(units, "relu", name="first")
        self.list = [layers.Dense(units, name="a"), layers.ReLU()]
        self.dict = {"b": layers.Dense(units, name="b")}

    def build(self, shape):
        self.attention = layers.MultiHeadAttention(2, 3, name="attention")
        self.attention.build(shape, shape)
        self.first.build(shape)
        inner = (*shape[:-1], self.units)
        for part in (self.list[0], self.dict["b"]):
            part.build(inner)
        self.more = []
        self.more.append(layers.Dense(self.units, name="c"))
        self.more.extend([layers.Dense(self.units, name="d")])
        for part in self.more:
            part.build(inner)
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def call(self, x):
        x = self.first(x + self.attention(x, x))
        for part in (*self.list, self.dict["b"], *self.more):
            x = part(x)
        return self.scale * x

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@register
class Nested(layers.Layer):
    """Has no `get_config`: Keras knows its argument."""

    def __init__(self, units=6, **kwargs):
        super().__init__(**kwargs)
        self.block = Block(units, name="block")
        self.mlp = sequential((4, 6), layers.Dense(6, name="e"), name="mlp")

    def call(self, x):
        return self.mlp(self.block(x))


def model_of(*parts, shape=(4, 6)):
    model = sequential(
        shape,
        layers.Dense(6, name="in"),
        *parts,
        layers.Dense(3, name="out"),
    )
    for weight in model.weights:
        weight.assign(random(weight.shape))
    return model


@pytest.mark.parametrize(
    ("make", "path"), [(Block, "{0}"), (Nested, "{0}/block")]
)
@pytest.mark.filterwarnings("error::UserWarning")
def test_the_layers_of_a_block_become_binary(make, path, tmp_path):
    block = make()
    model, x = model_of(block), random((2, 4, 6))
    assert_equal_in_full_precision(model, 1e-5)
    before = model.get_weights()
    new, report = keras_lab.binarize_model(model, return_report=True)
    path = path.format(block.name)
    names = ["first", "a", "b", "c", "d", "attention"]
    converted = {f"{path}/{name}" for name in names}
    converted |= {f"{block.name}/mlp/e"} if make is Nested else set()
    assert set(report.converted) == converted
    found = keras_lab.binary_weights(new)
    assert len(found) == 9 + (make is Nested)
    alphas = {id(weight.alpha) for weight in found.values()}
    assert_same(before, [w for w in new.weights if id(w) not in alphas])
    assert isinstance(new.layers[1], make)
    new.compile(keras_lab.LABAdam(0.01), "mse", run_eagerly=True)
    new.fit(x, random((2, 4, 3)), verbose=0)
    again = saved_and_loaded(new, tmp_path)
    assert_same(again.get_weights(), new.get_weights())
    for other in (again, keras_lab.freeze(new)):
        np.testing.assert_allclose(other(x), new(x), atol=1e-6)
    assert type(keras_lab.freeze(new).layers[1]) is make
    assert_same(before, model.get_weights())


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ("*/a", ["a"]),
        (["blk/attention", "first"], ["first", "attention"]),
        ("blk", ["first", "a", "b", "attention", "c", "d"]),
        (lambda layer: layer.name in "cd", ["c", "d"]),
    ],
)
def test_filters_reach_into_blocks(filters, expected):
    _, report = keras_lab.binarize_model(
        model_of(Block(name="blk")), filters=filters, return_report=True
    )
    assert sorted(report.converted) == sorted(f"blk/{n}" for n in expected)


@register
class Late(layers.Layer):
    """Puts its layers where they cannot be replaced."""

    def build(self, shape):
        self.dense = layers.Dense(6, name="dense")
        self.parts = {}
        self.parts["x"] = layers.Dense(6, name="x")
        self.dense.build(shape)
        self.parts["x"].build(shape)

    def call(self, x):
        return self.parts["x"](self.dense(x))


@register
class Reader(layers.Layer):
    """Reads the kernel of a layer that it does not call."""

    def build(self, shape):
        self.dense = layers.Dense(6, name="dense")
        self.dense.build(shape)

    def call(self, x):
        return x @ self.dense.kernel


@register
class Caller(Reader):
    def call(self, x):
        if type(self.dense) is not layers.Dense:
            raise RuntimeError("I call only my own. " + "word " * 99)
        return self.dense(x)


@register
class Trainer(Reader):
    """Reads the kernel in training only."""

    def call(self, x, training=None):
        return x @ self.dense.kernel if training else self.dense(x)


@register
class Forgetful(Reader):
    """Its config lacks an argument."""

    def __init__(self, factor=1, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, x):
        return self.factor * self.dense(x)

    def get_config(self):
        return super().get_config()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Late, "creates other"),
        (Caller, r": RuntimeError: I call only my own\. .* word …$"),
        (Reader, "reads the weights of a layer inside it directly"),
        (Trainer, "reads the weights of a layer inside it directly"),
    ],
)
def test_a_block_that_cannot_be_converted_stays_whole_and_is_named(
    make, reason
):
    model, x = model_of(make(), Block(name="other")), random((2, 4, 6))
    new, report = keras_lab.binarize_model(model, return_report=True)
    rows = {row.layer: row.skipped for row in report}
    assert re.search(reason, rows[model.layers[1].name])
    assert rows["other/a"] is None
    assert type(new.layers[1]) is make
    start, kept = (
        keras.Model(m.inputs[0], m.layers[1].output) for m in (model, new)
    )
    np.testing.assert_allclose(kept(x), start(x), rtol=1e-4, atol=1e-4)


class Unregistered(Nested):
    pass


def test_a_file_with_an_unknown_class_says_how_to_load_it(
    tmp_path, monkeypatch
):
    new = keras_lab.binarize_model(model_of(Unregistered()))
    classes = {"Unregistered": Unregistered}
    monkeypatch.delitem(globals(), "Unregistered")
    with pytest.raises(ValueError, match="class in `custom_objects`"):
        saved_and_loaded(new, tmp_path)
    path = tmp_path / "model.keras"
    again = keras.models.load_model(path, custom_objects=classes)
    assert_same(again.get_weights(), new.get_weights())


def test_a_block_that_is_another_one_when_rebuilt_is_an_error():
    model = model_of(Forgetful(3, name="mine"), Block())
    for convert in (keras_lab.binarize_model, keras_lab.freeze):
        with pytest.raises(ValueError, match=r"^Layer 'mine' computes"):
            convert(model)


@register
class Head(layers.Layer):
    def __init__(self, embedding, **kwargs):
        super().__init__(**kwargs)
        self.embedding = embedding

    def call(self, x):
        return x @ keras.ops.transpose(self.embedding.embeddings)

    def get_config(self):
        return {**super().get_config(), "embedding": self.embedding}


def test_bad_input_is_named_and_the_model_untouched():
    words = keras.Input((4,), dtype="int32")
    embedding = layers.Embedding(9, 6, name="words")
    tied = layers.Dense(6)(layers.Dense(6)(embedding(words)))
    tied = keras.Model(words, Head(embedding, name="head")(tied))
    lora, quantized = (model_of(Caller(name="block")) for _ in range(2))
    lora.get_layer("block").dense.enable_lora(2)
    quantized.quantize("int8")
    plain = sequential((4,), layers.ReLU(), name="plain")
    for model, message in (
        (tied, "'words' and 'head' share the layer 'words'"),
        (lora, r"block .*kept: a layer inside it has LoRA weights"),
        (quantized, r"block .*kept: a layer inside it is quantized already"),
        (plain, "No layer of model 'plain' can be converted"),
    ):
        before = model.get_weights()
        with pytest.raises(ValueError, match=message):
            keras_lab.binarize_model(model)
        assert_same(before, model.get_weights())
