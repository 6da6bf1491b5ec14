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


def compiled(model, jit_compile=False):
    loss = "sparse_categorical_crossentropy"
    model.compile(keras_lab.LABAdam(0.01), loss, jit_compile=jit_compile)
    return model


def distiller(teacher, student=None, jit_compile=False, **options):
    student = student or keras_lab.binarize_model(teacher)
    model = keras_lab.Distiller(
        student.inputs, student.outputs, teacher=teacher, **options
    )
    return compiled(model, jit_compile), student


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


def test_a_probability_of_zero_gives_a_finite_loss():
    zero, one = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])
    assert np.isfinite(float(keras_lab.SoftTargets()(zero, one)))


def test_the_training_loss_is_the_sum_and_the_evaluation_plain(rng):
    teacher = network()
    model, student = distiller(teacher, weight=0.7)
    x, y = data(rng)
    plain = model.evaluate(x, y, verbose=0)
    # The logarithms of probabilities are logits.
    soft = divergence(*(np.log(m(x).numpy()) for m in (teacher, student)), 2.0)
    history = model.fit(x, y, batch_size=64, verbose=0).history
    total = plain + 0.7 * np.mean(soft)
    assert history["loss"][0] == pytest.approx(total, rel=1e-4)


def test_without_weight_it_is_a_lab_model_to_the_bit(rng):
    x, y = data(rng)
    teacher, results = network(), []
    for with_teacher in (True, False):
        student = keras_lab.binarize_model(teacher)
        if with_teacher:
            model, _ = distiller(teacher, student, weight=0.0)
        else:
            model = keras_lab.LABModel(student.inputs, student.outputs)
            compiled(model)
        model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
        results.append(student.get_weights())
    assert_same(*results)


@pytest.mark.parametrize(
    "jit_compile", [pytest.param(True, marks=pytest.mark.slow), False]
)
def test_the_student_learns_and_the_teacher_does_not_change(rng, jit_compile):
    teacher, (x, y) = network(), data(rng)
    before, distances = teacher.get_weights(), []
    for weight in (0.0, 10.0):
        model, student = distiller(teacher, None, jit_compile, weight=weight)
        model.fit(x, y, epochs=30, verbose=0)
        soft = keras_lab.SoftTargets()(teacher(x), student(x))
        distances.append(float(soft))
    assert distances[1] < 0.5 * distances[0]
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


def test_several_outputs_and_sample_weights_count(rng):
    x, _ = data(rng)
    inputs = keras.Input((6,))
    hidden = layers.Dense(8)(layers.Dense(8, "relu")(inputs))
    outputs = [layers.Dense(n, "softmax")(hidden) for n in (4, 3)]
    teacher = keras.Model(inputs, outputs)
    model, student = distiller(teacher)
    model.compile(keras_lab.LABAdam(), loss=["mse", "mse"])
    sample_weight = rng.random(len(x)).astype("float32")
    soft = keras_lab.SoftTargets()
    expected = sum(
        float(soft(a, b, sample_weight)) for a, b in zip(teacher(x), student(x))
    )
    # The compiled part is zero at these targets.
    loss = model.compute_loss(x, student(x), student(x), sample_weight)
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_a_single_output_learns_by_the_loss_that_the_error_names(rng):
    teacher, (x, _) = network("sigmoid", outputs=1), data(rng)
    with pytest.raises(ValueError, match="binary_crossentropy"):
        distiller(teacher)
    model, student = distiller(teacher, distillation_loss="binary_crossentropy")
    model.compile(
        keras_lab.LABAdam(0.01), "binary_crossentropy", jit_compile=False
    )
    before = np.abs(teacher(x) - student(x)).mean()
    model.fit(x, teacher(x), epochs=30, verbose=0)
    assert np.abs(teacher(x) - student(x)).mean() < 0.8 * before


def test_soft_targets_of_logits_must_know_that_they_are():
    teacher = network(None)
    with pytest.raises(ValueError, match=r"ends in linear.*from_logits"):
        distiller(teacher)
    logits = keras_lab.SoftTargets(from_logits=True)
    for loss in (logits, "mean_squared_error"):
        distiller(teacher, distillation_loss=loss)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"teacher": "resnet"}, TypeError, "resnet"),
        (
            {"teacher": network(inputs=7)},
            ValueError,
            r"\(None, 6\).*\(None, 7\)",
        ),
        ({"weight": float("nan")}, ValueError, "weight=nan"),
        (
            {"distillation_loss": keras.losses.KLDivergence},
            TypeError,
            r"use KLDivergence\(\)",
        ),
        ({"temperature": 3}, TypeError, "'temperature': 3"),
    ],
)
def test_mistakes_are_named(options, error, message):
    student = keras_lab.binarize_model(network())
    with pytest.raises(error, match=message):
        keras_lab.Distiller(student.inputs, student.outputs, **options)


def test_other_outputs_and_a_wrong_temperature_are_named(rng):
    student = keras_lab.binarize_model(network())
    model, _ = distiller(network(outputs=5), student)
    with pytest.raises(ValueError, match=r"\(4,\).*Received: \[\(5,\)\]"):
        model.fit(*data(rng), verbose=0)
    with pytest.raises(ValueError, match="temperature=0"):
        keras_lab.SoftTargets(0)
