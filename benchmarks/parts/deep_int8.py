"""How many layers of deep networks must compute in float32 next to int8.

Networks of `keras.applications`, not trained, with binary layers and batch
norms that fit their inputs: as a network is before fine-tuning, when errors
grow most from layer to layer.
"""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.networks import SEED
from examples.pages import markdown_table

OPTIONS = {
    "networks": [
        "MobileNetV2",
        "EfficientNetB0",
        "NASNetMobile",
        "InceptionV3",
    ],
    "size": 96,
}
QUICK = {"networks": ["MobileNetV2"], "size": 32}


def cells(options):
    return [{"network": name} for name in options.networks]


def measure(cell, options, _):
    import keras

    import keras_lab
    from tflite_export import export_tflite

    keras.utils.set_random_seed(SEED)
    shape = options.size, options.size, 3
    make = getattr(keras.applications, cell["network"])
    # Probabilities of an untrained network are all equal.
    network = make(weights=None, input_shape=shape, classifier_activation=None)
    model = keras_lab.binarize_model(network, skip_first=False, skip_last=False)
    x = np.random.default_rng(SEED).normal(size=(32, *shape)).astype("float32")
    keras_lab.recalibrate_batch_norm(model, x)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for format in ("packed", "fast"):
            report = export_tflite(model, Path(folder, "m.tflite"), format)
            found = report.in_float
            in_int8 = [r for r in report.layers if r.arithmetic == "int8"]
            row = {
                "format": format,
                "layers": len(report.layers),
                "int8_layers": len(in_int8),
                "file_bytes": report.file_bytes,
                "relative_error": report.agreement.relative_error,
                "in_float": list(found.paths) if found else [],
                "int8_error": found.int8_error if found else None,
                "more_bytes": found.more_bytes if found else 0,
                "time_ratio": found.time_ratio if found else 1,
            }
            rows.append(row)
    return rows


def table(content):
    lines = []
    for row in content["rows"]:
        error, count = row["relative_error"], len(row["in_float"])
        texts = [
            f"{row['int8_error'] or error:.2g}",
            f"{count} of {count + row['int8_layers']}",
            f"{error:.2g}",
            f"{row['more_bytes']:,}",
        ]
        lines.append([row["network"], f'`"{row["format"]}"`', *texts])
    heads = ["network", "format", "int8 everywhere", "layers in float32"]
    return markdown_table([*heads, "error then", "bytes more"], lines)
