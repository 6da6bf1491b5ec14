"""Training steps of any model of Keras 3 or `tf_keras`, on random numbers."""

import numpy as np

__all__ = ["stepper"]

# As in the paper: rows of pixels, and images.
BATCH, IMAGE_BATCH = 100, 50


def stepper(model, optimizer, jit_compile: bool, steps: int):
    """A function that takes some training steps of a fresh model.

    Args:
        model: With ten outputs.
        optimizer: Not built yet.
        jit_compile: Whether XLA compiles the step.
        steps: How many a call.
    """
    import tensorflow as tf

    model.compile(optimizer, "squared_hinge", jit_compile=jit_compile)
    rng = np.random.default_rng(1)
    batch = BATCH if len(model.input_shape) == 2 else IMAGE_BATCH
    x = rng.normal(size=(batch, *model.input_shape[1:])).astype("float32")
    y = np.where(rng.integers(0, 10, (batch, 1)) == np.arange(10), 1.0, -1.0)
    data = iter(tf.data.Dataset.from_tensors((x, y)).repeat())
    optimizer.build(model.trainable_variables)
    model.make_train_function()
    step = model.train_function

    def run():
        for _ in range(steps):
            step(data)

    return run
