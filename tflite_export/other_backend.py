"""Export of a model that Keras runs on JAX or torch.

TensorFlow's converter needs a model on the TensorFlow backend, and Keras cannot
change its backend in a running process. So the model is saved to a temporary
file, and a process of its own loads and exports it. The two exchange files in a
temporary folder.
"""

import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import keras

MODEL, ARGUMENTS, RESULT = "model.keras", "arguments.pickle", "result.pickle"


def is_other_backend() -> bool:
    """Whether Keras runs on another backend than TensorFlow."""
    return keras.config.backend() != "tensorflow"


def export_in_process(model: keras.Model, **arguments):
    """Calls `export_tflite` in a process with the TensorFlow backend.

    Its custom layers and functions must be those of Keras or keras_lab: the
    other process knows no others.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise ImportError(
            "The export needs TensorFlow, also if the model was trained on "
            'another backend. Run: pip install "keras_lab[export]". '
            f"Received: KERAS_BACKEND={keras.config.backend()}"
        )
    arguments["path"] = arguments["path"].absolute()
    arguments["validation_data"] = keras.tree.map_structure(
        lambda x: None if x is None else keras.ops.convert_to_numpy(x),
        arguments["validation_data"],
    )
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model.save(folder / MODEL)
        (folder / ARGUMENTS).write_bytes(pickle.dumps(arguments))
        environment = {
            **os.environ,
            "KERAS_BACKEND": "tensorflow",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(folder)],
            env=environment,
            capture_output=True,
            text=True,
        )
        if not (folder / RESULT).exists():
            raise RuntimeError(
                "The process that exports the model has failed:\n"
                f"{done.stderr[-2000:]}"
            )
        # Written by the process that was started above.
        result = pickle.loads((folder / RESULT).read_bytes())
    if isinstance(result, Exception):
        raise result
    return result


def main(folder: Path) -> None:
    """What the other process does."""
    import keras_lab
    from tflite_export import export_tflite

    try:
        try:
            model = keras_lab.files.load_model(folder / MODEL)
        except ValueError as error:
            reason = str(error).replace(str(folder / MODEL), MODEL)
            raise ValueError(
                "The model is exported in another process, which knows only "
                "the classes of Keras and keras_lab. If it has others, save "
                "it, load it on the TensorFlow backend with `custom_objects`, "
                f"and export it there. Received: {reason}"
            ) from error
        arguments = pickle.loads((folder / ARGUMENTS).read_bytes())
        result = export_tflite(model, **arguments)
    except Exception as error:
        # With its class and message; the traceback cannot be pickled.
        result = error.with_traceback(None)
        result.__cause__ = result.__context__ = None
    (folder / RESULT).write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
