"""Models from files, or an error that names the file."""

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
    if not path.is_file():
        raise FileNotFoundError(f"There is no such file. Received: '{path}'")
    try:
        return keras.models.load_model(path, compile=False)
    except PROBLEMS as error:
        problem = str(error).strip().split("\n")[0]
        raise ValueError(
            f"Keras cannot load '{path}': {problem or type(error).__name__}"
        ) from error
