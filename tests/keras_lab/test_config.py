"""Settings are made on request, and say so if it is too late."""

import os

import keras
import pytest

import keras_lab
from tests.keras_lab.interpreter import run

NAME = "TF_CPU_ALLOCATOR_USE_BFC"
on_tensorflow = pytest.mark.skipif(
    keras.config.backend() != "tensorflow", reason="TensorFlow's allocator"
)


def test_memory_that_malloc_keeps_is_not_fetched_again():
    printed = run(
        """
        import resource
        import numpy as np
        from keras_lab import _malloc

        def pages():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            for _ in range(4):
                np.ones(1 << 24)
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

        without = pages()
        _malloc.keep_memory()
        pages()
        print(pages() < without / 2)
        """
    )
    assert printed == ["True"]


@on_tensorflow
def test_keep_memory_before_the_first_operation_chooses_the_allocator():
    printed = run(
        f"""
        import os
        import warnings
        import keras_lab
        import numpy as np

        warnings.simplefilter("error", UserWarning)
        keras_lab.config.keep_memory()
        print(os.environ["{NAME}"])
        print(int(os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"]) >= 1 << 16)
        keras_lab.BinaryDense(3)(np.ones((2, 4), "float32"))
        keras_lab.config.keep_memory()
        """
    )
    assert printed == ["1", "True"]


@on_tensorflow
def test_keep_memory_warns_if_it_is_too_late_but_not_if_the_user_chose(
    monkeypatch,
):
    monkeypatch.delenv(NAME, raising=False)
    keras.ops.ones(1)
    with pytest.warns(UserWarning, match="no effect"):
        keras_lab.config.keep_memory()
    assert NAME not in os.environ
    monkeypatch.setenv(NAME, "0")
    keras_lab.config.keep_memory()
    assert os.environ[NAME] == "0"
