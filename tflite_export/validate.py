"""Compares models before a file is written: Keras, rebuilt, and exported."""

import dataclasses

import keras
import numpy as np

import keras_lab
from tflite_export.errors import ConversionError, ValidationError
from tflite_export.formats import Format, OtherWeights
from tflite_export.interpreter import MOST_SAMPLES, interpreter_module, run
from tflite_export.prepare import (
    channels_first_note,
    computing_in_float32,
    input_names,
    output_names,
)
from tflite_export.report import Agreement
from tflite_export.sign_ties import Ties, sign_arguments

# The largest ‖y' − y‖ / ‖y‖. Float arithmetic differs in the order of sums,
# weights of 16 bits have rounding errors of their own, and int8 arithmetic
# rounds the inputs of each layer to 8 bits.
FLOAT_TOLERANCE, FLOAT16_TOLERANCE, INT8_TOLERANCE = 1e-3, 1e-2, 0.1
# What rounds other weights less.
FINER = {
    OtherWeights.FLOAT16: "'float32'",
    OtherWeights.INT8: "'float16' or 'float32'",
}
# A smaller difference counts as none. A weight that is zero is stored with a
# positive scale, because a scale must be positive.
NEGLIGIBLE = 1e-20


@dataclasses.dataclass(frozen=True)
class Reference:
    """What a file must compute. Inputs and outputs are given by name."""

    rebuilt: keras.Model  # From plain Keras layers.
    inputs: dict
    data: str  # "given" or "random".
    outputs: dict  # What the given model computes.
    rebuilt_error: float  # ‖y' − y‖ / ‖y‖ of the rebuilt model.
    # "float32" if the model has another precision, and its layers computed in
    # float32 here. Else empty.
    computed_in: str


def reference(
    model: keras.Model,
    rebuilt: keras.Model,
    inputs: dict,
    data: str,
    tolerance: float | None,
) -> Reference:
    """Computes what a file must compute, with the given model itself.

    Raises ValidationError if an output is not finite, and ConversionError if
    the rebuilt model, from which the file is made, computes something else.
    Layers of another precision temporarily compute in float32, as those of the
    file do.
    """
    with computing_in_float32(model) as changed:
        outputs = predict(model, inputs)
    if not all(np.all(np.isfinite(y)) for y in outputs.values()):
        raise ValidationError(
            f"Model '{model.name}' itself has a NaN or an infinite number in "
            f"its outputs. Received: {data} inputs"
        )
    error = _check_rebuilt(model, outputs, predict(rebuilt, inputs), tolerance)
    computed_in = "float32" if changed else ""
    return Reference(rebuilt, inputs, data, outputs, error, computed_in)


def check_states(
    model: keras.Model,
    with_states: keras.Model,
    inputs: dict,
    tolerance: float | None,
) -> None:
    """Compares a model with what `streaming.with_states` made of it.

    Raises ConversionError if the second one computes something else for states
    of zero. The states of the given model are kept.
    """
    if with_states is model:
        return
    size = model.inputs[0].shape[0]
    batch = {}
    for name, tensor in zip(input_names(with_states), with_states.inputs):
        batch[name] = np.zeros((size, *inputs[name].shape[1:]), tensor.dtype)
    for name in input_names(model):
        batch[name] = np.resize(inputs[name], batch[name].shape)
    states = [
        (state, state.numpy())
        for layer in keras_lab.walk(model).values()
        if isinstance(layer, keras.layers.RNN) and layer.stateful
        for state in keras.tree.flatten(layer.states)
    ]
    try:
        for state, value in states:
            state.assign(np.zeros_like(value))
        with computing_in_float32(model), computing_in_float32(with_states):
            outputs = predict(model, batch)
            rebuilt_outputs = predict(with_states, batch)
        _check_rebuilt(model, outputs, rebuilt_outputs, tolerance)
    finally:
        for state, value in states:
            state.assign(value)


def _check_rebuilt(model, outputs, rebuilt_outputs, tolerance):
    *_, error = _worst_errors(outputs, rebuilt_outputs)
    if error > max(tolerance or 0, FLOAT_TOLERANCE):
        raise ConversionError(
            f"Model '{model.name}' computes something else when it is rebuilt "
            "from its layers: one of them has a state that is neither in its "
            f"config nor in its weights.{_own_layers(model)} Received: a "
            f"relative difference of {error:.3g}"
        )
    return error


def _own_layers(model):
    """A sentence on layers that neither Keras nor keras_lab defines."""
    names = [
        f"'{path}'"
        for path, layer in keras_lab.walk(model).items()
        if type(layer).__module__.partition(".")[0]
        not in ("keras", "keras_lab")
    ]
    if not names:
        return ""
    return (
        f" Return it from `get_config`: {', '.join(names)} "
        f"{'are layers' if len(names) > 1 else 'is a layer'} of your own."
    )


