"""Binary recurrent layers against Keras' own and against the oracle."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_lab
from keras_lab.binary_weight import BinaryWeight
from keras_lab.ops import sign_activation
from keras_lab.quantizers import LAB
from tests.keras_lab import oracle

KINDS = ["LSTM", "GRU", "SimpleRNN"]
GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}
BATCH, TIME, FEATURES, UNITS = 3, 6, 4, 5
each_kind = pytest.mark.parametrize("kind", KINDS)

OPTIONS = {
    "default": {},
    "return_sequences": {"return_sequences": True},
    "return_state": {"return_state": True},
    "go_backwards": {"go_backwards": True, "return_sequences": True},
    "go_backwards_last": {"go_backwards": True},
    "unroll": {"unroll": True, "return_sequences": True},
    "dropout": {"dropout": 0.3, "seed": 1},
    "recurrent_dropout": {"recurrent_dropout": 0.3, "seed": 1},
    "both_dropouts": {"dropout": 0.3, "recurrent_dropout": 0.2, "seed": 1},
    "no_bias": {"use_bias": False, "return_sequences": True},
    "relu": {"activation": "relu"},
    "zero_output": {"zero_output_for_mask": True, "return_sequences": True},
}
OF_KIND = {
    "hard_sigmoid": (("LSTM", "GRU"), {"recurrent_activation": "hard_sigmoid"}),
    "no_forget_bias": (("LSTM",), {"unit_forget_bias": False}),
    "implementation_1": (
        ("LSTM", "GRU"),
        {
            "implementation": 1,
            "dropout": 0.3,
            "seed": 1,
            "use_cudnn": False,  # Else Keras' own fails here.
        },
    ),
    "reset_before": (("GRU",), {"reset_after": False}),
    "reset_before_dropout": (
        ("GRU",),
        {"reset_after": False, "recurrent_dropout": 0.3, "seed": 1},
    ),
}
CASES = [(kind, name) for kind in KINDS for name in OPTIONS] + [
    (kind, name) for name, (kinds, _) in OF_KIND.items() for kind in kinds
]


def options_of(name):
    return OPTIONS[name] if name in OPTIONS else OF_KIND[name][1]


def random(*shape, seed=0):
    values = np.random.default_rng(seed).normal(size=shape)
    return tf.constant(values, "float32")


def binary(kind, **options):
    return getattr(keras_lab, f"Binary{kind}")(UNITS, **options)


def pair(kind, quantizer, features=FEATURES, **options):
    """A binary layer, and Keras' with the weights of its forward pass."""
    layer = binary(kind, kernel_quantizer=quantizer, **options)
    plain = getattr(keras.layers, kind)(UNITS, **options)
    shape = (BATCH, TIME, features)
    layer.build(shape)
    plain.build(shape)
    copy_forward_weights(layer.cell, plain.cell)
    return layer, plain


def copy_forward_weights(cell, plain):
    if cell.bias is not None:
        cell.bias.assign(random(*cell.bias.shape, seed=9))
        plain.bias.assign(cell.bias)
    plain.kernel.assign(cell.binary_kernel)
    plain.recurrent_kernel.assign(cell.binary_recurrent_kernel)


def outputs_and_gradients(layer, weights, x, jit_compile=None, **call):
    """Everything that comes out of a layer, and what flows back into it."""
    states = call.get("initial_state") or []

    def run():
        with tf.GradientTape() as tape:
            tape.watch([x, *states])
            outputs = keras.tree.flatten(layer(x, **call))
            loss = sum(tf.reduce_sum(o * tf.cos(o)) for o in outputs)
        variables = [weight.value for weight in weights]
        return outputs, tape.gradient(loss, [x, *states, *variables])

    if jit_compile is not None:
        run = tf.function(run, jit_compile=jit_compile)
    return [np.asarray(t) for t in keras.tree.flatten(run())]


