"""The layout of sign bits."""

import numpy as np
import pytest

from tflite_export.graph.packed_bits import (
    SIGNS_PER_WORD,
    pack_signs,
    unpack_signs,
)


def random_signs(rng, shape):
    return np.where(rng.normal(size=shape) >= 0, 1, -1).astype(np.int8)


@pytest.mark.parametrize("size", [1, 7, 14, 15, 16, 29, 30, 31, 1000])
def test_the_bits_are_those_that_the_docs_describe(rng, size):
    signs = random_signs(rng, size)
    words = pack_signs(signs)
    assert words.dtype == np.int16
    assert len(words) == -(-size // SIGNS_PER_WORD)
    for number, sign in enumerate(signs):
        word, bit = divmod(number, SIGNS_PER_WORD)
        assert (int(words[word]) >> bit) & 1 == (sign > 0)
    assert np.all(words >= 0)
    np.testing.assert_array_equal(unpack_signs(words, signs.shape), signs)


def test_signs_are_packed_in_the_order_of_the_array(rng):
    signs = random_signs(rng, (3, 5, 7))
    np.testing.assert_array_equal(
        pack_signs(signs), pack_signs(np.ascontiguousarray(signs).ravel())
    )
    np.testing.assert_array_equal(
        unpack_signs(pack_signs(signs), signs.shape), signs
    )
