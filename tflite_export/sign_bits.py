"""How signs are packed into bits, and read back.

Fifteen signs share one int16. Its highest bit stays 0, because the runtime
looks the signs up by this number, and a negative number is no index. The layout
is documented in `docs/export.md`.
"""

import numpy as np

__all__ = ["SIGNS_PER_WORD", "pack_signs", "unpack_signs"]

SIGNS_PER_WORD = 15


def pack_signs(signs) -> np.ndarray:
    """Packs an array of ±1 into int16 words.

    Bit j of word i is 1 if sign number 15·i + j is +1, in the order of the
    array with the last axis fastest.
    """
    bits = signs.reshape(-1) > 0
    bits = np.pad(bits, (0, -len(bits) % SIGNS_PER_WORD))
    values = 1 << np.arange(SIGNS_PER_WORD, dtype=np.int16)
    rows = bits.reshape(-1, SIGNS_PER_WORD)
    return (rows @ values).astype(np.int16)


def unpack_signs(words, shape) -> np.ndarray:
    """The signs that `pack_signs` packed, as an int8 array of ±1."""
    if words.dtype != np.int16 or np.any(words < 0):
        raise ValueError("the sign bits are not non-negative INT16 words")
    places = np.arange(SIGNS_PER_WORD, dtype=np.int16)
    bits = words[:, None] >> places & 1
    signs = np.where(bits, np.int8(1), np.int8(-1))
    return signs.reshape(-1)[: int(np.prod(shape))].reshape(shape)
