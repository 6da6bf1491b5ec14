"""Writes the tables and the figure from the JSON files alone.

    python -m benchmarks --report

A document says where a table goes with two comments:

    <!-- benchmarks: growth -->
    <!-- benchmarks: end -->

Everything else in it is written by hand. `BLOCKS` has the names of the tables.
"""

import re
import statistics
from pathlib import Path

from benchmarks import harness

__all__ = ["BLOCKS", "DOCUMENTS", "insert", "load", "write"]

ROOT = harness.RESULTS.parents[1]
DOCUMENTS = ("README.md", "docs/**/*.md", "tflite_export/README.md")
MARKERS = "<!-- benchmarks: {} -->\n{}<!-- benchmarks: end -->"
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
TASKS = {
    "keras": "step, Keras float32",
    "lab": "step, LAB",
    "export": "export, packed",
}
PARTS = ("form ŵ", "project", "loop", "backward", "update")
XLA = {True: "XLA", False: "no XLA"}
ALLOCATORS = {"system": "malloc", "bfc": "`keep_memory()`"}


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


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


def times(values, factor=1, digits=2):
    return spread(harness.spread([factor * v for v in values]), digits)


def megabytes(count):
    return f"{count / 1e6:.{2 if count < 1e8 else 0}f} MB"


def peers_train_step(content):
    rows = content["rows"]
    columns = [(n, xla) for n in ("mlp", "conv") for xla in (True, False)]
    lines = []
    for method in [m for m in METHODS if find(rows, method=m)]:
        found = (
            find(rows, method=method, network=n, jit_compile=x)
            for n, x in columns
        )
        texts = (cell(row, lambda r: spread(r["ratio"])) for row in found)
        lines.append([METHODS[method], *texts])
    return table(["", *(f"{n}, {XLA[x]}" for n, x in columns)], lines)


def errors(rows, method):
    """Test errors, one per seed."""
    found = [row for row in rows if row["method"] == method]
    return [row["test_error"] for row in found if "cannot" not in row]


def mean_error(rows, method):
    values = errors(rows, method)
    if not values:
        return cell(find(rows, method=method), str)
    deviation = statistics.stdev(values) if len(values) > 1 else 0
    return f"{statistics.fmean(values):.2f} ± {deviation:.2f}%"


def peers_accuracy(content):
    rows, lines = content["rows"], []
    for method in [m for m in METHODS if find(rows, method=m)]:
        values, bits = errors(rows, method), BITS.get(method, 1)
        mean = statistics.fmean(values) if values else 100
        each = ", ".join(f"{value:.2f}" for value in values)
        texts = METHODS[method], str(bits), mean_error(rows, method), each
        lines.append((bits, mean, texts))
    heads = ("method", "bits per weight", "test error", "each seed")
    return table(heads, [texts for *_, texts in sorted(lines)])


def limit(row):
    """The bytes of one bit per binary weight and four bytes per float."""
    return row["binary_weights"] / 8 + 4 * row["float_parameters"]


FILE_COLUMNS = {
    "file": lambda row: megabytes(row["file_bytes"]),
    "over the limit": lambda row: f"{row['file_bytes'] / limit(row):.2f}",
    "load, ms": lambda row: times(row["load_seconds"], 1000, 0),
    "memory": lambda row: megabytes(statistics.median(row["memory_bytes"])),
    "peak": lambda row: megabytes(statistics.median(row["peak_bytes"])),
    "1 thread, ms": lambda row: times(row["seconds"]["1"], 1000),
    "2 threads, ms": lambda row: times(row["seconds"]["2"], 1000),
}


def peers_files(content, network):
    lines = []
    for format, title in FORMATS.items():
        row = find(content["rows"], network=network, format=format)
        if row is None or "cannot" in row:
            texts = [cell(row, str), *[""] * (len(FILE_COLUMNS) - 1)]
        else:
            texts = [text(row) for text in FILE_COLUMNS.values()]
        lines.append([title, *texts])
    return table(["format", *FILE_COLUMNS], lines)


def growth(content):
    rows, heads, lines = content["rows"], ["weights"], []
    for title in TASKS.values():
        heads += [f"{title}, s", "peak memory"]
    for weights in sorted({row["weights"] for row in rows}):
        line = [f"{weights:,}"]
        for task in TASKS:
            row = find(rows, weights=weights, task=task)
            line.append(cell(row, lambda r: times(r["seconds"], 1, 3)))
            line.append(cell(row, lambda r: megabytes(r["peak_bytes"])))
        lines.append(line)
    return table(heads, lines)