def measure(content: bytes, reference: Reference) -> Agreement:
    """Runs a file and compares its outputs with the reference.

    If they disagree and signs are taken inside, the rebuilt model is compared
    as well, with the file's signs at ties. Raises ValidationError if the
    runtime cannot run the file, or if an output is not finite.
    """
    _, runtime = interpreter_module()
    try:
        actual = run(content, reference.inputs)
    except (RuntimeError, ValueError) as error:
        raise ValidationError(
            f"The runtime {runtime} cannot run the exported model: {error}"
        ) from error
    if not all(np.all(np.isfinite(y)) for y in actual.values()):
        raise ValidationError(
            "The exported model has a NaN or an infinite number in its "
            f"outputs, in {runtime}. Received: {reference.data} inputs"
        )
    how = runtime, reference.data, reference.computed_in
    agreement = compare(reference.outputs, actual, *how)
    if (
        agreement.relative_error <= FLOAT_TOLERANCE
        or reference.rebuilt_error > FLOAT_TOLERANCE
        or not sign_arguments(content)
    ):
        return agreement
    ties = Ties(content, reference.inputs)
    with ties.broken(reference.rebuilt):
        expected = predict(reference.rebuilt, reference.inputs, ties.next_batch)
    if not ties.count:
        return agreement
    share, error = ties.count / ties.values, agreement.relative_error
    found = compare(expected, actual, *how)
    if found.relative_error >= error:
        return dataclasses.replace(agreement, ties=share)
    return dataclasses.replace(found, ties=share, error_with_ties=error)


def default_tolerance(format: Format, other_weights: OtherWeights) -> float:
    """The largest ‖y' − y‖ / ‖y‖ to accept unless the user says otherwise."""
    if not format.is_exact or other_weights == OtherWeights.INT8:
        return INT8_TOLERANCE
    if other_weights == OtherWeights.FLOAT16:
        return FLOAT16_TOLERANCE
    return FLOAT_TOLERANCE


def check_agreement(
    agreement: Agreement,
    format: Format,
    other_weights: OtherWeights,
    tolerance: float,
) -> None:
    """Raises ValidationError if the relative error is above the tolerance."""
    if agreement.relative_error <= tolerance:
        return
    advice = ""
    if agreement.ties:
        advice = (
            f"{agreement.ties:.2%} of the values before a sign are zero up to "
            "rounding, which decides their signs: training and real inputs "
            "have fewer of them. "
        )
    if not format.is_exact:
        advice += (
            "int8 arithmetic is not the cause: every binary layer computes in "
            "float32 here. "
        )
    if finer := FINER.get(other_weights):
        advice += (
            f"Some of it may come from other_weights='{other_weights}': "
            f"choose {finer}. "
        )
    advice += (
        "Check it on real inputs with `validation_data`, or accept the error "
        "with a larger `tolerance`"
    )
    raise ValidationError(
        f"The exported model disagrees with Keras on {agreement.samples} "
        f"{agreement.data} inputs: the relative error is "
        f"{agreement.relative_error:.3g}, the tolerance {tolerance:g}. "
        f"{advice}. Received: format='{format}', "
        f"other_weights='{other_weights}'"
    )


def predict(model: keras.Model, inputs: dict, after_batch=None) -> dict:
    """The outputs of a functional model by name.

    `after_batch` is called with the size of each batch after it.
    """
    import tensorflow as tf

    arrays, batches = [inputs[name] for name in input_names(model)], []
    for start in range(0, len(arrays[0]), MOST_SAMPLES):
        parts = [array[start : start + MOST_SAMPLES] for array in arrays]
        batch = keras.tree.pack_sequence_as(model.input, parts)
        try:
            outputs = model(batch, training=False)
        except tf.errors.OpError as error:
            raise ConversionError(
                f"TensorFlow cannot run model '{model.name}' on this machine."
                f"{channels_first_note(model)} {error}"
            ) from error
        batches.append(keras.tree.flatten(outputs))
        if after_batch is not None:
            after_batch(len(parts[0]))
    return {
        name: np.concatenate([np.asarray(part) for part in parts])
        for name, parts in zip(output_names(model), zip(*batches))
    }


def compare(
    expected: dict, actual: dict, runtime: str, data: str, computed_in: str = ""
) -> Agreement:
    """Compares the outputs of Keras with those of the file, by name."""
    max_error, mean_error, relative = _worst_errors(expected, actual)
    name, y = next(iter(expected.items()))
    equal = None
    if len(expected) == 1 and y.ndim == 2 and y.shape[1] > 1:
        same = y.argmax(axis=1) == actual[name].argmax(axis=1)
        equal = float(np.mean(same))
    return Agreement(
        runtime=runtime,
        samples=len(y),
        data=data,
        max_error=max_error,
        mean_error=mean_error,
        relative_error=relative,
        snr_db=float(-20 * np.log10(relative)) if relative else float("inf"),
        equal_predictions=equal,
        computed_in=computed_in,
    )


def _worst_errors(expected, actual):
    """The largest, mean and relative error of the worst output."""
    pairs = [
        (np.asarray(y, np.float64), np.asarray(actual[name], np.float64))
        for name, y in expected.items()
    ]
    largest = max(np.abs(y).max(initial=0) for y, _ in pairs) or 1.0
    errors = [_errors(y, z, largest) for y, z in pairs]
    return np.max(errors, axis=0).tolist()


def _errors(y, z, largest):
    """The largest, mean and relative error of an output z that should be y."""
    # An output that should be zero is measured by the largest number of all.
    errors = np.abs(z - y)
    errors[errors < NEGLIGIBLE] = 0
    scale = np.abs(y).max(initial=0) or largest
    signal = np.linalg.norm(y) or largest
    noise = np.linalg.norm(errors)
    return errors.max(initial=0) / scale, errors.mean() / scale, noise / signal
