"""Runs a `.tflite` model in the stock interpreter."""

import warnings

import numpy as np

from tflite_export.container import read_content
from tflite_export.flatbuffer.model import FlatModel
from tflite_export.flatbuffer.schema import shape_of

# How many samples are run at once if the batch size is open.
MOST_SAMPLES = 256


def interpreter_module(runtime: str | None = None):
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
    path,
    runtime: str | None = None,
    xnnpack: bool = True,
    threads: int = 1,
):
    """An interpreter of a model, with its tensors not yet allocated.

    Args:
        path: The path of a `.tflite` or `.tflz` file, or its content as bytes.
        runtime: `"litert"`, `"tf"`, or `None` for the first that is installed.
        xnnpack: Whether to use XNNPACK, as the runtime does by default.
        threads: The number of threads.
    """
    content = read_content(path)
    module, _ = interpreter_module(runtime)
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
    content = read_content(path)
    model = FlatModel(content)
    input_tensors, output_tensors = model.signature()
    names = list(input_tensors)
    first = model.subgraphs[0].tensors[input_tensors[names[0]]]
    inputs = by_input("inputs", names, inputs, len(shape_of(first)))
    interpreter = make_interpreter(content, **options)
    values = {input_tensors[name]: value for name, value in inputs.items()}
    samples = len(next(iter(inputs.values())))
    found = run_batches(interpreter, values, output_tensors.values(), samples)
    return {name: found[number] for name, number in output_tensors.items()}


def run_batches(interpreter, values: dict, wanted, samples: int) -> dict:
    """Runs a model on all samples, batch by batch; returns `wanted` outputs.

    Inputs and outputs are given by the numbers of their tensors. An array has
    one row or more per sample.
    """
    step = min(samples, MOST_SAMPLES)
    for detail in interpreter.get_input_details():
        if detail["shape_signature"][0] > 0:
            step = int(detail["shape"][0])
            break
    for number, value in values.items():
        shape = step * (len(value) // samples), *value.shape[1:]
        interpreter.resize_tensor_input(number, shape)
    interpreter.allocate_tensors()
    outputs = {number: [] for number in wanted}
    for start in range(0, samples, step):
        for number, value in values.items():
            rows = len(value) // samples
            batch = value[start * rows : (start + step) * rows]
            padding = [(0, 0)] * batch.ndim
            padding[0] = 0, step * rows - len(batch)
            interpreter.set_tensor(number, np.pad(batch, padding))
        interpreter.invoke()
        for number, batches in outputs.items():
            batches.append(np.atleast_1d(interpreter.get_tensor(number)))
    for number, batches in outputs.items():
        # An output, too, may have several rows per sample.
        rows = samples * max(len(batches[0]) // step, 1)
        outputs[number] = np.concatenate(batches)[:rows]
    return outputs


def inner_tensors(
    model: FlatModel, inputs: dict, tensors, more_inputs: dict | None = None
) -> dict:
    """Runs a model; returns tensors of its main subgraph by number.

    They become outputs of the model, because XNNPACK keeps what is not an
    output to itself. Those that no operator computes are left out.
    `more_inputs` are samples of inputs without a name, by number.
    """
    main = model.subgraphs[0]
    input_tensors, _ = model.signature()
    values = {input_tensors[name]: x for name, x in inputs.items()}
    values |= more_inputs or {}
    computed = {i for op in main.operators for i in op.outputs.tolist()}
    tensors = sorted(computed.intersection(tensors))
    new = [number for number in tensors if number not in main.outputs]
    main.outputs = np.append(main.outputs, np.array(new, np.int32))
    model.model.signatureDefs = None
    samples = len(next(iter(inputs.values())))
    interpreter = make_interpreter(model.to_bytes())
    return run_batches(interpreter, values, tensors, samples)


def by_input(argument: str, names: list[str], data, rank: int) -> dict:
    """The arrays of each input by its name, given what the user gave.

    `argument` is the name that the user knows it by, and `rank` the number of
    axes of the first input, batch included.
    """
    if isinstance(data, dict):
        if set(data) != set(names):
            raise ValueError(
                f"`{argument}` must have the keys {sorted(names)}. "
                f"Received: {sorted(map(str, data))}"
            )
        parts = [data[name] for name in names]
    elif len(names) > 1:
        parts = _as_list(argument, names, data)
    else:
        # A list may hold the array of the only input, or be its rows.
        is_one = isinstance(data, (list, tuple)) and len(data) == 1
        parts = data if is_one and np.ndim(data[0]) == rank else [data]
    return {name: _as_array(argument, part) for name, part in zip(names, parts)}


def _as_list(argument, names, data):
    is_list = isinstance(data, (list, tuple))
    if is_list and len(data) == len(names):
        return data
    kind = type(data).__name__ + (f" of {len(data)}" if is_list else "")
    raise ValueError(
        f"The model has {len(names)} inputs. `{argument}` must be a list of "
        f"{len(names)} arrays or a dict with the keys {names}. Received: {kind}"
    )


def _as_array(argument, data):
    try:
        array = np.asarray(data)
    except ValueError:
        array = np.empty(0, object)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"`{argument}` must be an array of numbers for each input. "
            f"Received: {data!r:.60} of type {type(data).__name__}"
        )
    return array
