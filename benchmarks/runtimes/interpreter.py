"""Runs files in the runtime that is installed. Needs only NumPy beside it."""

import importlib
import importlib.metadata

import numpy as np

# Where the interpreter is, by the package that is installed.
MODULES = {
    "ai-edge-litert": "ai_edge_litert.interpreter",
    "tflite-runtime": "tflite_runtime.interpreter",
    "tensorflow-cpu": "tensorflow",
}


def versions(package):
    """Imports a runtime and returns its version and that of NumPy."""
    importlib.import_module(MODULES[package])
    names = (package, "numpy")
    return {name: importlib.metadata.version(name) for name in names}


def run(package, path, data, xnnpack):
    """Returns how far the outputs of a file are from those of Keras."""
    with np.load(data) as arrays:
        x, expected = arrays["x"], arrays["y"]
    interpreter = load(package, path, xnnpack)
    (given,), (wanted,) = (
        interpreter.get_input_details(),
        interpreter.get_output_details(),
    )
    batch = len(x) if given["shape_signature"][0] < 0 else 1
    interpreter.resize_tensor_input(given["index"], [batch, *x.shape[1:]])
    interpreter.allocate_tensors()
    outputs = []
    for start in range(0, len(x), batch):
        interpreter.set_tensor(given["index"], x[start : start + batch])
        interpreter.invoke()
        outputs.append(interpreter.get_tensor(wanted["index"]))
    return difference(np.concatenate(outputs), expected)


def load(package, path, xnnpack):
    module = importlib.import_module(MODULES[package])
    module = getattr(module, "lite", module)
    kinds = getattr(module, "OpResolverType", None)
    if kinds is None:
        kinds = module.experimental.OpResolverType
    kind = "AUTO" if xnnpack else "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
    return module.Interpreter(
        path, experimental_op_resolver_type=getattr(kinds, kind)
    )


def difference(outputs, expected):
    """Returns ‖y' − y‖ / ‖y‖ and whether all outputs are finite."""
    outputs = np.reshape(outputs, expected.shape)
    error = np.linalg.norm(np.nan_to_num(outputs) - expected)
    return {
        "error": float(error / np.linalg.norm(expected)),
        "finite": bool(np.isfinite(outputs).all()),
    }
