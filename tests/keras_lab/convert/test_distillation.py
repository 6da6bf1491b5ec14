"""`Distiller`: the loss has a part of the teacher, nothing else changes."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_lab
from tests.keras_lab.support import (
    assert_same,
    saved_and_loaded,
    sequential,
)

RNG = np.random.default_rng(1)
X = RNG.normal(size=(64, 6)).astype("float32")
Y = RNG.integers(0, 4, 64)


def network(activation="softmax", outputs=4):
    return sequential(
        (6,),
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


def test_the_training_loss_is_the_sum_and_the_evaluation_plain():
    teacher = network()
    model, student = distiller(teacher, weight=0.7)
    plain = model.evaluate(X, Y, verbose=0)
    # The logarithms of probabilities are logits.
    logits = [np.log(m.predict(X, verbose=0)) for m in (teacher, student)]
    soft = divergence(*logits, 2.0)
    history = model.fit(X, Y, batch_size=64, verbose=0).history
    total = plain + 0.7 * np.mean(soft)
    assert history["loss"][0] == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize(
    "jit_compile", [pytest.param(True, marks=pytest.mark.slow), False]
)
def test_the_student_learns_and_the_teacher_does_not_change(jit_compile):
    teacher = network()
    before = teacher.get_weights()
    model, student = distiller(teacher, jit_compile, weight=10.0)
    soft = keras_lab.SoftTargets()
    distance = float(soft(teacher(X), student(X)))
    model.fit(X, Y, epochs=30, verbose=0)
    assert float(soft(teacher(X), student(X))) < 0.6 * distance
    assert_same(before, teacher.get_weights())
    # The teacher is no part of the model.
    assert len(model.weights) == len(student.weights)


def test_a_loaded_distiller_goes_on_with_a_teacher_and_not_without(tmp_path):
    teacher = network()
    loss = keras_lab.SoftTargets(3.0)
    options = {"weight": 0.3, "distillation_loss": loss, "log_alpha": True}
    model, _ = distiller(teacher, **options)
    model.fit(X, Y, shuffle=False, verbose=0)
    again = saved_and_loaded(model, tmp_path)
    assert again.teacher is None and again.log_alpha
    with pytest.raises(ValueError, match="no teacher"):
        again.fit(X, Y, verbose=0)
    again.learn_from(teacher)
    for each in (model, again):
        each.fit(X, Y, shuffle=False, verbose=0)
    assert_same(model.get_weights(), again.get_weights())


def test_another_teacher_is_asked_from_the_next_step_on():
    first, second = network(), network()
    model, _ = distiller(first, jit_compile=False)
    model.optimizer.learning_rate = 0.0
    model.train_on_batch(X, Y)
    model.learn_from(second)
    other, _ = distiller(second, jit_compile=False)
    other.set_weights(model.get_weights())
    np.testing.assert_allclose(
        model.train_on_batch(X, Y), other.train_on_batch(X, Y), rtol=1e-5
    )


def test_outputs_are_matched_by_name_and_each_has_its_loss(rng):
    """With sample weights. The teacher has a dict of outputs, we a list."""
    inputs = keras.Input((6,))
    z = layers.Dense(3, "softmax", name="z")(inputs)
    a = layers.Dense(1, "sigmoid", name="a")(inputs)
    teacher = keras.Model(inputs, {"z": z, "a": a})
    flat = {"teacher": teacher, "weight": 0.5}
    with pytest.raises(ValueError, match="binary_crossentropy"):
        keras_lab.Distiller(inputs, [z, a], **flat)
    soft = keras_lab.SoftTargets()
    with pytest.raises(ValueError, match=r"\['z', 'a'\]"):
        loss = {"zz": soft}
        keras_lab.Distiller(inputs, [z, a], distillation_loss=loss, **flat)
    loss = {"z": soft, "a": "binary_crossentropy"}
    model = keras_lab.Distiller(inputs, [z, a], distillation_loss=loss, **flat)
    model.compile("sgd", loss=["mse", "mse"])
    outputs = [softmax(rng.normal(size=(64, 3))), rng.random((64, 1))]
    outputs = [y.astype("float32") for y in outputs]
    w = rng.random(64).astype("float32")
    # The compiled part is zero at these targets.
    found = model.compute_loss(X, outputs, outputs, w)
    taught = {name: np.asarray(y) for name, y in teacher(X).items()}
    t, s = taught["a"][:, 0], outputs[1][:, 0]
    expected = -(t * np.log(s) + (1 - t) * np.log(1 - s))
    expected += divergence(np.log(taught["z"]), np.log(outputs[0]), 2.0)
    assert float(found) == pytest.approx(0.5 * np.mean(w * expected), rel=1e-4)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"from_logits.*linear"):
        distiller(network(None))
    logits = keras_lab.SoftTargets(from_logits=True)
    distiller(network(None), distillation_loss=logits)
    with pytest.raises(ValueError, match="weight=nan"):
        distiller(network(), weight=float("nan"))
    with pytest.raises(ValueError, match="temperature=0"):
        keras_lab.SoftTargets(0)
    with pytest.raises(TypeError, match="'temperature': 3"):
        distiller(network(), temperature=3)
    model, _ = distiller(network())
    model.learn_from(network(outputs=5))
    with pytest.raises(ValueError, match=r"\(4,\).*Received: \[\(5,\)\]"):
        model.fit(X, Y, verbose=0)
