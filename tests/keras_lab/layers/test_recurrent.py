"""Binary recurrent layers give what the layers of Keras give."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_lab
from keras_lab.quantizers import LAB
from tests.keras_lab.engine import MANY_STEPS, NAME, dtype_of
from tests.keras_lab.layers.recurrent import (
    BATCH,
    FEATURES,
    KINDS,
    TIME,
    UNITS,
    binary,
    each_kind,
    outputs_and_gradients,
    pair,
    random,
    trained,
)
from tests.keras_lab.support import assert_same, saved_and_loaded, sequential

SEQUENCES = {"return_sequences": True}
OPTIONS = [
    {},
    SEQUENCES,
    {"return_state": True},
    {"go_backwards": True},
    {"go_backwards": True, **SEQUENCES},
    {"unroll": True, **SEQUENCES},
    {"dropout": 0.3, "seed": 1},
    {"recurrent_dropout": 0.3, "seed": 1},
    {"dropout": 0.3, "recurrent_dropout": 0.2, "seed": 1},
    {"use_bias": False, **SEQUENCES},
    {"activation": "relu"},
    {"zero_output_for_mask": True, **SEQUENCES},
]
GATED = [
    {"recurrent_activation": "hard_sigmoid"},
    # Without `use_cudnn`, Keras' own fails here.
    {"implementation": 1, "dropout": 0.3, "seed": 1, "use_cudnn": False},
]
RESET_BEFORE = {"reset_after": False}
OPTIONS_OF = {
    "SimpleRNN": OPTIONS,
    "LSTM": [*OPTIONS, *GATED, {"unit_forget_bias": False}],
    "GRU": [
        *OPTIONS,
        *GATED,
        RESET_BEFORE,
        {**RESET_BEFORE, "recurrent_dropout": 0.3, "seed": 1},
    ],
}


def check_equals_keras(layer, plain, x, **call):
    ours = outputs_and_gradients(layer, trained(layer.cell), x, **call)
    keras_ = outputs_and_gradients(plain, trained(plain.cell), x, **call)
    assert len(ours) == len(keras_)
    for a, b in zip(ours, keras_):
        scale = max(1.0, np.abs(b).max())
        np.testing.assert_allclose(a / scale, b / scale, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(kind, options) for kind in KINDS for options in OPTIONS_OF[kind]],
)
@pytest.mark.parametrize(
    "quantizer", [pytest.param(None, marks=pytest.mark.slow), "lab"]
)
@pytest.mark.parametrize("training", [True, False])
def test_outputs_and_gradients_are_those_of_keras(
    kind, options, quantizer, training
):
    if (kind, NAME) == ("GRU", "jax") and "use_bias" in options:
        pytest.skip("Keras' own GRU without a bias fails on JAX")
    layer, plain = pair(kind, quantizer, **options)
    x = random(BATCH, TIME, FEATURES)
    mask = None
    if "zero_output_for_mask" in options:
        mask = np.tile(np.arange(TIME) % 3 != 1, (BATCH, 1))
    check_equals_keras(layer, plain, x, training=training, mask=mask)


@each_kind
@pytest.mark.parametrize(
    "jit_compile", [None, pytest.param(True, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("go_backwards", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_masks_and_initial_states_are_those_of_keras(
    kind, jit_compile, go_backwards, masked
):
    options = {"return_sequences": True, "return_state": True}
    layer, plain = pair(kind, "lab", go_backwards=go_backwards, **options)
    mask = np.ones((BATCH, TIME), bool)
    mask[0, 2:] = mask[1, :3] = mask[2, 1] = False
    states = [
        random(BATCH, UNITS, seed=s) for s in range(len(layer.state_size))
    ]
    check_equals_keras(
        layer,
        plain,
        random(BATCH, TIME, FEATURES),
        mask=ops.convert_to_tensor(mask) if masked else None,
        initial_state=states,
        training=True,
        jit_compile=jit_compile,
    )


@each_kind
@pytest.mark.parametrize("quantizer", [None, "lab"])
def test_a_stateful_layer_goes_on_from_its_last_state(kind, quantizer):
    layer, plain = pair(kind, quantizer, stateful=True)
    for seed in range(3):
        x = random(BATCH, TIME, FEATURES, seed=seed)
        np.testing.assert_allclose(layer(x), plain(x), atol=1e-6)
    layer.reset_state()
    plain.reset_state()
    np.testing.assert_allclose(layer(x), plain(x), atol=1e-6)


@each_kind
@pytest.mark.parametrize(
    ("policy", "tolerance"), [("mixed_float16", 4e-3), ("mixed_bfloat16", 3e-2)]
)
def test_mixed_precision_is_that_of_keras(kind, policy, tolerance):
    layer, plain = pair(kind, "lab", dtype=policy, return_sequences=True)
    x = random(BATCH, TIME, FEATURES)
    ours, keras_ = layer(x, training=True), plain(x, training=True)
    assert dtype_of(ours) == dtype_of(keras_) == policy.removeprefix("mixed_")
    np.testing.assert_allclose(
        ops.cast(ours, "float32"), ops.cast(keras_, "float32"), atol=tolerance
    )
    assert layer.cell.kernel.dtype == layer.cell.alpha.dtype == "float32"


@each_kind
def test_a_saved_model_goes_on_training_as_if_never_stopped(kind, tmp_path):
    x, y = random(8, TIME, FEATURES), random(8, TIME, 3, seed=1)
    options = {"dropout": 0.2, "seed": 3, "input_quantizer": "sign"}
    layer = binary(kind, return_sequences=True, **options)
    model = sequential((TIME, FEATURES), layer, keras.layers.Dense(3))
    model.compile(keras_lab.LABAdam(0.01, clipvalue=5.0), "mse", **MANY_STEPS)
    # Within a graph TensorFlow's threads may add in another order.
    model.run_eagerly = NAME == "tensorflow"
    model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    again = saved_and_loaded(model, tmp_path)
    again.run_eagerly = model.run_eagerly
    for trained_model in (model, again):
        trained_model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
    assert_same(model.variables, again.variables)
    np.testing.assert_array_equal(model(x), again(x))
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(model(x), clone(x))


@each_kind
def test_config_brings_back_the_same_layer_and_cell(kind):
    options = {
        "input_quantizer": "sign",
        "activation": "sign",
        "binarize_inputs": True,
        "kernel_quantizer": LAB(scale="channel"),
        "dropout": 0.1,
    }
    layer = binary(kind, return_sequences=True, go_backwards=True, **options)
    cell = getattr(keras_lab, f"Binary{kind}Cell")(UNITS, **options)
    for thing in (layer, cell):
        again = type(thing).from_config(thing.get_config())
        assert again.get_config() == thing.get_config()
        for name in ("kernel_constraint", "recurrent_constraint"):
            constraint = thing.get_config()[name]
            assert constraint["class_name"] == "WeightClip"
    assert layer.cell.kernel_quantizer.scale == "channel"
    # What keras.layers has in its config, it finds here as well.
    plain = getattr(keras.layers, kind)(UNITS).get_config()
    assert set(plain) <= set(layer.get_config())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, "units=0"),
        ({"units": True}, "units=True"),
        ({"units": 4, "kernel_quantizer": "lap"}, "kernel_quantizer='lap'"),
        ({"units": 4, "binarize_inputs": True}, "binarize_inputs=True"),
        ({"units": 4, "one_hot": 0}, "one_hot=0"),
        ({"units": 4, "one_hot": 9, "dropout": 0.5}, "dropout=0.5"),
        ({"units": 4, "use_cudnn": True}, "use_cudnn=True"),
        ({"units": 4, "peepholes": True}, "peepholes"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_received(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        keras_lab.BinaryLSTM(**arguments)


def test_a_wrong_input_is_named_with_what_was_received():
    layer = keras_lab.BinaryLSTM(4)
    with pytest.raises(ValueError, match="expected ndim=3, found ndim=2"):
        layer(np.ones((2, 3), "float32"))
    x = np.ones((2, 3, 4), "float32")
    with pytest.raises(ValueError, match="1 initial states"):
        layer(x, initial_state=[np.ones((2, 4), "float32")])
    for mask in (np.ones((2, 3, 1), bool), np.ones(3, bool), np.ones((2, 5))):
        with pytest.raises(ValueError, match=r"mask of shape \("):
            layer(x, mask=mask)
    with pytest.raises(ValueError, match=r"float32"):
        keras_lab.BinaryLSTM(4, one_hot=5)(x[..., :1])
    with pytest.raises(ValueError, match=r"shape \(2, 4\)"):
        keras_lab.BinaryLSTM(4, one_hot=5)(x.astype("int32"))


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_integers_are_cast_as_in_keras(dtype, rng):
    layer, plain = pair("LSTM", "lab")
    x = rng.integers(0, 5, (BATCH, TIME, FEATURES)).astype(dtype)
    np.testing.assert_allclose(layer(x), plain(x), atol=1e-6)


def test_a_stack_in_a_binary_rnn_trains_and_is_saved_and_loaded(tmp_path):
    cells = [keras_lab.BinaryLSTMCell(UNITS), keras_lab.BinaryGRUCell(3)]
    cells = keras.layers.StackedRNNCells(cells)
    layer = keras_lab.BinaryRNN(cells, True, unroll=True)
    assert layer.return_sequences and layer.unroll
    again = keras_lab.BinaryRNN.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    model = sequential((TIME, FEATURES), layer)
    model.compile(keras_lab.LABAdam(0.01), "mse", **MANY_STEPS)
    x, y = random(8, TIME, FEATURES), random(8, TIME, 3, seed=1)
    losses = model.fit(x, y, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    again = saved_and_loaded(model, tmp_path)
    assert type(again.layers[0]) is keras_lab.BinaryRNN
    np.testing.assert_array_equal(model(x), again(x))
    both = keras.layers.Bidirectional(layer)
    assert type(both.backward_layer) is keras_lab.BinaryRNN


LSTM_CELL, GRU_CELL = keras.layers.LSTMCell(3), keras.layers.GRUCell(3)


@pytest.mark.parametrize("cell", [LSTM_CELL, [LSTM_CELL, GRU_CELL]])
def test_a_binary_rnn_needs_a_binary_cell(cell):
    with pytest.raises(ValueError, match=r"Received: cell=.*LSTMCell"):
        keras_lab.BinaryRNN(cell)
