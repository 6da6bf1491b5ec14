"""`fine_tune`: the whole way from a trained network to a binary one."""

import math

import keras

from keras_lab.convert.batch_norm import (
    check_can_be_repeated,
    check_count,
    check_is_finite,
    recalibrate_batch_norm,
    trained_batch_norms,
)
from keras_lab.convert.binarize import binarize_model
from keras_lab.convert.distillation import Distiller, SoftTargets, map_losses
from keras_lab.convert.graph import check_is_model
from keras_lab.optimizers import LABAdam

__all__ = ["fine_tune"]

# Enough to measure the statistics of batch norm.
RECALIBRATION_ROWS = 5000


def fine_tune(
    trained: keras.Model,
    train,
    validation_data=None,
    epochs: int = 30,
    kernel_quantizer="lab",
    input_quantizer=None,
    loss=None,
    metrics=None,
    loss_weights=None,
    learning_rate: float = 0.002,
    batch_size: int = 128,
    steps_per_epoch: int | None = None,
    shuffle: bool = True,
    distillation_weight: float = 1.0,
    distillation_loss=None,
    callbacks=None,
    verbose: int = 1,
    filters=None,
    skip_first: bool = True,
    skip_last: bool = True,
    jit_compile="auto",
):
    """Makes a trained network binary and trains it back to accuracy.

    The steps are: `binarize_model`, `recalibrate_batch_norm`, training with
    `LABAdam` and a cosine learning rate while a `Distiller` learns from the
    trained network, and `recalibrate_batch_norm` again, also before each
    validation.

    Args:
        trained: A trained Sequential or functional model. It is left unchanged.
        train: The training data: a tuple `(x, y)` or `(x, y, sample_weight)`
            of arrays, or batches as a `tf.data.Dataset` or a
            `keras.utils.PyDataset`. It is read more than once, so it cannot be
            a generator. A `tf.data.Dataset` must be shuffled, because its first
            5,000 rows are those that batch norm is measured on.
        validation_data: The same. Without it, nothing is measured.
        epochs: The number of epochs. Defaults to `30`.
        kernel_quantizer, input_quantizer: As in `binarize_model`.
        loss, metrics, loss_weights: As in `compile`. Default to those that
            `trained` was compiled with; the weights only with its loss.
        learning_rate: Where the cosine begins. It ends at 0. Defaults to
            `0.002`.
        batch_size: The size of a batch of arrays. Defaults to `128`.
        steps_per_epoch: As in `fit`. Needed for data of unknown length.
        shuffle: As in `fit`.
        distillation_weight: As `weight` in `Distiller`; 0 turns it off.
        distillation_loss: As in `Distiller`. Defaults to what belongs to the
            loss of each output: `SoftTargets` for a categorical crossentropy,
            the binary crossentropy for itself, else the mean squared error.
        callbacks: As in `fit`.
        verbose: 0 for silence, 1 for a line per stage and the progress of
            `fit`, 2 for a line per epoch. Defaults to `1`.
        filters, skip_first, skip_last: As in `binarize_model`.
        jit_compile: As in `compile`. On TensorFlow and a CPU, `False` trains
            convolutions faster. Defaults to `"auto"`.

    Returns:
        A tuple of the binary model and the `keras.callbacks.History`. The
        history also has the attributes `stages`, a dict from the name of each
        stage to its measurements, and `report`, that of `binarize_model`.

    Example:

    >>> model, history = keras_lab.fine_tune(
    ...     trained, (x, y), validation_data=(x_test, y_test), epochs=10
    ... )
    >>> history.stages["fine-tuned"]["accuracy"]
    """
    check_is_model(trained)
    compiled = trained.get_compile_config() or {}
    if loss is None:
        loss = getattr(trained, "loss", None)
        loss_weights = loss_weights or compiled.get("loss_weights")
        if loss is None:
            raise ValueError(
                "`fine_tune` needs the loss to train with, because the trained "
                "model is not compiled. Received: loss=None"
            )
    if metrics is None:
        metrics = _metrics_of(compiled, loss)
    check_count("epochs", epochs)
    train = _data("train", train, batch_size)
    validation = validation_data
    if validation is not None:
        check_is_finite("validation_data", validation)
        validation = _data("validation_data", validation, batch_size)
    _check_has_no_text(trained, train["x"])
    steps = steps_per_epoch or _steps(train, batch_size)
    binary, report = binarize_model(
        trained,
        kernel_quantizer,
        input_quantizer,
        filters,
        skip_first,
        skip_last,
        return_report=True,
    )
    student = Distiller(
        *_ends(binary),
        teacher=trained,
        distillation_loss=distillation_loss or map_losses(_soft_loss, loss),
        weight=distillation_weight,
    )
    rate = keras.optimizers.schedules.CosineDecay(learning_rate, epochs * steps)
    student.compile(
        LABAdam(rate), loss, loss_weights, metrics, jit_compile=jit_compile
    )
    # Compiled apart from the trained model, which is left unchanged. A metric
    # has a state, so the two models cannot share it.
    teacher = keras.Model(*_ends(trained))
    teacher.compile(
        loss=loss,
        loss_weights=loss_weights,
        metrics=keras.tree.map_structure(_copy_metric, metrics),
        jit_compile=jit_compile,
    )
    stages = {}

    def measure(stage, model):
        if validation is None:
            return
        found = model.evaluate(**validation, verbose=0, return_dict=True)
        stages[stage] = found
        if verbose:
            values = (f"{k} {v:.4g}" for k, v in found.items())
            print(f"{stage}: {', '.join(values)}", flush=True)

    if verbose:
        print(report)
    measure("float", teacher)
    measure("binarized", student)
    if _recalibrate(binary, train, batch_size):
        measure("recalibrated", student)
    if not isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = keras.tree.flatten(callbacks or [])
    before_validation = keras.callbacks.LambdaCallback(
        on_test_begin=lambda logs: _recalibrate(binary, train, batch_size)
    )
    callbacks.append(before_validation)
    history = student.fit(
        **train,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        shuffle=shuffle,
        validation_data=validation_data,
        callbacks=callbacks,
        verbose=verbose,
    )
    _recalibrate(binary, train, batch_size)
    measure("fine-tuned", student)
    history.stages, history.report = stages, report
    return binary, history


