"""Low-bit constants that operators read as float.

The runtime converts a constant only once.
"""

from tflite_export.graph.site import Site
from tflite_export.transformations import int8_arithmetic, low_bit_constant

__all__ = ["apply", "can_apply"]


def can_apply(site: Site) -> bool:
    """Whether a low-bit constant is used in float arithmetic."""
    return low_bit_constant.can_apply(site) and not int8_arithmetic.can_apply(
        site
    )


def apply(site: Site) -> None:
    """Puts a DEQUANTIZE between the constant and its operators."""
    weight, subgraph = site.stored, site.subgraph
    floats = site.model.add_tensor(
        subgraph, f"{weight.path}/float", weight.signs.shape, "FLOAT32"
    )
    site.replace_weights(floats)
    subgraph.operators.insert(
        0,
        site.model.operator("DEQUANTIZE", [weight.tensor], [floats], version=5),
    )
