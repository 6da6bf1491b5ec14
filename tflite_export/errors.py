"""The errors of this package."""

import contextlib
import struct


class ConversionError(ValueError):
    """The model needs something that the stock TFLite runtime does not have."""


class InvalidModelError(ValueError):
    """The bytes are not a TFLite model, or they are damaged."""


class NothingBinaryError(ValueError):
    """The model has no binary weights."""


class ValidationError(RuntimeError):
    """The exported model does not compute what the Keras model computes."""


@contextlib.contextmanager
def damage_as_error(what: str):
    """Turns the errors that damaged data cause into `InvalidModelError`."""
    try:
        yield
    except (InvalidModelError, NothingBinaryError):
        raise
    except (ArithmeticError, ValueError, struct.error) as error:
        raise InvalidModelError(f"Damaged {what}: {error}") from error
    except (AttributeError, LookupError, RecursionError, TypeError) as error:
        # Its text is about this package, not about the file.
        raise InvalidModelError(
            f"Damaged {what}: a part is missing, or of another kind."
        ) from error
