"""What the workers of the peers share. It runs in every environment."""

import time

import numpy as np

from benchmarks.networks import SEED

# As in the paper: rows of pixels, and images.
BATCH, IMAGE_BATCH = 100, 50
EVALUATION_BATCH = 500
# Weights of biases and batch norms that begin as ones and as zeros.
ONES, ZEROS = ("gamma", "moving_variance"), ("beta", "moving_mean", "bias")


def stepper(model, optimizer, jit_compile: bool, count: int):
    """Returns a function that takes training steps on random numbers."""
    import tensorflow as tf

    model.compile(optimizer, "squared_hinge", jit_compile=jit_compile)
    batch = BATCH if len(model.input_shape) == 2 else IMAGE_BATCH
    examples = random_data(model, batch)
    data = iter(tf.data.Dataset.from_tensors(examples).repeat())
    optimizer.build(model.trainable_variables)
    model.make_train_function()
    step = model.train_function

    def run():
        for _ in range(count):
            step(data)

    return run


def random_data(model, count):
    """Returns random inputs, and targets of ±1."""
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(count, *model.input_shape[1:])).astype("float32")
    y = np.where(rng.integers(0, 10, (count, 1)) == np.arange(10), 1.0, -1.0)
    return x, y


def steps(make):
    """Returns the functions `prepare` and `step` of a worker.

    `make` makes a model and an optimizer of a list of layers and a method.
    """
    runs = {}

    def prepare(method, network, jit_compile, count):
        """Builds a model and takes steps. Returns the optimizer's bytes."""
        model, optimizer = make(network, method)
        runs[method] = stepper(model, optimizer, jit_compile, count)
        runs[method]()
        return sum(v.numpy().nbytes for v in optimizer.variables)

    def step(method):
        """Takes some steps."""
        runs[method]()

    return prepare, step


def as_if_trained(model):
    """Gives biases and batch norms random values.

    Those of a new network are all zeros and ones, which a file stores once and
    which a compressor makes disappear.
    """
    rng = np.random.default_rng(SEED)
    for weight in model.weights:
        # In tf_keras "dense/bias:0", in Keras "bias".
        name = weight.name.rpartition("/")[2].partition(":")[0]
        if name in ONES + ZEROS:
            mean = 1.0 if name in ONES else 0.0
            weight.assign(rng.normal(mean, 0.1, weight.shape))
    return model


def train(model, data, rates, seed, batch, first_epoch=1):
    """Trains a compiled model and returns the numbers of each epoch.

    `data` is what `load` returns, `rates` has the learning rate of each epoch,
    and `seed` decides the order of the examples.
    """
    history = []
    for epoch, rate in enumerate(rates, start=first_epoch):
        began = time.monotonic()
        model.optimizer.learning_rate = rate
        count = len(data["train_y"])
        order = np.random.default_rng([seed, epoch]).permutation(count)
        # The last batch is left out if it is not full.
        order = order[: count // batch * batch]
        x, y = data["train_x"][order], data["targets"][order]
        model.fit(x, y, batch_size=batch, shuffle=False, verbose=0)
        seconds = round(time.monotonic() - began, 1)
        row = {"epoch": epoch, "learning_rate": rate, "seconds": seconds}
        history.append({**row, **errors(model, data)})
    return history


def errors(model, data):
    """Returns validation and test error in percent."""
    found = {}
    for part in ("validation", "test"):
        x, y = data[f"{part}_x"], data[f"{part}_y"]
        scores = model.predict(x, batch_size=EVALUATION_BATCH, verbose=0)
        found[f"{part}_error"] = percent_wrong(scores, y)
    return found


def percent_wrong(scores, labels):
    return float(100 * np.mean(np.argmax(scores, axis=-1) != labels))


def load(path):
    """Returns the arrays that `peers_accuracy.py` wrote, and targets of ±1."""
    with np.load(path) as file:
        data = dict(file)
    data["targets"] = 2 * np.eye(10, dtype="float32")[data["train_y"]] - 1
    return data


def to_tflite(model, weights="float32", batch=1):
    """Returns the file that TensorFlow's converter makes of a model.

    `weights` is `"float32"`, `"float16"`, or `"int8"` for dynamic range. The
    batch size is fixed, because a loop over time needs that.
    """
    import tensorflow as tf

    spec = tf.TensorSpec((batch, *model.input_shape[1:]), "float32")
    serve = tf.function(lambda x: model(x, training=False))
    function = serve.get_concrete_function(spec)
    # Without an object that owns them, the variables become constants.
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function])
    if weights != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if weights == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()
