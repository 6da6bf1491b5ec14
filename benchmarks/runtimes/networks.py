"""Small networks of each kind, in each format, with the outputs of Keras.

<folder>/conv.npz                    inputs x, outputs y of Keras
<folder>/conv.packed.open.tflite     a file with an open batch size
<folder>/conv.packed.1.tflite        the same with batch_size=1
"""

import hashlib
from pathlib import Path

from benchmarks.networks import SEED
from benchmarks.worker import ROOT

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
    *("dense", "conv", "conv_bn", "depthwise", "transpose", "sign", "lstm"),
)
# A recurrent network always has a fixed batch size.
FIXED = ("lstm",)
BATCHES = ("open", "1")
SAMPLES = 3


def model_path(folder, network, format, batch) -> Path:
    """The file of a network. One with a fixed batch takes the place of all."""
    batch, name = "1" if network in FIXED else batch, format.replace(", ", "-")
    return Path(folder) / f"{network}.{name}.{batch}.tflite"


def digest(paths) -> str:
    """Returns a digest of the contents of files."""
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def sources() -> str:
    """Returns a digest of the code that makes the files."""
    packages = (ROOT / "keras_lab", ROOT / "tflite_export")
    code = [path for folder in packages for path in folder.rglob("*.py")]
    return digest([Path(__file__), *code])


def write(folder, name) -> None:
    """Writes the files of a network that are not there."""
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
    for format, options in FORMATS.items():
        for batch in BATCHES:
            path = model_path(folder, name, format, batch)
            if not path.exists():
                size = 1 if batch == "1" else None
                export_tflite(
                    model, path, **options, batch_size=size, validation_data=x
                )


def build(name):
    """Returns one of the networks, with random weights."""
    import keras

    import keras_lab as lab

    norm, relu = keras.layers.BatchNormalization, keras.layers.ReLU
    image, same = keras.Input((12, 12, 16)), {"padding": "same"}
    sign = {"input_quantizer": "sign", "use_bias": False}
    layers = {
        "dense": [
            keras.Input((64,)),
            lab.BinaryDense(96, activation="relu"),
            lab.BinaryDense(10),
        ],
        # Nothing but convolutions: some old runtimes know only these.
        "conv": [
            image,
            lab.BinaryConv2D(32, 3, **same, activation="relu"),
            lab.BinaryConv2D(10, 3),
        ],
        "conv_bn": [
            image,
            lab.BinaryConv2D(32, 3, **same, use_bias=False),
            *(keras.layers.MaxPooling2D(), norm(), relu()),
            lab.BinaryConv2D(32, 3, **same, use_bias=False),
            *(norm(), relu(), keras.layers.Flatten()),
            *(lab.BinaryDense(10, use_bias=False), norm()),
        ],
        "depthwise": [
            image,
            *(lab.BinaryDepthwiseConv2D(3), norm(), relu()),
            lab.BinarySeparableConv2D(10, 3),
        ],
        "transpose": [
            image,
            lab.BinaryConv2DTranspose(24, 3, strides=2, activation="relu"),
            lab.BinaryConv2D(10, 3, strides=2),
        ],
        "sign": [
            keras.Input((64,)),
            *(lab.BinaryDense(96, use_bias=False), norm()),
            *(lab.BinaryDense(96, **sign), norm()),
            *(lab.BinaryDense(10, **sign), norm()),
        ],
        "lstm": [
            keras.Input((12, 24)),
            lab.BinaryLSTM(32, return_sequences=True),
            keras.layers.Dense(10),
        ],
    }
    return keras.Sequential(layers[name])
