"""The formats of an exported file, and how one weight is stored in it."""

import enum

# The suffix decides whether a file is written plain or as a container.
CONTAINER_SUFFIX = ".tflz"
SUFFIXES = (".tflite", CONTAINER_SUFFIX)


class _Choice(enum.StrEnum):
    """The values of an argument. An unknown one is an error that lists them."""

    @classmethod
    def _missing_(cls, value):
        names = ", ".join(repr(str(name)) for name in cls)
        raise ValueError(
            f"`{cls.argument}` must be one of {names}. "
            f"Received: {cls.argument}={value!r}"
        )


class Format(_Choice):
    """How `export_tflite` stores binary weights and computes with them.

    `Format("packed")` is `Format.PACKED`. An unknown name raises a `ValueError`
    that lists the names.

    Attributes:
        PACKED: One bit per weight, int8 arithmetic where it is faster.
        PACKED_FLOAT: One bit per weight, float32 arithmetic.
        FAST: Constants of 4 or 8 bits, int8 arithmetic.
        FLOAT: 32 bits per weight, float32 arithmetic.
    """

    argument = enum.nonmember("format")
    PACKED = "packed"
    PACKED_FLOAT = "packed_float"
    FAST = "fast"
    FLOAT = "float"

    @classmethod
    def of(cls, format: str | None, suffix: str) -> "Format":
        """The given format, or the default for a file with this suffix.

        A container shrinks every format to about one bit per weight, so there
        the format that runs fastest is the best one.
        """
        if format is not None:
            return cls(format)
        is_container = suffix.lower() == CONTAINER_SUFFIX
        return cls.FAST if is_container else cls.PACKED

    @property
    def is_packed(self) -> bool:
        """Whether the file holds one bit per binary weight."""
        return self in (Format.PACKED, Format.PACKED_FLOAT)

    @property
    def is_exact(self) -> bool:
        """Whether all arithmetic is float32."""
        return self in (Format.PACKED_FLOAT, Format.FLOAT)


class OtherWeights(_Choice):
    """How `export_tflite` stores weights that are not binary.

    Attributes:
        FLOAT32: As they are.
        FLOAT16: In 16 bits. The runtime makes float32 of them once.
        INT8: Matrices in 8 bits, with one scale per channel; biases and the
            like in 16.
    """

    argument = enum.nonmember("other_weights")
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT8 = "int8"


class Storage(enum.StrEnum):
    """How the signs of one weight are stored."""

    BITS = "bits"
    INT4 = "int4"
    INT8 = "int8"
    FLOAT32 = "float32"
