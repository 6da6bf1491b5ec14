"""The formats of an exported file, and how one weight is stored in it."""

import enum

# The suffix decides whether a file is written plain or as a container.
CONTAINER_SUFFIX = ".tflz"
SUFFIXES = (".tflite", CONTAINER_SUFFIX)


class Format(enum.StrEnum):
    """How `export_tflite` stores binary weights and computes with them.

    `Format("packed")` is `Format.PACKED`. An unknown name raises a `ValueError`
    that lists the names.

    Attributes:
        PACKED: One bit per weight, int8 arithmetic where it is faster.
        PACKED_FLOAT: One bit per weight, float32 arithmetic.
        FAST: Constants of 4 or 8 bits, int8 arithmetic.
        FLOAT: 32 bits per weight, float32 arithmetic.
    """

    PACKED = "packed"
    PACKED_FLOAT = "packed_float"
    FAST = "fast"
    FLOAT = "float"

    @classmethod
    def _missing_(cls, value):
        names = ", ".join(repr(str(name)) for name in cls)
        raise ValueError(
            f"`format` must be one of {names}. Received: format={value!r}"
        )

    @property
    def is_packed(self) -> bool:
        """Whether the file holds one bit per binary weight."""
        return self in (Format.PACKED, Format.PACKED_FLOAT)

    @property
    def is_exact(self) -> bool:
        """Whether all arithmetic is float32."""
        return self in (Format.PACKED_FLOAT, Format.FLOAT)


class Storage(enum.StrEnum):
    """How the signs of one weight are stored."""

    BITS = "bits"
    INT4 = "int4"
    INT8 = "int8"
    FLOAT32 = "float32"
