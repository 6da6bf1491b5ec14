"""The formats of an exported file, and what it says about one weight."""

import enum

# The suffix decides whether a file is written plain or as a container.
CONTAINER_SUFFIX = ".tflz"
SUFFIXES = (".tflite", CONTAINER_SUFFIX)


def is_container(suffix: str) -> bool:
    """Whether a file with this suffix is written as a container."""
    return suffix.lower() == CONTAINER_SUFFIX


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
        return cls.FAST if is_container(suffix) else cls.PACKED

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
        FLOAT16: In 16 bits. The runtime converts them to float32 once.
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


class Note(enum.StrEnum):
    """Why a weight does not have the usual arithmetic of its format.

    Files hold the places in this list: add new notes at the end. With the texts
    themselves, a small file that keeps some layers in float32 would be larger
    than one that keeps all of them.
    """

    NONE = ""
    KEPT_IN_FLOAT = "int8 would lose too much precision"
    AS_PRODUCTS = "as float products, which are faster when unpacked"
    TAKES_SIGNS = "signs are taken of its outputs"
    SOME_SIGNS = "only some of its inputs are signs"
    SIGNS_IN_FLOAT = "sign inputs, exact only in float here"
    NO_KERNEL = "no int8 kernel for these weights"
    NO_KERNEL_FOR_GROUPS = "no int8 kernel for groups"
    NO_KERNEL_IN_RUNTIME = "the chosen runtime has no int8 kernel for it"
    NO_SCALES_IN_RUNTIME = (
        "the chosen runtime has one scale per int8 dense layer"
    )
    IS_OUTPUT = "its weights are an output"
    HAS_OTHER_READERS = "other operators read its weights"
    IN_SUBGRAPH = "neither in the main subgraph nor in one loop of it"
