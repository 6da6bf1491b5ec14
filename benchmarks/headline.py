"""The README's table: ours against what users would pick instead."""

import statistics

from benchmarks import peer_tables
from benchmarks.peer_tables import cell, find
from benchmarks.tables import markdown

__all__ = ["table"]

HEADS = (
    *("", "keras_lab", "float32", "larq", "tfmot, 2 clusters"),
    "TFLite, ai-edge-quantizer",
)
CLUSTERS = ("clusters", "clusters_int8")
STOCK = ("tflite_float16", "tflite_int8", "int4", "int2")
SHORT = {
    "clusters": "float32",
    "clusters_int8": "int8",
    "tflite_float16": "float16",
    "tflite_int8": "int8",
    "int4": "int4",
    "int2": "int2",
}
NETWORKS = {
    "mnist": "MNIST network",
    "cifar10": "CIFAR-10 network",
    "svhn": "SVHN network",
    "lstm": "LSTM",
}


def table(results: dict) -> str:
    """A quantity a line: ours, float, and the peers'; what has run of them."""
    rows = {name: c.get("rows", []) for name, c in results.items()}
    files = rows.get("peers_files", [])
    lines = [
        _steps(rows.get("peers_train_step", []), True, "with XLA"),
        _steps(rows.get("peers_train_step", []), False, "without XLA"),
        _errors(rows.get("peers_accuracy", [])),
    ]
    for network, title in NETWORKS.items():
        title = f"file (`packed`), {title}"
        lines.append(_files(files, network, title, "packed", _SIZE))
    for network, title in NETWORKS.items():
        title = f"inference (`fast`), {title}"
        lines.append(_files(files, network, title, "fast", _LATENCY))
    lines = [line for line in lines if any(map(_has_run, line[1:]))]
    return markdown(HEADS, lines) if lines else "Nothing of it has run yet."


def _has_run(text):
    return not text.startswith(("not run", "–"))


def _steps(rows, jit_compile, how):
    methods = ("lab", "keras", "larq_weights", "clusters")
    key = {"network": "mlp", "jit_compile": jit_compile}
    return (
        f"training step (LAB) / Keras float, MNIST network, {how}",
        *(
            cell(
                find(rows, method=method, **key),
                lambda row: f"{row['ratio']['median']:.2f}",
            )
            for method in methods
        ),
        "–",
    )


def _errors(rows):
    def text(method):
        values = peer_tables.errors(rows, method)
        if not values:
            return cell(find(rows, method=method), str)
        return peer_tables.error_text(values)

    methods = ("lab", "keras", "larq_weights", "clusters")
    title = "MNIST test error (LAB), 512 units, ten epochs"
    return title, *map(text, methods), f"{text('int8')} (TFLite int8)"


_SIZE = (
    lambda row: row["file_bytes"],
    lambda row: peer_tables.megabytes(row["file_bytes"]),
)
_LATENCY = (
    lambda row: statistics.median(row["seconds"]["1"]),
    lambda row: f"{1e3 * statistics.median(row['seconds']['1']):.2f} ms",
)


def _files(rows, network, title, ours, quantity):
    value, show = quantity
    formats = (ours, "tflite_float32", "compute_engine")
    cells = [
        cell(find(rows, network=network, format=format), show)
        for format in formats
    ]

    def best(formats):
        made = [
            row
            for row in rows
            if row["network"] == network
            and row["format"] in formats
            and "cannot" not in row
        ]
        if not made:
            return "not run"
        row = min(made, key=value)
        return f"{show(row)} ({SHORT[row['format']]})"

    return title, *cells, best(CLUSTERS), best(STOCK)
