"""The clip of latent weights."""

import keras
import numpy as np
import pytest

from keras_lab.constraints import WeightClip


def test_it_clips_at_the_limit_and_comes_back_from_its_config():
    clip = WeightClip(0.5)
    w = np.array([-2.0, -0.5, 0.1, 0.7], "float32")
    np.testing.assert_allclose(clip(w), [-0.5, -0.5, 0.1, 0.5])
    config = keras.saving.serialize_keras_object(clip)
    assert keras.saving.deserialize_keras_object(config).limit == 0.5
    assert repr(clip) == "WeightClip(limit=0.5)"


@pytest.mark.parametrize("limit", [0, -1, float("nan"), None])
def test_a_limit_that_is_not_positive_is_refused(limit):
    with pytest.raises(ValueError, match=f"limit={limit}"):
        WeightClip(limit)