def _ends(model):
    """The inputs and outputs of a model in their structure."""
    if isinstance(model, keras.Sequential):
        return model.inputs[0], model.outputs[0]
    return model.input, model.output


def _data(name, data, batch_size):
    """The arguments of `fit` and `evaluate` for arrays or batches."""
    check_can_be_repeated(name, data)
    if not isinstance(data, (tuple, list)):
        return {"x": data}
    if len(data) not in (2, 3):
        raise ValueError(
            f"`{name}` must be a tuple (x, y) or (x, y, sample_weight), or "
            f"batches of such tuples. Received: a {type(data).__name__} of "
            f"length {len(data)}"
        )
    names = ("x", "y", "sample_weight")
    return {**dict(zip(names, data)), "batch_size": batch_size}


def _check_has_no_text(trained, x):
    """Raises ValueError if inputs are what a KerasHub model preprocesses."""
    if getattr(trained, "preprocessor", None) is None:
        return
    # Of a `tf.data.Dataset`, what it says about its inputs.
    spec = getattr(x, "element_spec", x)
    inputs = spec[0] if spec is not x and isinstance(spec, tuple) else spec
    for part in keras.tree.flatten(inputs):
        dtype = getattr(part, "dtype", None)
        is_text = isinstance(part, str) or "string" in str(dtype)
        if is_text or getattr(dtype, "kind", None) in ("O", "S", "U", "T"):
            raise ValueError(
                "`fine_tune` does not preprocess texts, as "
                f"`{type(trained).__name__}.fit` does. Pass "
                "`trained.preprocessor(x)` instead of x, in the validation "
                f"data, too. Received: {x!r:.200}"
            )


def _steps(train, batch_size):
    try:
        if "y" not in train:
            return len(train["x"])
        return math.ceil(len(keras.tree.flatten(train["x"])[0]) / batch_size)
    except TypeError as error:
        raise ValueError(
            "The length of the training data is unknown. Pass "
            f"`steps_per_epoch`. Received: {train['x']!r:.200}"
        ) from error


def _recalibrate(model, train, batch_size):
    """Returns whether there is a batch norm to recalibrate."""
    if not trained_batch_norms(model):
        return False
    # Small batches would take long.
    recalibrate_batch_norm(
        model, train["x"], max(batch_size, 32), rows=RECALIBRATION_ROWS
    )
    return True


def _metrics_of(compiled, loss):
    """New metrics like those that a model was compiled with."""
    metrics = compiled.get("metrics")
    if metrics is None:
        known = _name(loss) if not isinstance(loss, (dict, list)) else ""
        return ["accuracy"] if "crossentropy" in known else None
    try:
        return keras.saving.deserialize_keras_object(metrics)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "The metrics of the trained model cannot be created again, because "
            "Keras does not know their class. Pass `metrics`. "
            f"Received: a model compiled with metrics={metrics}"
        ) from error


def _copy_metric(metric):
    if not isinstance(metric, keras.Metric):
        return metric
    return type(metric).from_config(metric.get_config())


def _soft_loss(loss):
    """The loss of a teacher's outputs that belongs to a loss of labels."""
    if loss is None:
        return None
    name, from_logits = _name(loss), getattr(loss, "from_logits", False)
    if "binary" in name and "crossentropy" in name:
        return keras.losses.BinaryCrossentropy(from_logits=from_logits)
    if "categorical" in name and "crossentropy" in name:
        return SoftTargets(from_logits=from_logits)
    return keras.losses.MeanSquaredError()


def _name(loss):
    name = loss if isinstance(loss, str) else getattr(loss, "name", None)
    return (name or getattr(loss, "__name__", "")).lower()
