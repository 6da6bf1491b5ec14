"""What can go wrong, by name."""

import contextlib
import struct

__all__ = [
    "ConversionError",
    "InvalidModelError",
    "NothingBinaryError",
    "ValidationError",
    "damage_as_error",
]


class ConversionError(ValueError):
    """A layer that has no counterpart among the built-in operators."""


class InvalidModelError(ValueError):
    """Bytes that are not a TFLite model, or a damaged one."""


class NothingBinaryError(ValueError):
    """A model without a binary weight."""


class ValidationError(RuntimeError):
    """An exported model that does not compute what the Keras model does."""


@contextlib.contextmanager
def damage_as_error(what: str):
    """Whatever a damaged file leads to becomes an `InvalidModelError`."""
    try:
        yield
    except (InvalidModelError, NothingBinaryError):
        raise
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
        struct.error,
    ) as error:
        raise InvalidModelError(
            f"Damaged {what}: {type(error).__name__}: {error}"
        ) from error
