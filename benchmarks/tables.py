"""The tables, as Markdown, from the contents of the JSON files alone."""

import statistics
from functools import partial

from benchmarks import harness

METHODS = {
    "keras": "Keras float32",
    "tf_keras": "tf_keras float32",
    "lab": "**LAB**",
    "bwn": "BWN",
    "binary_connect": "BinaryConnect",
    "lab2": "LAB2 (binary inputs too)",
    "larq_weights": "larq, `ste_sign` weights",
    "larq": "larq, `ste_sign` weights and inputs",
    "qat": "tfmot, quantization-aware (int8)",
    "clusters": "tfmot, 2 clusters",
    "int8": "TFLite int8 of the float network",
    "sign": "sign(w)·mean\\|w\\| after training",
    "sign_calibrated": "the same, batch norm measured again",
}
BITS = {"keras": 32, "int8": 8}
FORMATS = {
    "packed": "**packed**",
    "packed_float": "**packed_float**",
    "fast": "**fast**",
    "float": "**float**",
    "tflite_float32": "TFLite float32",
    "tflite_float16": "TFLite float16",
    "tflite_int8": "TFLite int8",
    "int4": "ai-edge-quantizer int4",
    "int2": "ai-edge-quantizer int2",
    "clusters": "tfmot 2 clusters, gzip",
    "clusters_int8": "tfmot 2 clusters, int8, gzip",
    "compute_engine": "larq-compute-engine",
}
NETWORKS = {
    "mnist": "MNIST network",
    "cifar10": "CIFAR-10 network",
    "svhn": "SVHN network",
    "lstm": "LSTM",
}
XLA = {True: "XLA", False: "no XLA"}


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def grid(content, corner, lines, columns):
    """Returns a table of cells, each of them found by two keys.

    `lines` has the key of each line by its title, `columns` the key of each
    column and a function of the row that is found.
    """
    body = []
    for title, key in lines.items():
        line, reasons = [title], []
        for more, text in columns.values():
            row = find(content["rows"], **key, **more)
            missing = row is None or "cannot" in row
            # Each reason appears once per line.
            line.append("–" if missing and row in reasons else cell(row, text))
            reasons.append(row)
        body.append(line)
    return table([corner, *columns], body)


def lines_of(content, name):
    """A line for each value of a name."""
    return {row[name]: {name: row[name]} for row in content["rows"]}


def find(rows, **key):
    return next((r for r in rows if key.items() <= r.items()), None)


def cell(row, text):
    """What a function makes of a row, or the reason if it is missing."""
    if row is None:
        return "not run"
    return row["cannot"] if "cannot" in row else text(row)


def spread(found, digits=2):
    low, high = found["quartiles"]
    return f"{found['median']:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def ratio(row):
    return spread(row["ratio"])


def times(values, factor=1, digits=3):
    return spread(harness.spread([factor * v for v in values]), digits)


def megabytes(count):
    return f"{count / 1e6:.{2 if count < 1e8 else 0}f} MB"


def by_xla(name, values, order=(True, False)):
    """Columns of ratios: each value, by its title, with and without XLA."""
    return {
        f"{title}, {XLA[xla]}": ({name: value, "jit_compile": xla}, ratio)
        for title, value in values.items()
        for xla in order
    }


def methods(content):
    """The methods that a file has, in the order of `METHODS`."""
    return [m for m in METHODS if find(content["rows"], method=m)]


def peers_train_step(content):
    lines = {METHODS[method]: {"method": method} for method in methods(content)}
    columns = by_xla("network", {"mlp": "mlp", "conv": "conv"})
    return grid(content, "method", lines, columns)


def errors(rows, method):
    """The test errors, one per seed, and their mean with the deviation."""
    found = [row for row in rows if row["method"] == method]
    values = [row["test_error"] for row in found if "cannot" not in row]
    if not values:
        return [], cell(find(rows, method=method), str)
    deviation = statistics.stdev(values) if len(values) > 1 else 0
    return values, f"{statistics.fmean(values):.2f} ± {deviation:.2f}%"


def peers_accuracy(content):
    lines = []
    for method in methods(content):
        values, mean = errors(content["rows"], method)
        bits = BITS.get(method, 1)
        each = ", ".join(f"{value:.2f}" for value in values)
        order = bits, statistics.fmean(values or [100])
        lines.append((order, [METHODS[method], str(bits), mean, each]))
    heads = ("method", "bits per weight", "test error", "each seed")
    return table(heads, [texts for _, texts in sorted(lines)])


def over_limit(row):
    """The file over one bit per binary weight and four bytes per float."""
    limit = row["binary_weights"] / 8 + 4 * row["float_parameters"]
    return f"{row['file_bytes'] / limit:.2f}"


