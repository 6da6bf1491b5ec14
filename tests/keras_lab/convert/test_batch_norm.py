"""`recalibrate_batch_norm`: the statistics of the data, or those before."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.keras_lab.support import Holder, assert_same, random, sequential


def network():
    return sequential(
        (8, 8, 3),
        layers.Conv2D(4, 3, name="conv"),
        layers.BatchNormalization(name="first"),
        layers.Dropout(0.5),
        layers.BatchNormalization(momentum=0.7, name="second"),
    )


def assert_statistics_of(layer, seen):
    seen = np.asarray(seen, "float64").reshape(-1, seen.shape[-1])
    np.testing.assert_allclose(layer.moving_mean, seen.mean(0), atol=1e-5)
    np.testing.assert_allclose(layer.moving_variance, seen.var(0), rtol=1e-4)


@pytest.mark.parametrize("batch_size", [13, 40])
def test_recalibration_gives_the_statistics_of_the_data(batch_size):
    """With any batch size: with 13, the last batch has one row."""
    model, x = network(), random((40, 8, 8, 3))
    x += np.arange(40)[:, None, None, None] / 10  # Batches differ, then.
    conv, first, _, second = model.layers
    # What the statistics were does not count.
    first.moving_variance.assign(np.full(4, np.nan))
    before = conv.get_weights()
    count = keras_lab.recalibrate_batch_norm(model, x, batch_size)
    assert count == -(-40 // batch_size)
    assert_statistics_of(first, conv(x))
    assert second.momentum == 0.7
    # Dropout was off: otherwise the variance would be twice as large.
    np.testing.assert_allclose(second.moving_variance, 1, atol=0.1)
    assert_same(before, conv.get_weights())


def two_inputs(norm):
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    return keras.Model([a, b], [norm(a), norm(b)])


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_a_layer_used_twice_has_the_statistics_of_both(kind):
    """However the inputs are given, as to `fit`."""
    norm = layers.BatchNormalization()
    x = random((30, 4)), 5 + random((30, 4), seed=1)
    data = dict(zip("ab", x)) if kind is dict else kind(x)
    model = two_inputs(norm)
    assert keras_lab.recalibrate_batch_norm(model, data, batch_size=20) == 2
    assert_statistics_of(norm, np.concatenate(x))


def test_masked_steps_do_not_count():
    norm = layers.BatchNormalization()
    model = sequential((6, 4), layers.Masking(), norm)
    x = random((30, 6, 4))
    x[:, 4:] = 0
    x[7] = 0
    keras_lab.recalibrate_batch_norm(model, x, batch_size=7)
    assert_statistics_of(norm, np.delete(x, 7, axis=0)[:, :4])


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return pairs()[index]


def pairs():
    x, y = random((30, 8, 8, 3)), random((30, 3))
    return [(x[n : n + 10], y[n : n + 10]) for n in (0, 10, 20)]


@pytest.mark.parametrize(
    "make", [pairs, lambda: [x for x, _ in pairs()], Batches]
)
def test_batches_are_given_as_to_fit_and_frozen_layers_stay(make):
    model, x = network(), random((30, 8, 8, 3))
    conv, norm, *_ = model.layers
    assert keras_lab.recalibrate_batch_norm(model, make()) == 3
    assert_statistics_of(norm, conv(x))
    norm.trainable = False
    keras_lab.recalibrate_batch_norm(model, 5 * x)
    assert_statistics_of(norm, conv(x))


class Sorted(keras.utils.PyDataset):
    """A hundred batches of three rows; each is its own number."""

    def __len__(self):
        return 100

    def __getitem__(self, index):
        return np.full((3, 1), index, "float32"), None


SORTED = np.arange(100.0).repeat(3)[:, None]


@pytest.mark.parametrize(
    "data", [SORTED, keras.ops.convert_to_tensor(SORTED), Sorted()]
)
@pytest.mark.parametrize("limit", [{"batches": 40}, {"rows": 118}])
def test_a_part_of_sorted_data_stands_for_the_whole(data, limit):
    norm = layers.BatchNormalization()
    model = sequential((1,), norm)
    found = keras_lab.recalibrate_batch_norm(model, data, 3, **limit)
    assert found == 40
    np.testing.assert_allclose(norm.moving_mean, 49.5, atol=5)
    np.testing.assert_allclose(norm.moving_variance, 833, rtol=0.1)


def test_rows_are_counted_in_batches_of_any_size():
    model = network()
    assert keras_lab.recalibrate_batch_norm(model, pairs(), rows=11) == 2
    assert keras_lab.recalibrate_batch_norm(model, pairs(), rows=99) == 3
    with pytest.raises(ValueError, match="rows=0"):
        keras_lab.recalibrate_batch_norm(model, pairs(), rows=0)


class Endless(Batches):
    num_batches = None


def test_data_without_an_end_need_a_number_of_batches():
    model, data = network(), Endless()
    with pytest.raises(ValueError, match="must have an end"):
        keras_lab.recalibrate_batch_norm(model, data)
    assert keras_lab.recalibrate_batch_norm(model, data, batches=2) == 2


def test_after_an_error_the_model_is_as_it_was():
    model, x = network(), random((10, 8, 8, 3))
    before = model.get_weights()
    with pytest.raises(ValueError, match="'first' must be finite"):
        keras_lab.recalibrate_batch_norm(model, [x, np.nan * x])
    assert_same(before, model.get_weights())
    assert model.layers[3].momentum == 0.7
    assert "call" not in vars(model.layers[3])


def test_batch_norm_inside_wrappers_and_custom_layers_is_measured():
    norm = layers.BatchNormalization()
    custom = Holder(layers.BatchNormalization)
    inner = sequential((4,), layers.Dense(3), norm)
    model = sequential((6, 4), layers.TimeDistributed(inner), custom)
    x = random((20, 6, 4))
    keras_lab.recalibrate_batch_norm(model, x, batch_size=8)
    assert_statistics_of(norm, inner.layers[0](x.reshape(-1, 4)))
    np.testing.assert_allclose(custom.inner.moving_variance, 1, atol=0.2)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ("data.npz", TypeError, "data='data.npz'"),
        ([], ValueError, "at least one batch"),
        ([np.ones(3)] * 3, ValueError, "each of the 2 inputs"),
        ([np.ones(3), np.ones(4)], ValueError, "same number of rows"),
    ],
)
def test_mistakes_are_named(data, error, message):
    model = two_inputs(layers.BatchNormalization())
    with pytest.raises(error, match=message):
        keras_lab.recalibrate_batch_norm(model, data)
    with pytest.raises(ValueError, match=r"not \(x, y\)"):
        keras_lab.recalibrate_batch_norm(network(), (np.ones(3),) * 2)
    with pytest.raises(ValueError, match="no weights yet"):
        keras_lab.recalibrate_batch_norm(keras.Sequential(), np.ones(3))
    with pytest.warns(UserWarning, match="no trainable batch norm"):
        model = sequential((4,), layers.Dense(2))
        assert keras_lab.recalibrate_batch_norm(model, random((9, 4))) == 0
