"""What the workers of the peers share. Runs in every environment."""

import importlib.metadata
import time

import numpy as np

from benchmarks import stepping

__all__ = [
    "Steps",
    "as_if_trained",
    "errors",
    "load",
    "percent_wrong",
    "to_tflite",
    "train",
    "versions_of",
]

EVALUATION_BATCH = 500
# What training makes of the biases and batch norms of a fresh network: mean and
# standard deviation.
TRAINED = {
    "gamma": (1.0, 0.1),
    "moving_variance": (1.0, 0.1),
    "beta": (0.0, 0.1),
    "moving_mean": (0.0, 0.1),
    "bias": (0.0, 0.1),
}


def versions_of(*packages):
    """The function `versions` of a worker."""

    def versions():
        return {name: importlib.metadata.version(name) for name in packages}

    return versions


def as_if_trained(model):
    """The model, its biases and batch norms no longer all zeros and ones.

    Those would be stored once, and are nothing to a compressor.
    """
    rng = np.random.default_rng(1)
    for weight in model.weights:
        # In tf_keras "dense/bias:0", in Keras "bias".
        name = weight.name.rpartition("/")[2].partition(":")[0]
        if name in TRAINED:
            mean, deviation = TRAINED[name]
            weight.assign(rng.normal(mean, deviation, weight.shape))
    return model


class Steps:
    """Training steps of several models, one at a time.

    Args:
        make: A function of a list of layers and the name of a method, which
            gives a model and an optimizer.
    """

    def __init__(self, make):
        self.make, self.runs = make, {}

    def prepare(self, method, network, jit_compile, steps):
        """Builds a model, and takes its first steps."""
        model, optimizer = self.make(network, method)
        run = stepping.stepper(model, optimizer, jit_compile, steps)
        run()
        self.runs[method] = run

    def step(self, method):
        """Takes some steps."""
        self.runs[method]()

    def forget(self):
        """Drops all models."""
        self.runs.clear()

    @property
    def functions(self):
        return self.prepare, self.step, self.forget


def train(model, data, rates, seed, batch, first_epoch=1):
    """Trains, and returns the numbers of each epoch.

    Args:
        model: Compiled.
        data: A dict with `train_x`, `train_y` and the like, for the parts
            `train`, `validation` and `test`; and `targets`, what the loss
            wants of `train_y`.
        rates: The learning rate of each epoch.
        seed: Of the order of the examples.
        batch: Examples a step.
        first_epoch: The number of the first epoch.
    """
    history = []
    for epoch, rate in enumerate(rates, start=first_epoch):
        began = time.monotonic()
        model.optimizer.learning_rate = rate
        order = np.random.default_rng([seed, epoch]).permutation(
            len(data["train_y"])
        )
        # A last batch that is not full is left out.
        order = order[: len(order) // batch * batch]
        model.fit(
            data["train_x"][order],
            data["targets"][order],
            batch_size=batch,
            shuffle=False,
            verbose=0,
        )
        seconds = round(time.monotonic() - began, 1)
        history.append(
            {
                "epoch": epoch,
                "learning_rate": rate,
                **errors(model, data),
                "seconds": seconds,
            }
        )
    return history


def errors(model, data):
    """Validation and test error in percent."""
    return {
        f"{part}_error": percent_wrong(
            model.predict(
                data[f"{part}_x"], batch_size=EVALUATION_BATCH, verbose=0
            ),
            data[f"{part}_y"],
        )
        for part in ("validation", "test")
    }


def percent_wrong(scores, labels):
    """How many of a hundred examples are classified wrongly."""
    return float(100 * np.mean(np.argmax(scores, axis=-1) != labels))


def load(path):
    """The data that the program wrote, with the targets of an SVM."""
    with np.load(path) as file:
        data = dict(file)
    labels = data["train_y"]
    data["targets"] = 2 * np.eye(10, dtype="float32")[labels] - 1
    return data


def to_tflite(model, weights=None, batch=1):
    """The model as TensorFlow's own converter writes it.

    Args:
        model: Of Keras 3 or `tf_keras`, with one input.
        weights: `"float16"`, or `"int8"` for dynamic range; float32 if `None`.
        batch: A fixed batch size: a loop over time needs one.
    """
    import tensorflow as tf

    spec = tf.TensorSpec((batch, *model.input_shape[1:]), "float32")
    serve = tf.function(
        lambda x: model(x, training=False), input_signature=[spec]
    )
    function = serve.get_concrete_function()
    # Without an object that owns them, the variables become constants.
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function])
    if weights:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if weights == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()
