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
# The lowest versions of operators that take int8 weights and float inputs.
VERSIONS = {
    "FULLY_CONNECTED": 12,
    "CONV_2D": 5,
    "DEPTHWISE_CONV_2D": 6,
    "TRANSPOSE_CONV": 2,
}


def can_apply(site: Site) -> bool:
    """Whether there is an int8 kernel, and no float product is faster."""
    return not site.why_not_int8 and not any(
        product.can_apply(site) for product in FLOAT_PRODUCTS
    )


def apply(site: Site) -> None:
    """Marks the operators as int8; the weights become integers later."""
    for user in site.users:
        name = site.model.operator_name(user)
        site.model.require_version(user, VERSIONS[name])
        # Inputs of one sign then get eight bits, not seven.
        if hasattr(user.builtinOptions, "asymmetricQuantizeInputs"):
            user.builtinOptions.asymmetricQuantizeInputs = True
    site.int8 = True
