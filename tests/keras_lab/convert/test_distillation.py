"""`Distiller`: the loss has a part of the teacher, nothing else changes."""

import keras
import numpy as np
import pytest

import keras_lab
import tflite_export


def network(softmax=True, outputs=4):
    activation = "softmax" if softmax else None
    return keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, "relu"),
            keras.layers.Dense(8, "relu"),
            keras.layers.Dense(outputs, activation),
        ]
    )


def distiller(teacher, student=None, jit_compile=False, **options):
    student = student or keras_lab.binarize_model(teacher)
    model = keras_lab.Distiller(
        student.inputs, student.outputs, teacher=teacher, **options
    )
    model.compile(
        keras_lab.LABAdam(0.01),
        "sparse_categorical_crossentropy",
        jit_compile=jit_compile,
    )
    return model, student


def data(rng, count=64):
    x = rng.normal(size=(count, 6)).astype("float32")
    return x, rng.integers(0, 4, count)


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0])
@pytest.mark.parametrize("from_logits", [True, False])
def test_soft_targets_are_the_divergence_of_softened_outputs(
    rng, temperature, from_logits
):
    teacher, student = rng.normal(scale=2, size=(2, 7, 5))
    p, q = softmax(teacher / temperature), softmax(student / temperature)
    expected = temperature**2 * np.mean(np.sum(p * np.log(p / q), axis=-1))
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
    soft = keras_lab.SoftTargets()(teacher(x), student(x))
    history = model.fit(x, y, batch_size=64, verbose=0).history
    total = plain + 0.7 * float(soft)
    assert history["loss"][0] == pytest.approx(total, rel=1e-5)


def test_without_weight_it_is_a_lab_model_to_the_bit(rng):
    x, y = data(rng)
    teacher, results = network(), []
    for weight in (None, 0.0):
        student = keras_lab.binarize_model(teacher)
        if weight is None:
            model = keras_lab.LABModel(student.inputs, student.outputs)
            model.compile(
                keras_lab.LABAdam(0.01),
                "sparse_categorical_crossentropy",
                jit_compile=False,
            )
        else:
            model, _ = distiller(teacher, student, weight=weight)
        model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
        results.append(student.get_weights())
    for a, b in zip(*results):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "jit_compile", [pytest.param(True, marks=pytest.mark.slow), False]
)
def test_the_student_learns_and_the_teacher_does_not_change(rng, jit_compile):
    teacher, (x, y) = network(), data(rng)
    before, distances = teacher.get_weights(), []
    for weight in (0.0, 10.0):
        model, student = distiller(
            teacher, jit_compile=jit_compile, weight=weight
        )
        model.fit(x, y, epochs=30, verbose=0)
        soft = keras_lab.SoftTargets()(teacher(x), student(x))
        distances.append(float(soft))
    assert distances[1] < 0.5 * distances[0]
    for a, b in zip(before, teacher.get_weights()):
        np.testing.assert_array_equal(a, b)
    own = {id(v) for v in model.variables}
    assert not own & {id(v) for v in teacher.variables}
    assert len(model.trainable_variables) == len(student.trainable_variables)


def test_a_loaded_distiller_goes_on_with_a_teacher_and_not_without(
    rng, tmp_path
):
    teacher = network()
    model, _ = distiller(
        teacher, weight=0.3, distillation_loss=keras_lab.SoftTargets(3.0)
    )
    x, y = data(rng)
    model.fit(x, y, shuffle=False, verbose=0)
    model.save(tmp_path / "distiller.keras")
    again = keras.models.load_model(tmp_path / "distiller.keras")
    assert again.teacher is None
    assert again.distillation_weight == 0.3
    assert again.distillation_loss.temperature == 3.0
    with pytest.raises(ValueError, match="no teacher"):
        again.fit(x, y, verbose=0)
    again.learn_from(teacher)
    for each in (model, again):
        each.fit(x, y, shuffle=False, verbose=0)
    for a, b in zip(model.get_weights(), again.get_weights()):
        np.testing.assert_array_equal(a, b)


def test_the_student_is_exported(rng, tmp_path):
    model, student = distiller(network())
    model.fit(*data(rng), verbose=0)
    for number, each in enumerate((model, student)):
        path = tmp_path / f"{number}.tflite"
        tflite_export.export_tflite(each, path, "packed_float")
    assert path.is_file()


