"""Runs a `.tflite` model in the stock interpreter, and compares outputs."""

import dataclasses
import warnings

import numpy as np

from tflite_export.flatbuffer.model import FlatModel, read_content

__all__ = [
    "MOST_SAMPLES",
    "Agreement",
    "agreement",
    "interpreter_class",
    "make_interpreter",
    "run",
]

# Run at a time, where the batch size is open.
MOST_SAMPLES = 256
# A difference as small as this is none. The scale of a quantized tensor must be
# positive, also where its weights are zero.
NEGLIGIBLE = 1e-20


@dataclasses.dataclass(frozen=True)
class Agreement:
    """How far an exported model's outputs are from those of Keras.

    Attributes:
        runtime: The interpreter that was used.
        samples: How many inputs were compared.
        data: `"given"` or `"random"`.
        max_error: The largest difference, relative to the largest output.
        mean_error: The mean difference, relative to the largest output.
        relative_error: ‖y' − y‖ / ‖y‖.
        snr_db: Signal-to-noise ratio in decibels; infinite where equal.
            Of several outputs, these four are those of the worst.
        equal_predictions: The share of samples with the same largest output,
            for a model with one output of several classes; else `None`.
    """

    runtime: str
    samples: int
    data: str
    max_error: float
    mean_error: float
    relative_error: float
    snr_db: float
    equal_predictions: float | None


def interpreter_class(runtime: str | None = None):
    """The interpreter and its name: LiteRT's, or where absent TensorFlow's."""
    if runtime in (None, "litert"):
        try:
            from ai_edge_litert import interpreter

            return interpreter, "ai_edge_litert"
        except ImportError:
            if runtime is not None:
                raise
    import tensorflow as tf

    return tf.lite, "tf.lite"


def make_interpreter(
    content: bytes, runtime: str | None = None, xnnpack=True, threads=1
):
    """An interpreter of a model, its tensors not yet allocated.

    Args:
        content: The bytes of a `.tflite` file.
        runtime: `"litert"`, `"tf"`, or `None` for the first that is installed.
        xnnpack: Whether to use XNNPACK, as the runtime does by default.
        threads: The number of threads.
    """
    module, _ = interpreter_class(runtime)
    kinds = getattr(module, "OpResolverType", None)
    if kinds is None:
        kinds = module.experimental.OpResolverType
    kind = "AUTO" if xnnpack else "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
    with warnings.catch_warnings():
        # tf.lite says that it is deprecated: that is why it is the fallback.
        warnings.simplefilter("ignore")
        return module.Interpreter(
            model_content=content,
            num_threads=threads,
            experimental_op_resolver_type=getattr(kinds, kind),
        )


def run(path, inputs, **options) -> dict:
    """The outputs of a model by name, from the stock interpreter.

    It is run batch by batch, the last one filled up with zeros.

    Args:
        path: The path of a `.tflite` file, or its content as bytes.
        inputs: The samples: an array for each input by name, or an array for a
            model of one input.
        **options: As in `make_interpreter`.
    """
    content = read_content(path)
    input_tensors, output_tensors = FlatModel(content).signature()
    if not isinstance(inputs, dict):
        inputs = {name: inputs for name in input_tensors}
    interpreter = make_interpreter(content, **options)
    samples = len(next(iter(inputs.values())))
    step = min(samples, MOST_SAMPLES)
    for detail in interpreter.get_input_details():
        if detail["shape_signature"][0] > 0:
            step = int(detail["shape"][0])
    for name, value in inputs.items():
        interpreter.resize_tensor_input(
            input_tensors[name], (step, *value.shape[1:])
        )
    interpreter.allocate_tensors()
    batches = []
    for start in range(0, samples, step):
        for name, value in inputs.items():
            batch = value[start : start + step]
            padding = [(0, step - len(batch))] + [(0, 0)] * (batch.ndim - 1)
            interpreter.set_tensor(input_tensors[name], np.pad(batch, padding))
        interpreter.invoke()
        batches.append(
            {
                name: interpreter.get_tensor(index)
                for name, index in output_tensors.items()
            }
        )
    return {
        name: np.concatenate([batch[name] for batch in batches])[:samples]
        for name in output_tensors
    }


def agreement(
    expected: dict, actual: dict, runtime: str, data: str
) -> Agreement:
    """Compares outputs by name."""
    pairs = [
        (np.asarray(y, np.float64), np.asarray(actual[name], np.float64))
        for name, y in expected.items()
    ]
    largest = max(np.abs(y).max(initial=0) for y, _ in pairs) or 1.0
    max_error, mean_error, relative = np.max(
        [_errors(y, z, largest) for y, z in pairs], axis=0
    )
    equal = None
    if len(pairs) == 1 and pairs[0][0].ndim == 2 and pairs[0][0].shape[1] > 1:
        y, z = pairs[0]
        equal = float(np.mean(y.argmax(axis=1) == z.argmax(axis=1)))
    return Agreement(
        runtime=runtime,
        samples=len(pairs[0][0]),
        data=data,
        max_error=float(max_error),
        mean_error=float(mean_error),
        relative_error=float(relative),
        snr_db=float(-20 * np.log10(relative)) if relative else float("inf"),
        equal_predictions=equal,
    )


def _errors(y, z, largest):
    """Largest, mean and relative error of one output.

    Args:
        y: What it should be.
        z: What it is.
        largest: The largest number of all outputs; the scale of one that
            should be zero.
    """
    errors = np.abs(z - y)
    errors[errors < NEGLIGIBLE] = 0
    scale = np.abs(y).max(initial=0) or largest
    signal = np.linalg.norm(y) or largest
    noise = np.linalg.norm(errors)
    return errors.max(initial=0) / scale, errors.mean() / scale, noise / signal
