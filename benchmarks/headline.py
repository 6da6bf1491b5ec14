"""The one table of the README, from the results of several parts."""

import re
import statistics

from benchmarks.parts.peers_accuracy import errors
from benchmarks.tables import NETWORKS, cell_text, find, megabytes
from examples.pages import markdown_table

# The columns: a method of training, and the formats of the files that are
# compared with ours.
COLUMNS = {
    "keras_lab": ("lab", []),
    "float32": ("keras", ["tflite_float32"]),
    "larq": ("larq_weights", ["compute_engine"]),
    "tfmot, 2 clusters": ("clusters", ["clusters", "clusters_int8"]),
    "TFLite, ai-edge-quantizer": (
        "int8",
        ["tflite_float16", "tflite_int8", "int4", "int2"],
    ),
}


def headline(results):
    """One row per quantity: keras_lab, float32 and the other libraries."""
    parts = ("peers_train_step", "peers_accuracy", "peers_files", "containers")
    steps, accuracy, files, containers = (
        results.get(part, {}).get("rows", []) for part in parts
    )
    files = files + [
        {**row, "format": "container_int8"}
        for row in containers
        if row["other_weights"] == "int8"
    ]
    methods, formats = zip(*COLUMNS.values())
    lines = []
    for xla, how in ((True, "with XLA"), (False, "without XLA")):
        title = f"training step, MNIST network, {how} (Keras float32 = 1)"
        key = {"network": "mlp", "jit_compile": xla}
        found = [find(steps, method=m, **key) for m in methods[:-1]]
        texts = [
            cell_text(r, lambda r: f"{r['ratio']['median']:.2f}") for r in found
        ]
        lines.append([title, *texts, "–"])
    title = "test error, MNIST network, 512 units, 10 epochs"
    texts = [errors(accuracy, method)[1] for method in methods]
    lines.append([title, *texts[:-1], f"{texts[-1]} (int8)"])
    for quantity, ours, value, show in (
        (
            'file size, {} (ours: `.tflz`, `other_weights="int8"`)',
            "container_int8",
            lambda row: row["file_bytes"],
            megabytes,
        ),
        (
            "inference, {} (ours: `fast`)",
            "fast",
            lambda row: 1000 * statistics.median(row["seconds"]["1"]),
            lambda ms: f"{ms:.3g} ms",
        ),
    ):
        for network, title in NETWORKS.items():
            rows = [row for row in files if row["network"] == network]
            texts = [best(rows, f or [ours], value, show) for f in formats]
            lines.append([quantity.format(title), *texts])
    return markdown_table(["", *COLUMNS], lines)


def best(rows, formats, value, show):
    """The smallest value of some formats, with the format if it is a choice."""
    found = [find(rows, format=format) for format in formats]
    made = [row for row in found if row and "cannot" not in row]
    if not made:
        return cell_text(found[0], str)
    row = min(made, key=value)
    name = re.sub("tflite_|clusters_", "", row["format"])
    name = f" ({name.replace('clusters', 'float32')})" if found[1:] else ""
    return show(value(row)) + name
