"""What the backends of Keras do in different ways, for several tests."""

import keras
import pytest
from keras import ops

from keras_lab._backend import backend

NAME = keras.config.backend()
needs_tensorflow = pytest.mark.skipif(
    NAME != "tensorflow", reason="uses TensorFlow's own tape, graph or files"
)
# `.ci/run` runs no slow tests on the other backends.
slow_on_tensorflow = pytest.mark.slow if NAME == "tensorflow" else ()
# torch.compile takes a minute for a small network. JAX takes as long for one
# that it does not compile, because it compiles each operation by itself.
can_compile = {"torch": [False], "jax": [True]}.get(NAME, [True, False])
# The quickest way to run a few steps, and many.
FEW_STEPS = {} if NAME == "jax" else {"run_eagerly": True}
MANY_STEPS = {"jit_compile": NAME == "jax"}


def compiled(function, jit_compile=True):
    """The function as a graph. torch runs it as it is."""
    if NAME == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=jit_compile)
    if NAME == "jax":
        import jax

        return jax.jit(lambda *arguments: function(*arguments))
    return function


def gradients_of(function, tensors, variables, jit_compile=False):
    """The gradients of the scalar function(*tensors).

    Returns:
        Those with respect to the tensors, then those with respect to the
        variables. A gradient that does not exist is zero.
    """
    inputs = [keras.Variable(tensor, dtype=tensor.dtype) for tensor in tensors]
    of = [*inputs, *variables]
    # torch refuses variables that have no gradient, such as α.
    taken = [v for v in of if getattr(v.value, "requires_grad", True)]
    if jit_compile and NAME != "tensorflow":
        function = compiled(function)

    def take():
        return backend.gradients(
            # A tensor: a custom gradient of TensorFlow refuses a variable.
            lambda: function(*(1.0 * variable for variable in inputs)),
            taken,
        )

    if jit_compile and NAME == "tensorflow":
        # With its gradient: no loop may cross the boundary of XLA.
        take = compiled(take)
    found = take()
    found = dict(zip(map(id, taken), found))
    return [
        ops.zeros(v.shape) if found.get(id(v)) is None else found[id(v)]
        for v in of
    ]


def dtype_of(tensor):
    """The name of the dtype, which torch has a class for."""
    return keras.backend.standardize_dtype(tensor.dtype)
