"""One change of the graph per module, each with `can_apply` and `apply`.

They are listed here in the order in which they run. To add one, write a module
and put it in its place: `plan` asks each in turn, and `rewrite` runs those that
apply. Those of `TRANSFORMATIONS` take a `Site`: a binary weight and the
operators that use it. The answers of `can_apply` all refer to the model before
any of them has run. The others take a model, a subgraph and an operator, and
run before binary weights are looked for. Last comes `store_other_weights`.
"""

from tflite_export.transformations import (
    conv_as_matmul,
    conv_as_winograd,
    dense_as_matmul,
    explicit_padding,
    fill_loop_variables,
    hoist_projection,
    int8_arithmetic,
    scale_rows,
    sign_inputs,
    store_int4_or_int8,
    store_packed_bits,
)

# What a runtime would compute wrongly, in any format.
REPAIRS = (explicit_padding,)
# What makes a file with binary weights smaller or faster.
PREPARATIONS = (hoist_projection, fill_loop_variables)

TRANSFORMATIONS = (
    # The arithmetic.
    int8_arithmetic,
    sign_inputs,
    # Operators that are faster with unpacked weights. Rows are scaled first,
    # because a dense layer has a bias to scale, and a product has not.
    conv_as_winograd,
    scale_rows,
    conv_as_matmul,
    dense_as_matmul,
    # The storage.
    store_packed_bits,
    store_int4_or_int8,
)
