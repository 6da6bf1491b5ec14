"""Operators that compute in int8 with float inputs and outputs.

The runtime rounds the inputs of such an operator to 8 bits on the fly.
"""

from tflite_export.graph.weight_site import WeightSite


def can_apply(site: WeightSite) -> bool:
    """Whether there is an int8 kernel, and nothing speaks against it."""
    return not site.why_not_int8


def apply(site: WeightSite) -> None:
    """Marks the operators as int8; the weights become integers later."""
    for user in site.users:
        compute_in_int8(user)


def compute_in_int8(operator) -> None:
    """Sets the options of an operator with float data and integer weights."""
    # Inputs of one sign then get eight bits, not seven.
    if hasattr(operator.builtinOptions, "asymmetricQuantizeInputs"):
        operator.builtinOptions.asymmetricQuantizeInputs = True