def trained(cell):
    names = ("kernel", "recurrent_kernel", "bias")
    weights = [getattr(cell, name) for name in names]
    return [weight for weight in weights if weight is not None]


def assert_same(layer, plain, x, tolerance=1e-6, **call):
    ours = outputs_and_gradients(layer, trained(layer.cell), x, **call)
    keras_ = outputs_and_gradients(plain, trained(plain.cell), x, **call)
    assert len(ours) == len(keras_)
    for a, b in zip(ours, keras_):
        scale = max(1.0, np.abs(b).max())
        np.testing.assert_allclose(a / scale, b / scale, atol=tolerance)


@pytest.mark.parametrize(("kind", "name"), CASES)
@pytest.mark.parametrize("quantizer", [None, "lab"])
@pytest.mark.parametrize("training", [True, False])
def test_outputs_and_gradients_are_those_of_keras(
    kind, name, quantizer, training
):
    layer, plain = pair(kind, quantizer, **options_of(name))
    x = random(BATCH, TIME, FEATURES)
    mask = None
    if name == "zero_output":
        mask = tf.constant(np.arange(TIME) % 3 != 1)[None] & tf.ones(
            (BATCH, 1), bool
        )
    assert_same(layer, plain, x, training=training, mask=mask)


@each_kind
@pytest.mark.parametrize("quantizer", [None, "lab"])
@pytest.mark.parametrize("jit_compile", [True, None])
@pytest.mark.parametrize("go_backwards", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_masks_and_initial_states_are_those_of_keras(
    kind, quantizer, jit_compile, go_backwards, masked
):
    options = {"return_sequences": True, "return_state": True}
    layer, plain = pair(kind, quantizer, go_backwards=go_backwards, **options)
    mask = np.ones((BATCH, TIME), bool)
    mask[0, 2:] = mask[1, :3] = mask[2, 1] = False
    states = [
        random(BATCH, UNITS, seed=s) for s in range(len(layer.state_size))
    ]
    assert_same(
        layer,
        plain,
        random(BATCH, TIME, FEATURES),
        mask=tf.constant(mask) if masked else None,
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
    assert ours.dtype == keras_.dtype == policy.removeprefix("mixed_")
    np.testing.assert_allclose(
        tf.cast(ours, "float32"), tf.cast(keras_, "float32"), atol=tolerance
    )
    assert layer.cell.kernel.dtype == layer.cell.alpha.dtype == "float32"


def wrapped(cell_or_layer, wrapper):
    """Models around a cell or a layer, in the ways that Keras has."""
    if wrapper == "RNN":
        return keras.layers.RNN(cell_or_layer(), return_sequences=True)
    if wrapper == "last of RNN":
        return keras.layers.RNN(cell_or_layer())
    if wrapper == "stack":
        cells = [cell_or_layer(), cell_or_layer(), cell_or_layer()]
        return keras.layers.RNN(cells, return_sequences=True)
    if wrapper == "stack behind a Keras cell":
        cells = [keras.layers.GRUCell(3), cell_or_layer()]
        return keras.layers.RNN(keras.layers.StackedRNNCells(cells))
    if wrapper == "Bidirectional":
        return keras.layers.Bidirectional(
            cell_or_layer(return_sequences=True), merge_mode="concat"
        )
    return keras.layers.TimeDistributed(cell_or_layer())


def cells_in(layer):
    found = [layer] if hasattr(layer, "recurrent_kernel") else []
    return found + [c for sub in layer._layers for c in cells_in(sub)]


@each_kind
@pytest.mark.parametrize("quantizer", [None, "lab"])
@pytest.mark.parametrize(
    "wrapper",
    [
        "RNN",
        "last of RNN",
        "stack",
        "stack behind a Keras cell",
        "Bidirectional",
        "TimeDistributed",
    ],
)
def test_cells_and_layers_work_in_what_keras_wraps_around_them(
    kind, quantizer, wrapper
):
    suffix = "" if wrapper in ("Bidirectional", "TimeDistributed") else "Cell"
    shape = (BATCH, TIME, FEATURES)
    if wrapper == "TimeDistributed":
        shape = (BATCH, 2, TIME, FEATURES)
    make_binary = getattr(keras_lab, f"Binary{kind}{suffix}")
    make_plain = getattr(keras.layers, f"{kind}{suffix}")
    layer = wrapped(
        lambda **k: make_binary(UNITS, kernel_quantizer=quantizer, **k), wrapper
    )
    plain = wrapped(lambda **k: make_plain(UNITS, **k), wrapper)
    layer.build(shape)
    plain.build(shape)
    cells, plain_cells = cells_in(layer), cells_in(plain)
    assert len(cells) == len(plain_cells) > 0
    for cell, plain_cell in zip(cells, plain_cells):
        if hasattr(cell, "binary_kernel"):
            copy_forward_weights(cell, plain_cell)
        else:
            cell.set_weights(plain_cell.get_weights())
    x = random(*shape)
    ours = outputs_and_gradients(
        layer, [w for c in cells for w in trained(c)], x, training=True
    )
    keras_ = outputs_and_gradients(
        plain, [w for c in plain_cells for w in trained(c)], x, training=True
    )
    for a, b in zip(ours, keras_):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_the_loop_of_other_cells_is_untouched():
    cell = keras.layers.LSTMCell(UNITS)
    layer, plain = keras.layers.RNN(cell), keras.layers.LSTM(UNITS)
    x = random(BATCH, TIME, FEATURES)
    layer.build(x.shape)
    plain.build(x.shape)
    plain.set_weights(layer.get_weights())
    np.testing.assert_allclose(layer(x), plain(x), atol=1e-6)


def test_a_call_of_ones_own_gets_the_inputs():
    class Residual(keras_lab.BinarySimpleRNNCell):
        def call(self, inputs, states, training=False):
            output, states = super().call(inputs, states, training)
            return output + inputs, states

    layer = keras.layers.RNN(Residual(FEATURES), return_sequences=True)
    plain = keras.layers.RNN(
        keras_lab.BinarySimpleRNNCell(FEATURES), return_sequences=True
    )
    x = random(BATCH, TIME, FEATURES)
    layer.build(x.shape)
    plain.build(x.shape)
    plain.set_weights(layer.get_weights())
    np.testing.assert_allclose(layer(x), plain(x) + x, atol=1e-6)


@pytest.mark.parametrize("kind", ["LSTM", "SimpleRNN"])
def test_the_same_cell_twice_in_a_stack_is_used_twice(kind):
    cell = getattr(keras_lab, f"Binary{kind}Cell")(FEATURES)
    plain = getattr(keras.layers, f"{kind}Cell")(FEATURES)
    layers = [keras.layers.RNN([c, c]) for c in (cell, plain)]
    x = random(BATCH, TIME, FEATURES)
    for layer in layers:
        layer.build(x.shape)
    copy_forward_weights(cell, plain)
    a, b = (layer(x, training=True) for layer in layers)
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_second_derivative_in_training_is_an_error():
    layer, plain = pair("SimpleRNN", "lab", unroll=True)
    x = random(BATCH, TIME, FEATURES)

    def second(layer, training):
        with tf.GradientTape() as outer, tf.GradientTape() as inner:
            inner.watch(x)
            outer.watch(x)
            y = tf.reduce_sum(layer(x, training=training))
            size = tf.reduce_sum(inner.gradient(y, x) ** 2)
        return outer.gradient(size, layer.cell.recurrent_kernel.value)

    np.testing.assert_allclose(
        second(layer, False), second(plain, False), atol=1e-5
    )
    with pytest.raises(NotImplementedError, match="training=False"):
        second(layer, True)


def test_a_step_of_ones_own_keeps_its_gradient():
    class Doubled(keras_lab.BinaryLSTMCell):
        def step(self, x, states, ahead, training):
            output, states = super().step(x, states, ahead, training)
            return 2 * output, states

    doubled = keras.layers.RNN(Doubled(UNITS))
    plain = keras.layers.RNN(keras_lab.BinaryLSTMCell(UNITS))
    x, gradients = random(BATCH, TIME, FEATURES), []
    doubled.build(x.shape)
    plain.build(x.shape)
    plain.set_weights(doubled.get_weights())
    for layer, factor in ((doubled, 1), (plain, 2)):
        kernel = layer.cell.recurrent_kernel.value
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.cos(factor * layer(x, training=True)))
        gradients.append(tape.gradient(loss, kernel))
    np.testing.assert_allclose(*gradients, atol=1e-6)


@each_kind
def test_each_gate_of_each_matrix_has_its_own_alpha(kind):
    layer = binary(kind)
    layer.build((BATCH, TIME, FEATURES))
    cell, gates = layer.cell, GATES[kind]
    shape = (gates,) if gates > 1 else ()
    assert cell.alpha.shape == cell.recurrent_alpha.shape == shape
    for name, alpha in (
        ("kernel", cell.alpha),
        ("recurrent_kernel", cell.recurrent_alpha),
    ):
        w = getattr(cell, name).numpy()
        value = np.asarray(getattr(cell, f"binary_{name}"))
        np.testing.assert_array_equal(value > 0, w >= 0)
        for gate, a, v in zip(
            np.split(w, gates, axis=1),
            np.reshape(alpha, -1),
            np.split(value, gates, axis=1),
        ):
            np.testing.assert_allclose(a, np.abs(gate).mean(), rtol=1e-6)
            np.testing.assert_array_equal(np.unique(np.abs(v)), [a])


def test_one_alpha_a_channel_is_one_a_gate_and_unit():
    layer = binary("LSTM", kernel_quantizer=LAB(scale="channel"))
    layer.build((BATCH, TIME, FEATURES))
    assert layer.cell.alpha.shape == (4, UNITS)
    expected = np.abs(layer.cell.kernel).mean(axis=0).reshape(4, UNITS)
    np.testing.assert_allclose(layer.cell.alpha, expected, rtol=1e-6)


def test_outputs_are_those_of_a_numpy_lstm_with_binary_weights(rng):
    layer = binary("LSTM")
    layer.build((BATCH, TIME, FEATURES))
    cell = layer.cell
    cell.alpha.assign(rng.uniform(0.1, 1, 4))
    cell.recurrent_alpha.assign(rng.uniform(0.1, 1, 4))
    w, u = (
        np.repeat(alpha.numpy().astype("float64"), UNITS)
        * oracle.sign(latent.numpy())
        for latent, alpha in (
            (cell.kernel, cell.alpha),
            (cell.recurrent_kernel, cell.recurrent_alpha),
        )
    )
    x = rng.normal(size=(BATCH, TIME, FEATURES))
    expected = oracle.LSTM(cell.bias.numpy()).forward(x, w, u)
    np.testing.assert_allclose(layer(x.astype("float32")), expected, atol=1e-6)


@pytest.mark.parametrize("jit_compile", [True, False])
def test_training_follows_algorithm_1_through_time(rng, jit_compile):
    steps, rate = 20, 2.0**-6
    model = keras.Sequential(
        [
            keras.Input((TIME, FEATURES)),
            keras_lab.BinaryLSTM(8, use_bias=False),
            keras_lab.BinaryDense(10, use_bias=False),
        ]
    )
    lstm, dense = model.layers
    latents = [lstm.cell.kernel, lstm.cell.recurrent_kernel, dense.kernel]
    alphas = [lstm.cell.alpha, lstm.cell.recurrent_alpha, dense.alpha]
    reference = oracle.Algorithm1([oracle.LSTM(), oracle.Dense()], latents)
    model.compile(
        keras_lab.LABAdam(rate), "squared_hinge", jit_compile=jit_compile
    )
    for _ in range(steps):
        x = rng.normal(size=(8, TIME, FEATURES))
        labels = rng.integers(0, 10, (8, 1))
        y = np.where(labels == np.arange(10), 1.0, -1.0)
        model.train_on_batch(x.astype("float32"), y.astype("float32"))
        reference.step(x, y, rate)
        for w, expected in zip(latents, reference.w):
            error = np.linalg.norm(w.numpy() - expected)
            assert error <= 1e-4 * np.linalg.norm(expected)
        for alpha, expected in zip(alphas, reference.alphas()):
            np.testing.assert_allclose(alpha, expected, rtol=1e-4)


@pytest.fixture
def count_of_binarizations(monkeypatch):
    calls = []
    value = BinaryWeight.value

    def counted(self, *args):
        calls.append(self.latent.name)
        return value(self, *args)

    monkeypatch.setattr(BinaryWeight, "value", counted)
    return calls


@each_kind
@pytest.mark.parametrize("steps", [5, 50])
@pytest.mark.parametrize("how", ["eager", "unroll", "graph", "cell", "jit"])
def test_the_binary_weight_is_formed_once_a_forward_pass(
    kind, steps, how, count_of_binarizations
):
    if how == "cell":
        cell = getattr(keras_lab, f"Binary{kind}Cell")(UNITS)
        layer = keras.layers.RNN(cell, unroll=True)
    else:
        layer = binary(kind, unroll=how == "unroll")
    layer.build((BATCH, steps, FEATURES))
    run = (
        layer
        if how == "eager"
        else tf.function(layer, jit_compile=how == "jit")
    )
    run(random(BATCH, steps, FEATURES))
    assert sorted(count_of_binarizations) == ["kernel", "recurrent_kernel"]


def matrix_products(graph):
    return [
        op.outputs[0].shape
        for op in graph.get_operations()
        if op.type in ("MatMul", "BatchMatMulV2")
    ]


@pytest.mark.parametrize("kind", ["LSTM", "SimpleRNN"])
@pytest.mark.parametrize("in_rnn", [True, False])
def test_only_the_recurrent_product_is_left_in_the_loop(kind, in_rnn):
    if in_rnn:
        cell = getattr(keras_lab, f"Binary{kind}Cell")(UNITS)
        layer = keras.layers.RNN(cell, return_sequences=True)
    else:
        layer = binary(kind, return_sequences=True)
    x = random(BATCH, TIME, FEATURES)
    layer.build(x.shape)
    concrete = tf.function(layer).get_concrete_function(x)
    (loop,) = [
        op
        for op in concrete.graph.get_operations()
        if op.type in ("While", "StatelessWhile")
    ]
    body = concrete.graph._get_function(loop.get_attr("body").name)
    columns = UNITS * GATES[kind]
    assert matrix_products(body.graph) == [(BATCH, columns)]
    sequence = (TIME, BATCH, columns)
    flat = (TIME * BATCH, columns)
    outside = [tuple(s) for s in matrix_products(concrete.graph)]
    assert sum(shape in (sequence, flat) for shape in outside) == 1


@each_kind
@pytest.mark.parametrize("training", [True, False])
def test_one_hot_inputs_by_index_are_the_dense_ones(kind, training, rng):
    layer = binary(kind, one_hot=FEATURES, return_sequences=True)
    dense = binary(kind, return_sequences=True)
    layer.build((BATCH, TIME, 1))
    dense.build((BATCH, TIME, FEATURES))
    dense.set_weights(layer.get_weights())
    index = rng.integers(0, FEATURES, (BATCH, TIME))
    one_hot = np.eye(FEATURES, dtype="float32")[index]
    results = []
    for model, x in ((layer, index[..., None]), (dense, one_hot)):
        with tf.GradientTape() as tape:
            y = model(x, training=training)
            loss = tf.reduce_sum(y * tf.cos(y))
        gradients = tape.gradient(loss, [v.value for v in trained(model.cell)])
        results.append([y, *map(tf.convert_to_tensor, gradients)])
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, atol=2e-6)


