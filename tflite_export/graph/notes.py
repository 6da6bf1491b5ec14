"""Why a weight does not have the usual arithmetic of its format.

A file stores the number of a note, not its text: with texts, a small file that
keeps some layers in float32 would be larger than one that keeps all of them.
"""

NO_NOTE = ""
KEPT_IN_FLOAT = "int8 would lose too much precision"
AS_PRODUCTS = "as float products, which are faster when unpacked"
TAKES_SIGNS = "signs are taken of its outputs"
SOME_SIGNS = "only some of its inputs are signs"
SIGNS_IN_FLOAT = "sign inputs, exact only in float here"
NO_KERNEL = "no int8 kernel for these weights"
NO_KERNEL_FOR_GROUPS = "no int8 kernel for groups"
NO_KERNEL_IN_RUNTIME = "the chosen runtime has no int8 kernel for it"
NO_SCALES_IN_RUNTIME = "the chosen runtime has one scale per int8 dense layer"
IS_OUTPUT = "its weights are an output"
HAS_OTHER_READERS = "other operators read its weights"
IN_SUBGRAPH = "neither in the main subgraph nor in one loop of it"
# No file holds this one: `report` knows when it is true.
FEWER_BYTES = "which takes fewer bytes in this network"

# Files hold the places in this list: add new notes at the end.
NOTES = [
    *(NO_NOTE, KEPT_IN_FLOAT, AS_PRODUCTS, TAKES_SIGNS, SOME_SIGNS),
    *(SIGNS_IN_FLOAT, NO_KERNEL, NO_KERNEL_FOR_GROUPS, NO_KERNEL_IN_RUNTIME),
    *(NO_SCALES_IN_RUNTIME, IS_OUTPUT, HAS_OTHER_READERS, IN_SUBGRAPH),
]
