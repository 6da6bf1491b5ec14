"""Operators that compute in int8 with float inputs and outputs.

The runtime rounds the inputs of such an operator to 8 bits on the fly. An
operator with unpacked weights that is faster as a float product stays float.
"""

from tflite_export.graph.site import Site
from tflite_export.transformations import (
    conv_as_matmul,
    conv_as_winograd,
    dense_as_matmul,
)

FLOAT_PRODUCTS = (conv_as_winograd, conv_as_matmul, dense_as_matmul)


def can_apply(site: Site) -> bool:
    """Whether there is an int8 kernel, and no float product is faster."""
    return not site.why_not_int8 and not any(
        product.can_apply(site) for product in FLOAT_PRODUCTS
    )


def apply(site: Site) -> None:
    """Marks the operators as int8; the weights become integers later."""
    for user in site.users:
        compute_in_int8(user)
    site.int8 = True


def compute_in_int8(operator) -> None:
    """Sets the options of an operator with float data and integer weights."""
    # Inputs of one sign then get eight bits, not seven.
    if hasattr(operator.builtinOptions, "asymmetricQuantizeInputs"):
        operator.builtinOptions.asymmetricQuantizeInputs = True