def test_a_sign_input_quantizer_binarizes_the_hidden_state_only(rng):
    layer = binary("SimpleRNN", input_quantizer="sign", return_sequences=True)
    layer.build((BATCH, TIME, FEATURES))
    cell = layer.cell
    x = rng.normal(size=(BATCH, TIME, FEATURES)).astype("float32")
    w, u = cell.binary_kernel.numpy(), cell.binary_recurrent_kernel.numpy()
    h = np.zeros((BATCH, UNITS))
    for t, output in enumerate(np.swapaxes(layer(x), 0, 1)):
        h = np.tanh(x[:, t] @ w + oracle.sign(h) @ u)
        np.testing.assert_allclose(output, h, atol=1e-5)


def test_inputs_are_binarized_too_on_request():
    both = binary("GRU", input_quantizer="sign", binarize_inputs=True)
    state = binary("GRU", input_quantizer="sign")
    x = random(BATCH, TIME, FEATURES)
    both.build(x.shape)
    state.build(x.shape)
    state.set_weights(both.get_weights())
    np.testing.assert_array_equal(both(x), state(tf.sign(x)))
    assert not np.allclose(both(x), state(x))


@each_kind
@pytest.mark.parametrize("training", [True, False])
def test_the_gradient_passes_the_sign_of_the_state_where_it_is_small(
    kind, training
):
    # Deferred (training) or not, the gradient is that of the same network
    # written with plain operations, one step after the other.
    layer = binary(kind, input_quantizer="sign", activation="relu")
    x = random(BATCH, TIME, FEATURES)
    layer.build(x.shape)
    cell = layer.cell

    def by_hand():
        u, states = (
            cell.binary_recurrent_kernel,
            [tf.zeros((BATCH, UNITS)) for _ in layer.state_size],
        )
        for t in range(TIME):
            projected = cell.project(x[:, t], cell.binary_kernel)
            ahead = keras_lab.layers.time_loop.Ahead.of(None, u)
            output, states = cell.step(projected, states, ahead, False)
        return output

    results = []
    for run in (lambda: layer(x, training=training), by_hand):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.cos(run()))
        results.append(tape.gradient(loss, [v.value for v in trained(cell)]))
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_the_sign_activation_is_the_authors_variant(rng):
    layer = binary("LSTM", activation="sign", return_state=True)
    x = rng.normal(size=(BATCH, 1, FEATURES)).astype("float32")
    output, h, c = layer(x)
    z = x[:, 0] @ layer.cell.binary_kernel.numpy() + layer.cell.bias.numpy()
    z_i, _, z_c, z_o = np.split(z, 4, axis=1)
    np.testing.assert_allclose(c, oracle.sigmoid(z_i) * np.tanh(z_c), atol=1e-6)
    np.testing.assert_allclose(
        h, oracle.sigmoid(z_o) * oracle.sign(np.asarray(c)), atol=1e-6
    )
    np.testing.assert_array_equal(output, h)
    assert keras_lab.BinaryLSTM(3, "sign").activation(-2.0) == -1


