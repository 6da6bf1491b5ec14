"""Runs a `.tflite` model in the stock interpreter."""

import warnings

import numpy as np

from tflite_export.container import read_content
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.flatbuffer.schema import shape_of
from tflite_export.samples import by_input

__all__ = ["MOST_SAMPLES", "interpreter_class", "make_interpreter", "run"]

# How many samples are run at once if the batch size is open.
MOST_SAMPLES = 256


def interpreter_class(runtime: str | None = None):
    """The module with the interpreter, and its name.

    It is LiteRT's, or TensorFlow's if LiteRT is not installed.
    """
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
    content: bytes,
    runtime: str | None = None,
    xnnpack: bool = True,
    threads: int = 1,
):
    """An interpreter of a model, with its tensors not yet allocated.

    Args:
        content: The bytes of a `.tflite` or `.tflz` file, or its path.
        runtime: `"litert"`, `"tf"`, or `None` for the first that is installed.
        xnnpack: Whether to use XNNPACK, as the runtime does by default.
        threads: The number of threads.
    """
    content, _ = read_content(content)
    module, _ = interpreter_class(runtime)
    kinds = getattr(module, "OpResolverType", None)
    if kinds is None:
        kinds = module.experimental.OpResolverType
    kind = "AUTO" if xnnpack else "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
    with warnings.catch_warnings():
        # tf.lite warns that it is deprecated. It is only the fallback.
        warnings.simplefilter("ignore")
        return module.Interpreter(
            model_content=content,
            num_threads=threads,
            experimental_op_resolver_type=getattr(kinds, kind),
        )


def run(path, inputs, **options) -> dict:
    """Runs a model in the stock interpreter; returns its outputs by name.

    The samples are run in batches; the last batch is filled up with zeros.

    Args:
        path: The path of a `.tflite` or `.tflz` file, or its content as bytes.
        inputs: The samples: a dict of arrays by the names of the inputs, a list
            of arrays in their order, or an array if there is one input.
        **options: `runtime`, `xnnpack` and `threads` of `make_interpreter`.

    Example:

    >>> outputs = tflite_export.run("digits.tflite", x_test)
    """
    content, _ = read_content(path)
    model = FlatModel(content)
    input_tensors, output_tensors = model.signature()
    first = model.subgraphs[0].tensors[next(iter(input_tensors.values()))]
    inputs = by_input(
        "inputs", list(input_tensors), inputs, len(shape_of(first))
    )
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
