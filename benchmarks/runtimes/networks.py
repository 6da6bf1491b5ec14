"""Small networks of each kind, in each format, with the outputs of Keras.

<folder>/conv.npz                    inputs x, outputs y of Keras
<folder>/conv.packed.open.tflite     a file with an open batch size
<folder>/conv.packed.1.tflite        the same with batch_size=1
"""

from pathlib import Path

from benchmarks.networks import SEED

# The arguments of `export_tflite`, by the name of a column.
FORMATS = {
    "float": {"format": "float"},
    "packed_float": {"format": "packed_float"},
    "packed": {"format": "packed"},
    "fast": {"format": "fast"},
    "packed, 2.13": {"format": "packed", "runtime": "tensorflow-2.13"},
    "fast, 2.13": {"format": "fast", "runtime": "tensorflow-2.13"},
}
NETWORKS = (
    "dense",
    "conv",
    "conv_bn",
    "depthwise",
    "transpose",
    "sign",
    "lstm",
)
# A recurrent network always has a fixed batch size.
FIXED = ("lstm",)
SAMPLES = 3


def model_path(folder, network, format, batch) -> Path:
    """The file of a network. One in `FIXED` has a file only for batch 1."""
    batch, name = "1" if network in FIXED else batch, format.replace(", ", "-")
    return Path(folder) / f"{network}.{name}.{batch}.tflite"


def write(folder, name) -> None:
    """Writes the files of a network."""
    import keras
    import numpy as np

    from tflite_export import export_tflite

    keras.utils.set_random_seed(SEED)
    model, rng = build(name), np.random.default_rng(SEED)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            # γ, β, mean and variance as they may be after training.
            ranges = (0.5, 1.5), (-0.5, 0.5), (-0.2, 0.2), (0.5, 1.5)
            shape = layer.gamma.shape
            layer.set_weights([rng.uniform(*r, shape) for r in ranges])
    x = rng.normal(size=(SAMPLES, *model.input_shape[1:])).astype("float32")
    np.savez(Path(folder) / f"{name}.npz", x=x, y=model.predict(x, verbose=0))
    sizes = {"1": 1} if name in FIXED else {"open": None, "1": 1}
    for format, options in FORMATS.items():
        for batch, size in sizes.items():
            path = model_path(folder, name, format, batch)
            options = {**options, "batch_size": size, "validation_data": x}
            export_tflite(model, path, **options)


def build(name):
    """Returns one of the networks, with random weights."""
    import keras

    import keras_lab as lab

    norm, relu = keras.layers.BatchNormalization, keras.layers.ReLU
    conv, dense = lab.BinaryConv2D, lab.BinaryDense
    transpose = lab.BinaryConv2DTranspose
    vector, image = keras.Input((64,)), keras.Input((12, 12, 16))
    same = {"padding": "same", "use_bias": False}
    sign = {"input_quantizer": "sign", "use_bias": False}
    layers = {
        "dense": [vector, dense(96, activation="relu"), dense(10)],
        # Nothing but convolutions: some old runtimes know only these.
        "conv": [
            image,
            conv(32, 3, padding="same", activation="relu"),
            conv(10, 3),
        ],
        "conv_bn": [
            image,
            conv(32, 3, **same),
            keras.layers.MaxPooling2D(),
            norm(),
            relu(),
            conv(32, 3, **same),
            norm(),
            relu(),
            keras.layers.Flatten(),
            dense(10, use_bias=False),
            norm(),
        ],
        "depthwise": [
            image,
            lab.BinaryDepthwiseConv2D(3),
            norm(),
            relu(),
            lab.BinarySeparableConv2D(10, 3),
        ],
        "transpose": [
            image,
            transpose(24, 3, strides=2, activation="relu"),
            conv(10, 3, strides=2),
        ],
        "sign": [
            vector,
            dense(96, use_bias=False),
            norm(),
            dense(96, **sign),
            norm(),
            dense(10, **sign),
            norm(),
        ],
        "lstm": [
            keras.Input((12, 24)),
            lab.BinaryLSTM(32, return_sequences=True),
            keras.layers.Dense(10),
        ],
    }
    return keras.Sequential(layers[name])
