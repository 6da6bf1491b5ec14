"""The tables of our own benchmarks, as Markdown, from their JSON rows alone.

`report.py` and the benchmarks themselves print them. No Keras is needed.
"""

__all__ = [
    "PARTS",
    "THREADS",
    "inference",
    "markdown",
    "monitor",
    "recurrent_parts",
    "recurrent_step",
    "train_step",
]

THREADS = (1, 2)
PARTS = {
    "form ŵ": "both kernels, once",
    "project": "the inputs of all steps",
    "loop": "recurrent product and gates; with Keras all of the forward pass",
    "backward": "gradients",
    "update": "Adam; and α",
}


def markdown(heads, rows) -> str:
    """A table of texts."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def quartiles(values) -> str:
    """The two quartiles of a `harness.spread`."""
    low, high = values["quartiles"]
    return f"{low:.2f}–{high:.2f}"


def train_step(rows) -> str:
    """A training step of ours, with each allocator."""
    heads = (
        *("network", "jit_compile", "allocator", "scheme"),
        *("step / Keras float", "quartiles", "optimizer memory / Adam"),
    )
    lines = [
        (
            row["network"],
            str(row["jit_compile"]),
            row["allocator"],
            row["scheme"],
            f"{row['ratio']['median']:.2f}",
            quartiles(row["ratio"]),
            f"{row['optimizer_memory_ratio']:.3f}",
        )
        for row in rows
    ]
    return markdown(heads, lines)


def recurrent_step(rows) -> str:
    """A step of the LSTM, in training and inference."""
    heads = ("", "layer", "jit_compile", "time / keras.layers.LSTM")
    lines = [
        (
            row["what"],
            row["layer"],
            str(row["jit_compile"]),
            f"{row['ratio']['median']:.2f}",
            quartiles(row["ratio"]),
        )
        for row in rows
    ]
    return markdown((*heads, "quartiles"), lines)


def recurrent_parts(parts) -> str:
    """Where the time of a training step of the LSTM goes."""
    lines = []
    for row in parts:
        times = row["milliseconds"]
        cells = [f"{times[p]:.0f}" if p in times else "–" for p in PARTS]
        jit = ", jit_compile" if row["jit_compile"] else ""
        total = f"{sum(times.values()):.0f}"
        lines.append((row["layer"] + jit, *cells, total))
    return markdown(("milliseconds", *PARTS, "sum"), lines)


def inference(rows) -> str:
    """The four formats against the float one."""
    heads = (
        *("network", "format", "file", "load", "memory"),
        *("1 thread", "2 threads", "limit", "export"),
    )
    by_threads = [[r for r in rows if r["threads"] == n] for n in THREADS]
    lines = [
        (
            one["network"],
            one["format"],
            f"{one['file_bytes'] / 1e6:.2f} MB",
            f"{one['load_milliseconds']:.0f} ms",
            f"{one['memory_bytes'] / 1e6:.0f} MB",
            f"{one['ratio']:.2f}",
            f"{two['ratio']:.2f}",
            "" if one["limit"] is None else f"{one['limit']:.2f}",
            _export_cost(one),
        )
        for one, two in zip(*by_threads)
    ]
    return markdown(heads, lines)


def _export_cost(row):
    cost = f"{row['export_seconds']:.1f} s"
    if "export_memory_bytes" in row:
        cost += f", {row['export_memory_bytes'] / 1e6:.0f} MB"
    return cost


def monitor(content) -> str:
    """What `BinaryMonitor` costs, in a sentence."""
    share = content["share_of_an_epoch"]
    low, high = share["quartiles"]
    return (
        f"A measurement takes {share['median']:.2%} of an epoch (quartiles "
        f"{low:.2%} to {high:.2%})."
    )
