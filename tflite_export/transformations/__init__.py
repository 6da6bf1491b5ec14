"""One change of the graph per module, each with `can_apply` and `apply`.

To add one, write a module and put it into its list below. Those of `REPAIRS`
and `PREPARATIONS` take a model, a subgraph and an operator, and run before
binary weights are looked for. The others take a `WeightSite`: a binary weight
and the operators that use it. `plan` asks them, about the model before any of
them has run, and `rewrite` runs those that apply. Last comes
`store_other_weights`.
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

# How operators compute with a binary weight: in the first way that applies. If
# none does, they stay as they are, in float32.
FLOAT_PRODUCTS = (conv_as_winograd, conv_as_matmul, dense_as_matmul)
ARITHMETIC = (sign_inputs, *FLOAT_PRODUCTS, int8_arithmetic)
IN_INT8 = (sign_inputs, int8_arithmetic)
# Runs before the arithmetic: a dense layer has a bias to scale, a product not.
SCALES = (scale_rows,)
# How the weight is stored. Winograd's products store theirs.
STORAGE = (store_packed_bits, store_int4_or_int8)
