"""What the backends of Keras do in different ways, for several tests."""

import importlib.util

import keras
import pytest
from keras import ops

from keras_lab._backend import backend

NAME = keras.config.backend()
needs_tensorflow = pytest.mark.skipif(
    NAME != "tensorflow", reason="uses TensorFlow's own tape, graph or files"
)
# `.ci/run` runs these tests where all three are installed.
each_other_backend = pytest.mark.parametrize(
    "other",
    [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                importlib.util.find_spec(name) is None,
                reason=f"{name} is not installed beside {NAME}",
            ),
        )
        for name in ("tensorflow", "jax", "torch")
        if name != NAME
    ],
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


def second_derivative(function, x, variable):
    """∂‖∂function(x)/∂x‖²/∂variable."""
    if NAME == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = function(x)
            size = ops.sum(inner.gradient(y, x) ** 2)
        return outer.gradient(size, variable.value)
    if NAME == "jax":
        import jax

        def size():
            return ops.sum(jax.grad(function)(x) ** 2)

        return backend.gradients(size, [variable])[0]
    import torch

    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(function(x), x, create_graph=True)
    return torch.autograd.grad((first**2).sum(), variable.value)[0]


def dtype_of(tensor):
    """The name of the dtype, which torch has a class for."""
    return keras.backend.standardize_dtype(tensor.dtype)
