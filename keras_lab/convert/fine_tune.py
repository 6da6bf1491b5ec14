"""`fine_tune`: the whole way from a trained network to a binary one."""

import inspect
import math

import keras

from keras_lab.convert.batch_norm import (
    recalibrate_batch_norm,
    trained_batch_norms,
)
from keras_lab.convert.batches import (
    check_can_be_repeated,
    check_count,
    check_is_finite,
)
from keras_lab.convert.binarize import binarize_model
from keras_lab.convert.distillation import Distiller, SoftTargets, map_losses
from keras_lab.model_checks import check_is_model
from keras_lab.optimizers import LABAdam

__all__ = ["fine_tune"]

# Enough to measure the statistics of batch norm.
RECALIBRATION_ROWS = 5000


def fine_tune(
    trained: keras.Model,
    train,
    validation_data=None,
    epochs: int = 30,
    binary: keras.Model | None = None,
    learning_rate: float = 0.002,
    batch_size: int = 128,
    distillation_loss=None,
    distillation_weight: float = 1.0,
    callbacks=None,
    verbose: int = 1,
    **fit_arguments,
):
    """Makes a trained network binary and trains it back to accuracy.

    The steps are: `binarize_model`, `recalibrate_batch_norm`, training with
    `LABAdam` and a cosine learning rate while a `Distiller` learns from the
    trained network, and `recalibrate_batch_norm` again, also before each
    validation.

    The loss, the metrics and the other options of `compile` are those that
    `trained` was compiled with. To use others, compile it again.

    Args:
        trained: A trained Sequential or functional model. It is left unchanged.
        train: The training data: a tuple `(x, y)` or `(x, y, sample_weight)`
            of arrays, or batches as a `tf.data.Dataset` or a
            `keras.utils.PyDataset`. It is read more than once, so it cannot be
            a generator. A `tf.data.Dataset` must be shuffled, because its first
            5,000 rows are those that batch norm is measured on.
        validation_data: The same. Without it, nothing is measured.
        epochs: The number of epochs. Defaults to `30`.
        binary: The network to train, which `binarize_model` has made from
            `trained`. Defaults to `binarize_model(trained)`.
        learning_rate: Where the cosine begins. It ends at 0. Defaults to
            `0.002`.
        batch_size: The size of a batch of arrays. Defaults to `128`.
        distillation_loss: As in `Distiller`. Defaults to what belongs to the
            loss of each output: `SoftTargets` for a categorical crossentropy,
            the binary crossentropy for itself, else the mean squared error.
        distillation_weight: As `weight` in `Distiller`; 0 turns it off.
        callbacks: As in `fit`.
        verbose: 0 for silence, 1 for a line per stage and the progress of
            `fit`, 2 for a line per epoch. Defaults to `1`.
        **fit_arguments: Other arguments of `fit`. Data of unknown length needs
            `steps_per_epoch`.

    Returns:
        A tuple of the binary model and the `keras.callbacks.History`. The
        history also has the attribute `stages`, a dict from the name of each
        stage to its measurements.

    Example:

    >>> model, history = keras_lab.fine_tune(
    ...     trained, (x, y), validation_data=(x_test, y_test), epochs=10
    ... )
    >>> history.stages["fine-tuned"]["accuracy"]
    """
    check_is_model(trained)
    check_count("epochs", epochs)
    # Raises TypeError if `fit` has no such argument.
    inspect.signature(keras.Model.fit).bind_partial(**fit_arguments)
    options = _compile_options(trained)
    train = _data("train", train, batch_size)
    validation = validation_data
    if validation is not None:
        check_is_finite("validation_data", validation)
        validation = _data("validation_data", validation, batch_size)
    _check_has_no_text(trained, train["x"])
    steps = fit_arguments.get("steps_per_epoch") or _steps(train, batch_size)
    if binary is None:
        binary, report = binarize_model(trained, return_report=True)
        if verbose:
            print(report)
    check_is_model(binary, "binary")
    student = Distiller(
        *_ends(binary),
        teacher=trained,
        distillation_loss=distillation_loss
        or map_losses(_soft_loss, trained.loss),
        weight=distillation_weight,
    )
    rate = keras.optimizers.schedules.CosineDecay(learning_rate, epochs * steps)
    student.compile(LABAdam(rate), **options)
    # Compiled apart from the trained model, which is left unchanged. A metric
    # has a state, so the two models cannot share it.
    teacher = keras.Model(*_ends(trained))
    teacher.compile(**_compile_options(trained))
    stages = {}

    def measure(stage, model):
        if validation is None:
            return
        found = model.evaluate(**validation, verbose=0, return_dict=True)
        stages[stage] = found
        if verbose:
            values = (f"{k} {v:.4g}" for k, v in found.items())
            print(f"{stage}: {', '.join(values)}", flush=True)

    measure("float", teacher)
    measure("binarized", student)
    if _recalibrate(binary, train, batch_size):
        measure("recalibrated", student)
    before_validation = keras.callbacks.LambdaCallback(
        on_test_begin=lambda logs: _recalibrate(binary, train, batch_size)
    )
    history = student.fit(
        **train,
        epochs=epochs,
        validation_data=validation_data,
        callbacks=[*keras.tree.flatten(callbacks or []), before_validation],
        verbose=verbose,
        **fit_arguments,
    )
    _recalibrate(binary, train, batch_size)
    measure("fine-tuned", student)
    history.stages = stages
    return binary, history


def _compile_options(trained):
    """New options of `compile` like those of a model, but no optimizer."""
    loss = getattr(trained, "loss", None)
    if loss is None:
        raise ValueError(
            "`fine_tune` needs the loss to train with. Compile the trained "
            "model first: `trained.compile(loss=..., metrics=...)`. "
            f"Received: model '{trained.name}' with loss=None"
        )
    config = trained.get_compile_config()
    config = {k: v for k, v in config.items() if k not in ("optimizer", "loss")}
    try:
        options = keras.saving.deserialize_keras_object(config)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "The metrics of the trained model cannot be created again, because "
            "Keras does not know their class. Register it with "
            "`keras.saving.register_keras_serializable`. Received: a model "
            f"compiled with metrics={config.get('metrics')}"
        ) from error
    return {**options, "loss": loss}


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