def train_step(content):
    heads = (
        *("network", "XLA", "memory allocator"),
        *("LAB step / Keras step", "LABAdam memory / Adam memory"),
    )
    lines = [
        (
            row["network"],
            "yes" if row["jit_compile"] else "no",
            ALLOCATORS[row["allocator"]],
            spread(row["ratio"]),
            f"{row['optimizer_memory_ratio']:.2f}",
        )
        for row in content["rows"]
        # Older files say "scheme", and have no row of Keras itself.
        if row.get("method", row.get("scheme")) == "lab"
    ]
    return table(heads, lines)


def recurrent_step(content):
    columns = [(w, xla) for w in ("train", "infer") for xla in (False, True)]
    lines = []
    for layer in dict.fromkeys(row["layer"] for row in content["rows"]):
        found = (
            find(content["rows"], layer=layer, what=what, jit_compile=xla)
            for what, xla in columns
        )
        texts = (cell(row, lambda r: spread(r["ratio"])) for row in found)
        lines.append([layer, *texts])
    return table(["layer", *(f"{w}, {XLA[x]}" for w, x in columns)], lines)


def recurrent_parts(content):
    lines = []
    for row in content["parts"]:
        spent = row["milliseconds"]
        texts = [f"{spent[p]:.0f}" if p in spent else "–" for p in PARTS]
        title = f"{row['layer']}, {XLA[row['jit_compile']]}"
        lines.append([title, *texts, f"{sum(spent.values()):.0f}"])
    return table(["milliseconds", *PARTS, "sum"], lines)


def inference(content):
    heads = ("network", "format", "file", "load", "memory")
    lines = []
    for row in [row for row in content["rows"] if row["threads"] == 1]:
        key = {"network": row["network"], "format": row["format"]}
        two = find(content["rows"], **key, threads=2)
        lines.append(
            (
                *key.values(),
                megabytes(row["file_bytes"]),
                f"{row['load_milliseconds']:.0f} ms",
                f"{row['memory_bytes'] / 1e6:.0f} MB",
                f"{row['ratio']:.2f}",
                f"{two['ratio']:.2f}",
                f"{row['export_seconds']:.1f} s",
                f"{row['export_memory_bytes'] / 1e6:.0f} MB",
            )
        )
    more = ("1 thread", "2 threads", "export time", "export memory")
    return table((*heads, *more), lines)


def monitor(content):
    share = content["share_of_an_epoch"]
    percent = [100 * v for v in (share["median"], *share["quartiles"])]
    text = spread({"median": percent[0], "quartiles": percent[1:]})
    return table(["", "share of an epoch"], [["one measurement", f"{text} %"]])


def machine(content):
    """The machine, the versions and the settings of a part."""
    about = dict(content["environment"])
    dates = {row.get("date", about["date"]) for row in content.get("rows", [])}
    date = " to ".join(
        sorted({min(dates), max(dates)} if dates else {about["date"]})
    )
    cpu = " ".join([about.pop("cpu", ""), *about.pop("cpu_features", [])])
    about.pop("date")
    where = f"{about.pop('cores')} cores, {about.pop('machine')} {cpu}".strip()
    for more in content.get("versions", {}).values():
        about = {**more, **about}
    settings = {
        re.sub("_an?_", " per ", key).replace("_", " "): value
        for key, value in content["configuration"].items()
        if value
    }
    versions = ", ".join(f"{name} {value}" for name, value in about.items())
    chosen = ", ".join(f"{key} {value}" for key, value in settings.items())
    return f"Measured on {where}, {date}. {versions}. Settings: {chosen}.\n"


def headline(results):
    """One row per quantity: keras_lab, float32 and the other libraries."""
    heads = (
        *("", "keras_lab", "float32", "larq", "tfmot, 2 clusters"),
        "TFLite, ai-edge-quantizer",
    )
    methods = ("lab", "keras", "larq_weights", "clusters")
    steps, accuracy, files = (
        results.get(f"peers_{part}", {}).get("rows", [])
        for part in ("train_step", "accuracy", "files")
    )
    lines = []
    for xla, how in ((True, "with XLA"), (False, "without XLA")):
        key = {"network": "mlp", "jit_compile": xla}
        found = (find(steps, method=method, **key) for method in methods)
        texts = [
            cell(row, lambda r: f"{r['ratio']['median']:.2f}") for row in found
        ]
        title = f"training step, MNIST network, {how} (Keras float32 = 1)"
        lines.append([title, *texts, "–"])
    texts = [mean_error(accuracy, method) for method in (*methods, "int8")]
    texts[-1] += " (int8)"
    lines.append(["test error, MNIST network, 512 units, 10 epochs", *texts])
    for format, quantity, value, show in (
        ("packed", "file size", lambda r: r["file_bytes"], megabytes),
        (
            *("fast", "inference"),
            lambda r: 1000 * statistics.median(r["seconds"]["1"]),
            lambda milliseconds: f"{milliseconds:.2f} ms",
        ),
    ):
        columns = (
            *([format], ["tflite_float32"], ["compute_engine"]),
            ["clusters", "clusters_int8"],
            ["tflite_float16", "tflite_int8", "int4", "int2"],
        )
        for network, title in NETWORKS.items():
            line = [f"{quantity}, {title} (ours: `{format}`)"]
            for formats in columns:
                line.append(best(files, network, formats, value, show))
            lines.append(line)
    return table(heads, lines)


