"""The rows of the paper's tables: what is binarized, and how."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Scheme:
    """A title, and the quantizers as in `keras_lab.BinaryDense`."""

    title: str
    kernel_quantizer: str | None
    input_quantizer: str | None = None


SCHEMES = {
    "full_precision": Scheme("full-precision", None),
    "binary_connect": Scheme("BinaryConnect", "binary_connect"),
    "bwn": Scheme("BWN", "bwn"),
    "lab": Scheme("LAB", "lab"),
    "bnn": Scheme("BNN", "binary_connect", "sign"),
    "xnor": Scheme("XNOR", "bwn", "sign"),
    "lab2": Scheme("LAB2", "lab", "sign"),
}
WEIGHT_ONLY = ("full_precision", "binary_connect", "bwn", "lab")