def character_model(kind, **options):
    model = keras.Sequential(
        [
            keras.Input((TIME, FEATURES)),
            binary(kind, return_sequences=True, **options),
            keras.layers.Dense(3),
        ]
    )
    model.compile(keras_lab.LABAdam(0.01, clipvalue=5.0), "mse")
    return model


@each_kind
@pytest.mark.parametrize("options", [{}, {"dropout": 0.2, "seed": 3}])
def test_a_saved_model_goes_on_training_as_if_never_stopped(
    kind, options, tmp_path
):
    x, y = random(8, TIME, FEATURES), random(8, TIME, 3, seed=1)
    model = character_model(kind, input_quantizer="sign", **options)
    model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for trained_model in (model, again):
        trained_model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
    for a, b in zip(model.variables, again.variables):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(model(x), again(x))
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    np.testing.assert_array_equal(model(x), clone(x))


@each_kind
def test_training_is_the_same_with_and_without_jit(kind):
    x, y = random(8, TIME, FEATURES), random(8, TIME, 3, seed=1)
    weights = []
    for jit_compile in (True, False):
        keras.utils.set_random_seed(1)
        model = character_model(kind)
        model.compile(keras_lab.LABAdam(0.01), "mse", jit_compile=jit_compile)
        model.fit(x, y, batch_size=4, epochs=3, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    for a, b in zip(*weights):
        np.testing.assert_allclose(a, b, atol=1e-5)


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
    assert layer.cell.kernel_quantizer.scale == "channel"
    # What keras.layers has in its config, it finds here as well.
    plain = getattr(keras.layers, kind)(UNITS).get_config()
    assert set(plain) <= set(layer.get_config())


def test_arguments_keep_the_order_of_the_keras_layer():
    layer = keras_lab.BinaryLSTM(4, "relu", "hard_sigmoid", False)
    assert layer.activation is keras.activations.relu and not layer.use_bias
    assert layer.units == 4 and isinstance(layer, keras.layers.LSTM)
    cell = keras_lab.BinaryGRUCell(4, "relu", "hard_sigmoid", False)
    assert cell.recurrent_activation is keras.activations.hard_sigmoid


def test_both_latent_weights_are_clipped_unless_told_otherwise():
    clip = keras_lab.constraints.WeightClip
    cell = binary("LSTM").cell
    assert isinstance(cell.kernel_constraint, clip)
    assert isinstance(cell.recurrent_constraint, clip)
    free = binary("LSTM", recurrent_constraint=None, kernel_constraint=None)
    assert free.cell.kernel_constraint is free.cell.recurrent_constraint is None
    assert binary("LSTM", kernel_quantizer=None).cell.kernel_constraint is None


def test_two_replicas_of_half_a_batch_train_as_one_of_the_whole(strategy):
    x, y = random(8, TIME, FEATURES), random(8, TIME, 3, seed=1)
    weights = []
    for used in (tf.distribute.OneDeviceStrategy("CPU:0"), strategy):
        keras.utils.set_random_seed(1)
        with used.scope():
            model = character_model("LSTM")
        model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0)
        weights.append(model.get_weights())
    for a, b in zip(*weights):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"units": 0}, "units=0"),
        ({"units": -3}, "units=-3"),
        ({"units": 2.5}, "units=2.5"),
        ({"units": True}, "units=True"),
        ({"units": 4, "kernel_quantizer": "lap"}, "kernel_quantizer='lap'"),
        ({"units": 4, "input_quantizer": "tanh"}, "input_quantizer='tanh'"),
        ({"units": 4, "binarize_inputs": True}, "binarize_inputs=True"),
        ({"units": 4, "one_hot": 0}, "one_hot=0"),
        ({"units": 4, "one_hot": 9, "dropout": 0.5}, "dropout=0.5"),
        ({"units": 4, "use_cudnn": True}, "use_cudnn=True"),
        ({"units": 4, "peepholes": True}, "peepholes"),
        ({}, "units"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_received(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        keras_lab.BinaryLSTM(**arguments)


def test_a_wrong_input_is_named_with_what_was_received():
    layer = keras_lab.BinaryLSTM(4)
    with pytest.raises(ValueError, match="expected ndim=3, found ndim=2"):
        layer(np.ones((2, 3), "float32"))
    with pytest.raises(ValueError, match="dtype int32"):
        layer(np.ones((2, 3, 4), "int32"))
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


def test_sign_activation_of_the_oracle_is_ours():
    x = np.array([-2.0, -0.5, 0.0, 0.5])
    np.testing.assert_array_equal(sign_activation(x), oracle.sign(x))
