"""The tables that compare with other libraries, from the JSON rows alone."""

import statistics

from benchmarks.harness import spread
from benchmarks.tables import THREADS, markdown

__all__ = [
    "FORMATS",
    "METHODS",
    "NETWORKS",
    "ONE_BIT",
    "TASKS",
    "accuracy",
    "cell",
    "error_text",
    "errors",
    "files",
    "find",
    "growth",
    "limit_bytes",
    "mean_and_deviation",
    "measured",
    "megabytes",
    "train_step",
]

METHODS = {
    "keras": "Keras float32",
    "tf_keras": "tf_keras float32",
    "lab": "**LAB**",
    "bwn": "BWN",
    "binary_connect": "BinaryConnect",
    "lab2": "LAB2 (binary inputs, too)",
    "larq_weights": "larq, `ste_sign` weights",
    "larq": "larq, `ste_sign` weights and inputs",
    "qat": "tfmot, quantization-aware (int8)",
    "clusters": "tfmot, 2 clusters",
    "int8": "TFLite int8 of the float network",
    "sign": "sign(w)·mean\\|w\\| after training",
    "sign_calibrated": "the same, batch norm measured anew",
}
ONE_BIT = (
    *("lab", "bwn", "binary_connect", "lab2", "larq_weights", "larq"),
    *("clusters", "sign", "sign_calibrated"),
)
REFERENCE = ("keras", "int8")
FORMATS = {
    "packed": "**packed**",
    "packed_float": "**packed_float**",
    "fast": "**fast**",
    "float": "**float**",
    "tflite_float32": "TFLite float32",
    "tflite_float16": "TFLite float16",
    "tflite_int8": "TFLite int8, dynamic range",
    "int4": "ai-edge-quantizer int4",
    "int2": "ai-edge-quantizer int2",
    "clusters": "tfmot 2 clusters, gzip",
    "clusters_int8": "tfmot 2 clusters, int8, gzip",
    "compute_engine": "larq-compute-engine",
}
NETWORKS = {
    "mnist": "MNIST, 784-2048-2048-2048-10",
    "cifar10": "CIFAR-10, K=128",
    "svhn": "SVHN, K=64",
    "lstm": "LSTM, 512 cells, 100 steps",
}
TASKS = {
    "keras": "step of Keras float",
    "lab": "step of LAB",
    "export": "export, packed",
}


def find(rows, **key):
    """The row with these values, `None` if there is none."""
    return next((r for r in rows if key.items() <= r.items()), None)


def cell(row, text) -> str:
    """What a function makes of a row, or why there is nothing."""
    if row is None:
        return "not run"
    return row["cannot"] if "cannot" in row else text(row)


def measured(values, factor=1.0, digits=2) -> str:
    """Median and quartiles of some values."""
    shown = spread([factor * value for value in values])
    low, high = shown["quartiles"]
    return f"{shown['median']:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def train_step(rows) -> str:
    """A method a line, and a network with and without XLA a column."""
    columns = [(n, jit) for n in ("mlp", "conv") for jit in (True, False)]
    heads = ["step / Keras float (quartiles)"] + [
        network + (", XLA" if jit else ", no XLA") for network, jit in columns
    ]
    methods = [m for m in METHODS if find(rows, method=m)]
    return markdown(
        heads,
        [
            [METHODS[method]]
            + [
                cell(
                    find(rows, method=method, network=n, jit_compile=jit),
                    _ratio_text,
                )
                for n, jit in columns
            ]
            for method in methods
        ],
    )


def _ratio_text(row):
    low, high = row["ratio"]["quartiles"]
    return f"{row['ratio']['median']:.2f} ({low:.2f}–{high:.2f})"


def errors(rows, method):
    """The test errors of a method, one a seed."""
    return [
        row["test_error"]
        for row in rows
        if row["method"] == method and "cannot" not in row
    ]


def mean_and_deviation(values):
    """Mean and standard deviation; zero where there is one value only."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return statistics.fmean(values), deviation


def error_text(values) -> str:
    """Mean and standard deviation in words; of one seed, that it is one."""
    mean, deviation = mean_and_deviation(values)
    if len(values) == 1:
        return f"{mean:.2f}% (one seed)"
    return f"{mean:.2f} ± {deviation:.2f}%"


def accuracy(rows) -> str:
    """A method a line: one-bit methods first, the best of them on top."""
    known = [m for m in ONE_BIT if errors(rows, m)]
    known.sort(key=lambda m: statistics.fmean(errors(rows, m)))
    unknown = [m for m in ONE_BIT if m not in known]
    lines = [_accuracy_line(rows, m) for m in (*known, *unknown, *REFERENCE)]
    heads = ("method", "bits a weight", "test error", "seed by seed")
    return markdown(heads, lines)


def _accuracy_line(rows, method):
    bits = {"keras": "32", "int8": "8"}.get(method, "1")
    values = errors(rows, method)
    if not values:
        text = cell(find(rows, method=method), str)
        return METHODS[method], bits, text, ""
    each = ", ".join(f"{value:.2f}" for value in values)
    return METHODS[method], bits, error_text(values), each


def limit_bytes(row) -> float:
    """What a network takes at one bit a weight and four bytes a float."""
    return row["binary_weights"] / 8 + 4 * row["float_parameters"]


def files(rows, network) -> str:
    """A format a line, for one network."""
    heads = (
        *("format", "file", "of the limit", "load, ms", "memory", "peak"),
        *("1 thread, ms", "2 threads, ms"),
    )
    lines = []
    for format, title in FORMATS.items():
        row = find(rows, network=network, format=format)
        cells = [cell(row, text) for text in _FILE_CELLS]
        if row is None or "cannot" in row:
            cells = cells[:1] + [""] * (len(cells) - 1)
        lines.append((title, *cells))
    return markdown(heads, lines)


def megabytes(count) -> str:
    digits = 2 if count < 1e8 else 0
    return f"{count / 1e6:.{digits}f} MB"


_FILE_CELLS = (
    lambda row: megabytes(row["file_bytes"]),
    lambda row: f"{row['file_bytes'] / limit_bytes(row):.2f}",
    lambda row: measured(row["load_seconds"], 1e3, 0),
    lambda row: megabytes(statistics.median(row["memory_bytes"])),
    lambda row: megabytes(statistics.median(row["peak_bytes"])),
    *(
        lambda row, n=threads: measured(row["seconds"][str(n)], 1e3)
        for threads in THREADS
    ),
)


def growth(rows) -> str:
    """A number of weights a line; median seconds and the peak of memory."""
    heads = ["weights"]
    for title in TASKS.values():
        heads += [f"{title}, s", "peak memory"]
    lines = []
    for weights in sorted({row["weights"] for row in rows}):
        line = [f"{weights:,}"]
        for task in TASKS:
            row = find(rows, weights=weights, task=task)
            line.append(cell(row, lambda r: measured(r["seconds"], 1, 3)))
            line.append(cell(row, lambda r: megabytes(r["peak_bytes"])))
        lines.append(line)
    return markdown(heads, lines)
