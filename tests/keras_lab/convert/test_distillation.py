"""`Distiller`: the loss has a part of the teacher, nothing else changes."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.keras_lab.convert.support import assert_same, sequential


def network(activation="softmax", outputs=4, inputs=6):
    return sequential(
        (inputs,),
        layers.Dense(8, "relu"),
        layers.Dense(8, "relu"),
        layers.Dense(outputs, activation),
    )


def distiller(teacher, jit_compile=None, **options):
    student = keras_lab.binarize_model(teacher)
    model = keras_lab.Distiller(
        student.inputs, student.outputs, teacher=teacher, **options
    )
    model.compile(
        keras_lab.LABAdam(0.01),
        "sparse_categorical_crossentropy",
        run_eagerly=jit_compile is None,  # Few steps: no graph.
        jit_compile=bool(jit_compile),
    )
    return model, student


def data(rng, count=64):
    x = rng.normal(size=(count, 6)).astype("float32")
    return x, rng.integers(0, 4, count)


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def divergence(teacher, student, temperature):
    """T²·KL of logits, per sample."""
    p, q = softmax(teacher / temperature), softmax(student / temperature)
    return temperature**2 * np.sum(p * np.log(p / q), axis=-1)


@pytest.mark.parametrize("temperature", [1.0, 5.0])
@pytest.mark.parametrize("from_logits", [True, False])
def test_soft_targets_are_the_divergence_of_softened_outputs(
    rng, temperature, from_logits
):
    teacher, student = rng.normal(scale=2, size=(2, 7, 5))
    expected = np.mean(divergence(teacher, student, temperature))
    if not from_logits:
        teacher, student = softmax(teacher), softmax(student)
    loss = keras_lab.SoftTargets(temperature, from_logits)
    assert float(loss(teacher, student)) == pytest.approx(expected, rel=1e-4)
    assert float(loss(teacher, teacher)) == pytest.approx(0, abs=1e-6)
    zero, one = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])
    assert np.isfinite(float(loss(zero, one)))


def test_the_training_loss_is_the_sum_and_the_evaluation_plain(rng):
    teacher = network()
    model, student = distiller(teacher, weight=0.7)
    x, y = data(rng)
    plain = model.evaluate(x, y, verbose=0)
    # The logarithms of probabilities are logits.
    logits = [np.log(m.predict(x, verbose=0)) for m in (teacher, student)]
    soft = divergence(*logits, 2.0)
    history = model.fit(x, y, batch_size=64, verbose=0).history
    total = plain + 0.7 * np.mean(soft)
    assert history["loss"][0] == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize(
    "jit_compile", [pytest.param(True, marks=pytest.mark.slow), False]
)
def test_the_student_learns_and_the_teacher_does_not_change(rng, jit_compile):
    teacher, (x, y) = network(), data(rng)
    before = teacher.get_weights()
    model, student = distiller(teacher, jit_compile, weight=10.0)
    soft = keras_lab.SoftTargets()
    distance = float(soft(teacher(x), student(x)))
    model.fit(x, y, epochs=30, verbose=0)
    assert float(soft(teacher(x), student(x))) < 0.6 * distance
    assert_same(before, teacher.get_weights())
    # The teacher is no part of the model.
    assert len(model.weights) == len(student.weights)


def test_a_loaded_distiller_goes_on_with_a_teacher_and_not_without(
    rng, tmp_path
):
    teacher = network()
    loss = keras_lab.SoftTargets(3.0)
    options = {"weight": 0.3, "distillation_loss": loss, "log_alpha": True}
    model, _ = distiller(teacher, **options)
    x, y = data(rng)
    model.fit(x, y, shuffle=False, verbose=0)
    model.save(tmp_path / "distiller.keras")
    again = keras.models.load_model(tmp_path / "distiller.keras")
    assert again.teacher is None and again.log_alpha
    with pytest.raises(ValueError, match="no teacher"):
        again.fit(x, y, verbose=0)
    again.learn_from(teacher)
    for each in (model, again):
        each.fit(x, y, shuffle=False, verbose=0)
    assert_same(model.get_weights(), again.get_weights())


def test_another_teacher_is_asked_from_the_next_step_on(rng):
    x, y = data(rng)
    first, second = network(), network()
    model, _ = distiller(first, jit_compile=False)
    model.optimizer.learning_rate = 0.0
    model.train_on_batch(x, y)
    model.learn_from(second)
    other, _ = distiller(second, jit_compile=False)
    other.set_weights(model.get_weights())
    np.testing.assert_allclose(
        model.train_on_batch(x, y), other.train_on_batch(x, y), rtol=1e-5
    )


def test_several_outputs_and_sample_weights_count(rng):
    """With a loss by its name, for outputs that have a single class."""
    x, _ = data(rng)
    inputs = keras.Input((6,))
    hidden = layers.Dense(8)(layers.Dense(8, "relu")(inputs))
    outputs = [layers.Dense(1, "sigmoid")(hidden) for _ in range(2)]
    teacher = keras.Model(inputs, outputs)
    with pytest.raises(ValueError, match="binary_crossentropy"):
        distiller(teacher)
    model, student = distiller(teacher, distillation_loss="binary_crossentropy")
    # The compiled part is zero at these targets.
    model.compile(keras_lab.LABAdam(), loss=["mse", "mse"])
    w = rng.random(len(x)).astype("float32")
    loss = model.compute_loss(x, student(x), student(x), w)
    expected = 0
    for t, s in zip(teacher(x), student(x)):
        t, s = np.asarray(t, "float64")[:, 0], np.asarray(s, "float64")[:, 0]
        expected -= np.mean(w * (t * np.log(s) + (1 - t) * np.log(1 - s)))
    assert float(loss) == pytest.approx(expected, rel=1e-4)


def test_a_list_of_outputs_is_matched_by_name(rng):
    x, _ = data(rng)
    inputs = keras.Input((6,))
    z, a = (
        keras.layers.Dense(3, "softmax", name=name)(inputs) for name in "za"
    )
    teacher = keras.Model(inputs, {"z": z, "a": a})
    student = keras_lab.Distiller(inputs, [z, a], teacher=teacher)
    student.compile("sgd", "mse")
    outputs = student(x)
    loss, plain = (
        student.compute_loss(x, outputs, outputs, training=training)
        for training in (True, False)
    )
    assert abs(float(loss) - float(plain)) < 1e-6


def test_soft_targets_of_logits_must_know_that_they_are():
    teacher = network(None)
    with pytest.raises(ValueError, match=r"from_logits.*linear"):
        distiller(teacher)
    logits = keras_lab.SoftTargets(from_logits=True)
    distiller(teacher, distillation_loss=logits)


def test_mistakes_are_named(rng):
    with pytest.raises(ValueError, match="weight=nan"):
        distiller(network(), weight=float("nan"))
    with pytest.raises(TypeError, match=r"use KLDivergence\(\)"):
        distiller(network(), distillation_loss=keras.losses.KLDivergence)
    with pytest.raises(ValueError, match="temperature=0"):
        keras_lab.SoftTargets(0)
    with pytest.raises(TypeError, match="'temperature': 3"):
        distiller(network(), temperature=3)
    model, _ = distiller(network())
    with pytest.raises(ValueError, match=r"\(None, 6\).*\(None, 7\)"):
        model.learn_from(network(inputs=7))
    model.learn_from(network(outputs=5))
    with pytest.raises(ValueError, match=r"\(4,\).*Received: \[\(5,\)\]"):
        model.fit(*data(rng), verbose=0)