def best(rows, network, formats, value, show):
    """The smallest value of some formats, with the format if it is a choice."""
    found = [find(rows, network=network, format=f) for f in formats]
    made = [row for row in found if row and "cannot" not in row]
    if not made:
        return cell(found[0], str)
    row = min(made, key=value)
    name = re.sub("tflite_|clusters_", "", row["format"])
    name = f" ({name.replace('clusters', 'float32')})" if found[1:] else ""
    return show(value(row)) + name


# The tables by name, each with the part that it is made of.
BLOCKS = {
    "peers_train_step": ("peers_train_step", peers_train_step),
    "peers_accuracy": ("peers_accuracy", peers_accuracy),
    **{
        f"peers_files_{n}": ("peers_files", lambda c, n=n: peers_files(c, n))
        for n in NETWORKS
    },
    "growth": ("growth", growth),
    "train_step": ("train_step", train_step),
    "recurrent_step": ("recurrent_step", recurrent_step),
    "recurrent_parts": ("recurrent_step", recurrent_parts),
    "inference": ("inference", inference),
    "monitor": ("monitor", monitor),
}
BLOCKS |= {
    f"{p}_machine": (p, machine) for p in {p for p, _ in BLOCKS.values()}
}


def load(folder: Path) -> dict:
    """Returns the contents of the JSON files of a folder, by part.

    Raises:
        ResultError: If one is damaged.
    """
    parts = {part for part, _ in BLOCKS.values()}
    paths = {part: Path(folder) / f"{part}.json" for part in parts}
    found = {part: path for part, path in paths.items() if path.exists()}
    return {part: harness.read_result(path) for part, path in found.items()}


def insert(text: str, results: dict) -> str:
    """Returns a document with the tables between its markers made again."""

    def block(found):
        name = found[1]
        if name == "headline":
            return MARKERS.format(name, headline(results))
        if name not in BLOCKS:
            raise harness.ResultError(f"There is no table {name!r}.")
        part, made = BLOCKS[name]
        text = made(results[part]) if part in results else "Not run.\n"
        return MARKERS.format(name, text)

    return re.sub(MARKERS.format(r"(\w+)", ".*?"), block, text, flags=re.S)


def write(folder: Path) -> list[Path]:
    """Writes the tables of a folder of results, and returns the files.

    A folder without a page gets one with the tables alone. The published
    results are also in other documents.
    """
    results, page = load(folder), folder / "README.md"
    if not page.exists():
        blocks = [MARKERS.format(name, "") for name in ["headline", *BLOCKS]]
        harness.write_text(page, "\n\n".join(["# Benchmarks", *blocks]) + "\n")
    documents = [page]
    if folder == harness.RESULTS:
        documents += [p for glob in DOCUMENTS for p in sorted(ROOT.glob(glob))]
    written = []
    for path in documents:
        text = path.read_text()
        if "<!-- benchmarks: " in text:
            harness.write_text(path, insert(text, results))
            written.append(path)
    if "growth" in results:
        written.append(folder / "growth.png")
        draw_growth(results["growth"]["rows"], written[-1])
    return written


def draw_growth(rows, path):
    """Draws time and memory against the number of weights."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = {"keras": "#777777", "lab": "#c0392b", "export": "#2471a3"}
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, label, value in (
        (axes[0], "seconds", lambda row: statistics.median(row["seconds"])),
        (axes[1], "peak memory, GB", lambda row: row["peak_bytes"] / 1e9),
    ):
        for task, title in TASKS.items():
            made = [r for r in rows if r["task"] == task and "cannot" not in r]
            points = sorted((row["weights"], value(row)) for row in made)
            style = {"color": colours[task], "label": title}
            axis.loglog(*zip(*points), "o-", **style)
        axis.set_xlabel("weights")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    # Less than a factor of ten: numbers, not powers.
    axes[1].yaxis.set_major_formatter("{x:g}")
    axes[1].yaxis.set_minor_formatter("{x:g}")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)
