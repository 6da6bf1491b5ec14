"""The README's table: ours against what users would pick instead."""

import statistics

from benchmarks import peer_tables
from benchmarks.peer_tables import FORMATS, METHODS, find
from benchmarks.tables import markdown

__all__ = ["table"]

OURS = ("packed", "packed_float", "fast", "float")
NOT_RUN = "not run"


def table(results: dict) -> str:
    """A quantity a line: ours, float, and the peers'."""
    rows = {name: c.get("rows", []) for name, c in results.items()}
    lines = [
        _steps(rows.get("peers_train_step", [])),
        _errors(rows.get("peers_accuracy", [])),
    ]
    files = rows.get("peers_files", [])
    for network, title in peer_tables.NETWORKS.items():
        lines.append(_sizes(files, network, title))
    for network, title in peer_tables.NETWORKS.items():
        lines.append(_latencies(files, network, title))
    return markdown(("", "keras_lab", "float32", "best of the others"), lines)


def _steps(rows):
    def text(method):
        row = find(rows, network="mlp", jit_compile=False, method=method)
        median = "not run" if row is None else row.get("cannot")
        return median or f"{row['ratio']['median']:.2f}"

    others = ("larq_weights", "larq", "qat", "clusters")
    return (
        "training step of the MNIST network / Keras float",
        f"{text('lab')} (LAB)",
        "1",
        ", ".join(f"{text(m)} ({METHODS[m]})" for m in others),
    )


def _errors(rows):
    def text(method):
        values = peer_tables.errors(rows, method)
        if not values:
            return NOT_RUN
        mean, deviation = peer_tables.mean_and_deviation(values)
        return f"{mean:.2f} ± {deviation:.2f}%"

    others = ("larq_weights", "larq", "clusters", "sign_calibrated")
    return (
        "MNIST test error at one bit, ten epochs",
        f"{text('lab')} (LAB)",
        text("keras"),
        ", ".join(f"{text(m)} ({METHODS[m]})" for m in others),
    )


def _best(rows, network, value, stock=False):
    """The best of the peers' formats by a value, and its title."""
    made = [
        (value(row), FORMATS[row["format"]])
        for row in rows
        if row["network"] == network
        and row["format"] not in OURS
        and "cannot" not in row
        and not (stock and row["format"] == "compute_engine")
    ]
    return min(made) if made else None


def _line(rows, network, title, ours, value, show, stock):
    def text(format):
        row = find(rows, network=network, format=format)
        return peer_tables.cell(row, lambda r: show(value(r)))

    best = _best(rows, network, value, stock)
    return (
        title,
        f"{text(ours)} (`{ours}`)",
        text("tflite_float32"),
        f"{show(best[0])} ({best[1]})" if best else NOT_RUN,
    )


def _sizes(rows, network, title):
    return _line(
        rows,
        network,
        f"file: {title}",
        "packed",
        lambda row: row["file_bytes"],
        peer_tables.megabytes,
        stock=False,
    )


def _latencies(rows, network, title):
    return _line(
        rows,
        network,
        f"inference, one thread: {title}",
        "fast",
        lambda row: statistics.median(row["seconds"]["1"]),
        lambda seconds: f"{1e3 * seconds:.2f} ms",
        stock=True,
    )