def test_several_outputs_and_sample_weights_count(rng):
    x, _ = data(rng)
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(8)(keras.layers.Dense(8, "relu")(inputs))
    outputs = [keras.layers.Dense(n, "softmax")(hidden) for n in (4, 3)]
    teacher = keras.Model(inputs, outputs)
    student = keras_lab.binarize_model(teacher)
    model = keras_lab.Distiller(
        student.inputs, student.outputs, teacher=teacher
    )
    model.compile(keras_lab.LABAdam(), loss=["mse", "mse"])
    sample_weight = rng.random(len(x)).astype("float32")
    soft = keras_lab.SoftTargets()
    expected = sum(
        float(soft(a, b, sample_weight)) for a, b in zip(teacher(x), student(x))
    )
    # The compiled part is zero at these targets.
    loss = model.compute_loss(x, student(x), student(x), sample_weight)
    assert float(loss) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"teacher": "resnet"}, TypeError, "resnet"),
        ({"weight": -1}, ValueError, "weight=-1"),
        ({"weight": float("inf")}, ValueError, "weight=inf"),
        ({"weight": float("nan")}, ValueError, "weight=nan"),
        ({"weight": True}, ValueError, "weight=True"),
        (
            {"distillation_loss": keras.losses.KLDivergence},
            TypeError,
            r"use KLDivergence\(\)",
        ),
        ({"temperature": 3}, TypeError, "'temperature': 3"),
        ({"alpha": 0.5}, TypeError, "'alpha': 0.5"),
        ({"distillation_loss": "no_loss"}, ValueError, "no_loss"),
    ],
)
def test_mistakes_are_named(options, error, message):
    student = keras_lab.binarize_model(network())
    with pytest.raises(error, match=message):
        keras_lab.Distiller(student.inputs, student.outputs, **options)


def test_a_teacher_of_other_outputs_is_named(rng):
    student = keras_lab.binarize_model(network())
    model, _ = distiller(network(outputs=5), student)
    with pytest.raises(ValueError, match=r"\(4,\).*Received: \[\(5,\)\]"):
        model.fit(*data(rng), verbose=0)


@pytest.mark.parametrize(
    "temperature", [0, True, float("inf"), float("nan"), "hot"]
)
def test_a_wrong_temperature_is_named(temperature):
    with pytest.raises(ValueError, match=f"temperature={temperature!r}"):
        keras_lab.SoftTargets(temperature)


def test_a_teacher_of_other_inputs_is_named():
    student = keras_lab.binarize_model(network())
    teacher = keras.Sequential(
        [keras.Input((7,)), keras.layers.Dense(4, "softmax")], name="resnet"
    )
    with pytest.raises(ValueError, match=r"\(None, 6\).*'resnet'.*\(None, 7\)"):
        distiller(teacher, student)


def binary_classifier(activation):
    return keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, "relu"),
            keras.layers.Dense(8, "relu"),
            keras.layers.Dense(1, activation),
        ]
    )


def test_soft_targets_of_a_single_output_are_an_error():
    teacher = binary_classifier("sigmoid")
    with pytest.raises(ValueError, match="binary_crossentropy"):
        distiller(teacher)
    # Also where the outputs are not known before.
    with pytest.raises(ValueError, match="binary_crossentropy"):
        keras_lab.SoftTargets()(np.ones((3, 1)), np.ones((3, 1)))


def test_a_single_output_learns_by_the_loss_that_the_error_names(rng):
    teacher, (x, _) = binary_classifier("sigmoid"), data(rng)
    model, student = distiller(teacher, distillation_loss="binary_crossentropy")
    model.compile(
        keras_lab.LABAdam(0.01), "binary_crossentropy", jit_compile=False
    )
    before = np.abs(teacher(x) - student(x)).mean()
    model.fit(x, teacher(x), epochs=30, verbose=0)
    assert np.abs(teacher(x) - student(x)).mean() < 0.8 * before


def test_soft_targets_of_logits_must_know_that_they_are():
    with pytest.raises(ValueError, match=r"ends in linear.*from_logits"):
        distiller(network(softmax=False))
    for options in (
        {"distillation_loss": keras_lab.SoftTargets(from_logits=True)},
        {"distillation_loss": "mean_squared_error"},
    ):
        distiller(network(softmax=False), **options)


def test_a_distiller_has_the_options_of_a_model(tmp_path):
    student = keras_lab.binarize_model(network())
    model = keras_lab.Distiller(
        inputs=student.inputs,
        outputs=student.outputs,
        name="pupil",
        trainable=False,
        log_alpha=True,
    )
    model.save(tmp_path / "pupil.keras")
    again = keras.models.load_model(tmp_path / "pupil.keras")
    assert (again.name, again.trainable, again.log_alpha) == (
        "pupil",
        False,
        True,
    )
