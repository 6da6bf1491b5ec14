"""The paper's networks as lists of layers, which every library can build.

A peer has neither keras_lab nor Keras 3. It is given a network as JSON and
builds it from its own layers:

    [["Input", {"shape": [784]}], ["Dense", {"units": 2048, …}], …]
"""

SEED = 1
NONE = {}
CHARACTERS = 87
STEPS = 100
KERNELS = ("Dense", "Conv2D", "LSTM")
POOLING = ["MaxPooling2D", {}]
# Batch norm as in `examples/paper`, then ReLU.
ACTIVATE = [
    ["BatchNormalization", {"momentum": 0.9, "epsilon": 1e-5}],
    ["ReLU", {}],
]


def dense_block(units):
    """A dense layer, batch norm and ReLU."""
    return [["Dense", {"units": units, "use_bias": False}], *ACTIVATE]


def mlp(width):
    """The MNIST network, 784-2048-2048-2048-10 in the paper."""
    hidden = 3 * dense_block(width)
    return [["Input", {"shape": [784]}], *hidden, *dense_block(10)[:-1]]


def vgg(width):
    """The network of CIFAR-10 and SVHN, with K = `width`."""
    layers = [["Input", {"shape": [32, 32, 3]}]]
    for filters in (width, 2 * width, 4 * width):
        options = {"filters": filters, "kernel_size": 3, "padding": "same"}
        conv = ["Conv2D", {**options, "use_bias": False}]
        layers += [conv, *ACTIVATE, conv, POOLING, *ACTIVATE]
    layers += [["Flatten", {}], *2 * dense_block(1024)]
    return layers + dense_block(10)[:-1]


def lstm(cells):
    """The character model. Its inputs are one-hot vectors."""
    return [
        ["Input", {"shape": [STEPS, CHARACTERS]}],
        ["LSTM", {"units": cells, "return_sequences": True}],
        ["Dense", {"units": CHARACTERS}],
    ]


def square(weights, width=None):
    """Three square dense layers with so many weights, and ten outputs."""
    width = width or round((weights / 3) ** 0.5 / 4) * 4
    hidden = 3 * dense_block(width)
    return [["Input", {"shape": [width]}], *hidden, dense_block(10)[0]]


# Each with its width or its number of cells.
NETWORKS = {
    "mnist": (mlp, 2048),
    "cifar10": (vgg, 128),
    "svhn": (vgg, 64),
    "svhn32": (vgg, 32),
    "lstm": (lstm, 512),
}


def describe(name: str, width: int | None = None) -> list:
    """Returns a network, of the paper's width or another, as a list."""
    function, default = NETWORKS[name]
    return function(width or default)


def build(description, keras, layers=NONE, kernel=NONE, inputs=NONE, norm=NONE):
    """Returns a model of the layers in a list.

    `keras` is Keras 3 or `tf_keras`. `layers` replaces some of its layers.
    `kernel` has additional arguments of the layers with kernels, `inputs` those
    of all but the first of them, and `norm` those of batch norm. With `inputs`,
    activations are binary, and the network has no ReLU.
    """
    (_, shape), *rest = description
    model, first = keras.Sequential([keras.Input(**shape)]), True
    for name, options in rest:
        if name == "ReLU" and inputs:
            continue
        more = norm if name == "BatchNormalization" else {}
        if name in KERNELS:
            more = kernel if first else {**kernel, **inputs}
            first = False
        layer = layers.get(name) or getattr(keras.layers, name)
        model.add(layer(**options, **more))
    return model
