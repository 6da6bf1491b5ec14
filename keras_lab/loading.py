"""Models from files, or an error that names the file."""

import re
import zipfile
import zlib
from pathlib import Path

import keras

__all__ = ["load_model"]

# What Keras raises, depending on which byte of a file is wrong.
PROBLEMS = (
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


def load_model(path) -> keras.Model:
    """The model in a `.keras` or `.h5` file, not compiled."""
    path = Path(path)
    if path.suffix not in (".keras", ".h5"):
        raise ValueError(
            f"A model's file ends in .keras or .h5. Received: '{path}'"
        )
    if path.is_dir():
        raise IsADirectoryError(f"It is a directory. Received: '{path}'")
    if not path.is_file():
        raise FileNotFoundError(f"There is no such file. Received: '{path}'")
    if path.suffix == ".keras" and not zipfile.is_zipfile(path):
        # Keras would say that it is not there.
        raise ValueError(
            f"Keras cannot load '{path}': the file is damaged, or not a model"
        )
    try:
        return keras.models.load_model(path, compile=False)
    except PROBLEMS as error:
        problem = _problem(error) or type(error).__name__
        raise ValueError(f"Keras cannot load '{path}': {problem}") from error


def _problem(error):
    """What Keras says, in a line; of a class that it does not know, which."""
    text = str(error).strip()
    unknown = re.search(r"Could not locate (class|function) '(\w+)'", text)
    if unknown:
        return (
            f"the {unknown[1]} '{unknown[2]}' is not one of Keras or "
            "keras_lab: load the model in Python with `custom_objects`"
        )
    return text.split("\n")[0]
