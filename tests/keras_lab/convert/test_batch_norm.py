"""`recalibrate_batch_norm`: the statistics of the data, or those before."""

import re

import keras
import numpy as np
import pytest

import keras_lab


def random(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def network():
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            keras.layers.Conv2D(4, 3, name="conv"),
            keras.layers.BatchNormalization(name="first"),
            keras.layers.Dropout(0.5),
            keras.layers.BatchNormalization(momentum=0.7, name="second"),
        ]
    )


def statistics(layer):
    return layer.moving_mean.numpy(), layer.moving_variance.numpy()


def assert_statistics_of(layer, seen):
    seen = np.asarray(seen, "float64").reshape(-1, seen.shape[-1])
    mean, variance = statistics(layer)
    np.testing.assert_allclose(mean, seen.mean(0), atol=1e-5)
    np.testing.assert_allclose(variance, seen.var(0), rtol=1e-4)


@pytest.mark.parametrize("batch_size", [13, 10, 40])
def test_recalibration_gives_the_statistics_of_the_data(batch_size):
    """Whatever the batches are: 13 leaves one row for the last."""
    model, x = network(), random((40, 8, 8, 3))
    x += np.arange(40)[:, None, None, None] / 10  # Batches differ, then.
    before = model.get_layer("conv").get_weights()
    count = keras_lab.recalibrate_batch_norm(model, x, batch_size)
    assert count == -(-40 // batch_size)
    assert_statistics_of(model.layers[1], model.layers[0](x))
    second = model.get_layer("second")
    assert second.momentum == 0.7
    # Dropout was off: else the variance would be twice as large.
    np.testing.assert_allclose(second.moving_variance, 1, atol=0.1)
    for a, b in zip(before, model.get_layer("conv").get_weights()):
        np.testing.assert_array_equal(a, b)
    y = model(x, training=False)
    np.testing.assert_array_equal(y, model(x, training=False))


def test_what_the_statistics_were_does_not_count():
    model, x = network(), random((20, 8, 8, 3))
    model.layers[1].moving_variance.assign(np.full(4, np.nan))
    keras_lab.recalibrate_batch_norm(model, x)
    assert_statistics_of(model.layers[1], model.layers[0](x))


def test_a_layer_used_twice_has_the_statistics_of_both():
    norm = keras.layers.BatchNormalization()
    a, b = keras.Input((4,)), keras.Input((4,))
    model = keras.Model([a, b], [norm(a), norm(b)])
    x = [random((30, 4)), 5 + random((30, 4), seed=1)]
    keras_lab.recalibrate_batch_norm(model, x, batch_size=20)
    assert_statistics_of(norm, np.concatenate(x))


def test_masked_steps_do_not_count():
    norm = keras.layers.BatchNormalization()
    model = keras.Sequential(
        [keras.Input((6, 4)), keras.layers.Masking(), norm]
    )
    x = random((30, 6, 4))
    x[:, 4:] = 0
    x[7] = 0
    keras_lab.recalibrate_batch_norm(model, x, batch_size=7)
    assert_statistics_of(norm, np.delete(x, 7, axis=0)[:, :4])


def test_recalibration_takes_data_as_fit_does_and_leaves_frozen_layers():
    model = network()
    x, y = random((20, 8, 8, 3)), random((20, 3))
    batches = [(x[:10], y[:10]), (x[10:], y[10:])]
    assert keras_lab.recalibrate_batch_norm(model, batches) == 2
    mean = model.layers[1].moving_mean.numpy()
    assert keras_lab.recalibrate_batch_norm(model, [x[:10], x[10:]]) == 2
    np.testing.assert_allclose(model.layers[1].moving_mean, mean, atol=1e-6)
    model.layers[1].trainable = False
    keras_lab.recalibrate_batch_norm(model, 5 * x)
    np.testing.assert_allclose(model.layers[1].moving_mean, mean, atol=1e-6)


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_several_inputs_are_given_as_to_fit(kind):
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    norm = keras.layers.BatchNormalization()
    model = keras.Model([a, b], norm(keras.layers.Subtract()([a, b])))
    x = random((30, 4)), random((30, 4), seed=1)
    data = dict(zip("ab", x)) if kind is dict else kind(x)
    assert keras_lab.recalibrate_batch_norm(model, data, batch_size=20) == 2
    assert_statistics_of(norm, x[0] - x[1])


@pytest.mark.parametrize("wrong", ["nan", "shape"])
def test_after_an_error_the_statistics_are_as_they_were(wrong):
    model, x = network(), random((20, 8, 8, 3))
    before = [statistics(layer) for layer in (model.layers[1], model.layers[3])]
    batches = [x[:10], x[10:]]
    if wrong == "nan":
        batches[1][0] = np.nan
        message = "'first'.*not finite"
    else:
        batches[1] = batches[1][..., :2]
        message = "shape"
    with pytest.raises(ValueError, match=message):
        keras_lab.recalibrate_batch_norm(model, batches)
    after = [statistics(layer) for layer in (model.layers[1], model.layers[3])]
    np.testing.assert_array_equal(before, after)
    assert model.layers[3].momentum == 0.7
    assert "call" not in vars(model.layers[3])


class Custom(keras.layers.Layer):
    """Holds a batch norm, as a subclassed model may."""

    def __init__(self):
        super().__init__()
        self.norm = keras.layers.BatchNormalization()

    def build(self, shape):
        self.norm.build(shape)

    def call(self, x, training=None):
        return self.norm(x, training=training)


def test_batch_norm_inside_wrappers_and_custom_layers_is_measured():
    custom = Custom()
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    inner.add(keras.layers.BatchNormalization(name="inner"))
    model = keras.Sequential(
        [keras.Input((6, 4)), keras.layers.TimeDistributed(inner), custom]
    )
    x = random((20, 6, 4))
    keras_lab.recalibrate_batch_norm(model, x, batch_size=8)
    assert_statistics_of(
        inner.get_layer("inner"), inner.layers[0](x.reshape(-1, 4))
    )
    np.testing.assert_allclose(custom.norm.moving_variance, 1, atol=0.2)


def test_a_model_without_batch_norm_is_warned_of():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    with pytest.warns(UserWarning, match="no trainable batch norm"):
        assert keras_lab.recalibrate_batch_norm(model, random((9, 4))) == 0


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        (None, {}, TypeError, "data=None"),
        (len, {}, TypeError, "data=<built-in function len>"),
        (3, {}, TypeError, "data=3"),
        ("data.npz", {}, TypeError, "data='data.npz'"),
        ([], {}, ValueError, "at least one batch"),
        (random((0, 8, 8, 3)), {}, ValueError, "at least one batch"),
        (np.float32(1), {}, ValueError, "[()]"),
        ((random((9, 8, 8, 3)), random((9,))), {}, ValueError, "not (x, y)"),
        ([1], {"batch_size": 0}, ValueError, "batch_size=0"),
        ([1], {"batch_size": True}, ValueError, "batch_size=True"),
        ([1], {"batch_size": 2.0}, ValueError, "batch_size=2.0"),
        ([1], {"batches": 0}, ValueError, "batches=0"),
        ([1], {"batches": "all"}, ValueError, "batches='all'"),
    ],
)
def test_mistakes_are_named(data, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        keras_lab.recalibrate_batch_norm(network(), data, **options)


def test_what_is_not_a_built_model_is_named():
    x = random((9, 4))
    with pytest.raises(TypeError, match="model='resnet'"):
        keras_lab.recalibrate_batch_norm("resnet", x)
    model = keras.Sequential([keras.layers.BatchNormalization()], name="mine")
    with pytest.raises(ValueError, match="'mine' has no weights yet"):
        keras_lab.recalibrate_batch_norm(model, x)
    inputs = keras.Input((4,)), keras.Input((4,))
    sum_ = keras.layers.Add()(inputs)
    model = keras.Model(inputs, keras.layers.BatchNormalization()(sum_))
    with pytest.raises(ValueError, match=r"each of the 2 inputs.*3 arrays"):
        keras_lab.recalibrate_batch_norm(model, [x, x, x])
    with pytest.raises(ValueError, match=r"same number of rows.*\(9, 4\)"):
        keras_lab.recalibrate_batch_norm(model, [x, x[:5]])