FILE_COLUMNS = {
    "file": lambda row: megabytes(row["file_bytes"]),
    "file / limit": over_limit,
    "load, ms": lambda row: times(row["load_seconds"], 1000, 0),
    "memory": lambda row: megabytes(statistics.median(row["memory_bytes"])),
    "peak": lambda row: megabytes(statistics.median(row["peak_bytes"])),
    "1 thread, ms": lambda row: times(row["seconds"]["1"], 1000),
    "2 threads, ms": lambda row: times(row["seconds"]["2"], 1000),
}


def peers_files(content, network):
    lines = {t: {"network": network, "format": f} for f, t in FORMATS.items()}
    columns = {title: ({}, text) for title, text in FILE_COLUMNS.items()}
    return grid(content, "format", lines, columns)


def backend_step(content):
    lines = {}
    for row in content["rows"]:
        key = {k: row[k] for k in ("network", "keep_memory", "jit_compile")}
        parts = [
            {"mlp": "MNIST network", "large": "10⁸ weights"}[row["network"]],
            "" if row["keep_memory"] else "without `keep_memory()`",
            XLA.get(row["jit_compile"], ""),
        ]
        lines[", ".join(filter(None, parts))] = key
    columns = {
        title: ({}, lambda row, clock=clock: ratio(row[clock]))
        for clock, title in (("wall", "time"), ("cpu", "CPU time"))
    }
    return grid(content, "LAB / Keras float", lines, columns)


def recurrent_step(content):
    lines = lines_of(content, "layer")
    values = {"training": "train", "inference": "infer"}
    return grid(content, "layer", lines, by_xla("what", values, (False, True)))


def containers(content):
    def text(row):
        return f"{megabytes(row['file_bytes'])} ({row['file_over_limit']:.2f})"

    kinds = ("float32", "float16", "int8")
    columns = {kind: ({"other_weights": kind}, text) for kind in kinds}
    return grid(content, "network", lines_of(content, "network"), columns)


def resnet8(content):
    lines = []
    for row in content["rows"]:
        name = f"tfmot, {row['values']} clusters, gzip"
        if row["peer"] == "keras_lab":
            name = "**keras_lab**, `.tflz`"
        size = f"{row['file_bytes']:,}"
        lines.append([name, row["weights"], size])
    return table(["file", "other weights", "bytes"], lines)


def deep_int8(content):
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
    return table([*heads, "error then", "bytes more"], lines)


def open_batch(content):
    lines = [[row["file"], ratio(row)] for row in content["rows"]]
    return table(["file, batch size", "time (float = 1)"], lines)


def low_bits(content):
    columns = {
        f"{title}, {threads} thread{'s' * (threads > 1)}": (
            {"runtime": runtime, "threads": threads},
            lambda row: f"{row['ratio']:.1f}",
        )
        for runtime, title in (("litert", "LiteRT"), ("tf", "TensorFlow"))
        for threads in (1, 2)
    }
    return grid(content, "layer", lines_of(content, "layer"), columns)


def machine(content):
    """The machine, the versions and the settings of a part."""
    about = {"keras_lab": "before 0.1.0", **content["environment"]}
    first = about.pop("date")
    dates = [row.get("date", first) for row in content.get("rows", [])]
    dates = sorted({min(dates, default=first), max(dates, default=first)})
    where = [f"{about.pop('cores')} cores", about.pop("machine")]
    where += [about.pop("cpu", ""), " ".join(about.pop("cpu_features", []))]
    for more in content.get("versions", {}).values():
        about = {**about, **more, **about}
    settings = {
        key.replace("_", " "): ", ".join(map(str, value))
        if isinstance(value, list)
        else value
        for key, value in content["configuration"].items()
        if value
    }
    versions, chosen = (
        ", ".join(f"{name} {value}" for name, value in pairs.items())
        for pairs in (about, settings)
    )
    return (
        f"Measured on {', '.join(filter(None, where))}, {' to '.join(dates)}. "
        f"{versions}. Settings: {chosen}.\n"
    )


# The tables by name, each with the part that it is made of.
BLOCKS = {
    function.__name__: (function.__name__, function)
    for function in (
        peers_train_step,
        peers_accuracy,
        recurrent_step,
        containers,
        resnet8,
        deep_int8,
        open_batch,
        low_bits,
    )
}
BLOCKS |= {
    f"train_step_{name}": (f"train_step_{name}", backend_step)
    for name in ("tensorflow", "jax", "torch")
}
BLOCKS |= {
    f"peers_files_{name}": ("peers_files", partial(peers_files, network=name))
    for name in NETWORKS
}
