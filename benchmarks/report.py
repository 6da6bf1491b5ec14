"""Builds the page of results, and tables elsewhere, from the JSON files.

    python -m benchmarks --report

`results/benchmarks/README.md` has every part, "not run" where nothing ran.
Other documents have some of its tables, each between two markers.
"""

import re
from pathlib import Path

from benchmarks import claims, figures, harness, headline, peer_tables, tables
from benchmarks.parts import PARTS, load

__all__ = ["DOCUMENTS", "build_page", "insert_blocks", "load_all", "write"]

ROOT = harness.RESULTS.parents[1]
DOCUMENTS = (ROOT / "README.md", ROOT / "tflite_export" / "README.md")
# What stands between two markers that name it.
BLOCK = "<!-- benchmarks: {} -->\n{}<!-- benchmarks: end -->"
FIGURE = "growth.png"
INTRODUCTION = """\
# Benchmarks

Made by `python -m benchmarks` from the JSON files in this folder; not by hand.
A part that is there is not measured again unless asked for; the command beside
each part asks for it.

```
pip install -e ".[demo,datasets]"
python -m benchmarks             # all parts that have not run
python -m benchmarks --report    # this page
```

A ratio or a time is a median, with the quartiles in brackets; of a file's
latency, that of several processes, of each its best turn. What is compared
takes turns, round by round: on a machine whose speed drifts, only times of the
same round are comparable. Where a library cannot do a thing, its cell says why.
"""
NOTES = {
    "peers_train_step": """\
Each library in an environment and a process of its own; all processes have
TensorFlow keep its memory, as importing keras_lab does. *mlp* is the MNIST
network at batch 100, *conv* the SVHN network with K=32 at batch 50. tfmot's
quantization-aware training refuses a batch norm after a max-pooling, which is
left in float for it. What takes over 20 times as long is not measured closer.
larq has no recurrent layer; the LSTM is below.""",
    "peers_accuracy": """\
The MNIST network with 512 units a layer, the same epochs, examples and order
for all; the test error after the last epoch, mean ± standard deviation over the
seeds. Ours, float, `larq, ste_sign weights` and tfmot have the squared hinge
loss and the paper's rate (0.01; 0.005 where inputs are binary), ten times
smaller after epochs 5 and 8. `larq, ste_sign weights and inputs` is trained as
in larq's MNIST tutorial: cross-entropy, Adam at 0.001, batch 64, batch norm
without scale. tfmot trains in float for half of the epochs and fine-tunes
clustered weights for the other half, from k-means++. That was the best by
validation error, at another seed, of five settings (other shares of the epochs,
linear and density-based centroids); those runs are not in the file.""",
    "peers_files": """\
Batch size 1. Kernels are fresh, biases and batch norms random numbers. *Of the
limit* is the file over one bit a binary weight and four bytes a float parameter
(a batch norm has two a channel). What `packed` has on top: 15 signs take 16
bits, which is 6.7%, and there are the operators that unpack them. *Memory* is
what the process holds that is not pages of the file, *peak* the most that was
ever in memory, pages of the file included, both beyond what the empty runtime
takes. All run in the stock runtime (ai-edge-litert, XNNPACK), but for
larq-compute-engine, which has its own and is made for ARM: on other machines it
runs its reference kernels. It does not take turns with the others, and its time
includes copies of input and output. The LSTM takes one-hot vectors, ours
indices; it is converted to a loop. Its softmax layer is float, as in the paper,
but for the formats in int8, int4 and int2 of others, which quantize it: most of
what `packed` has more than tfmot's int8 file there. Of
TFLite's and ai-edge-quantizer's files those are refused whose outputs are NaN,
or have nothing to do with float32's; how far the others are from float32 is in
the JSON file (`cosine_with_float32`).""",
    "recurrent_step": """\
The second table is made of differences of medians: on a machine as noisy as
this one, a short part may come out negative.""",
    "inference": """\
*1 thread* and *2 threads* are ratios to `float`, *limit* the ratio that was
aimed at. What is above it is explained in `tflite_export/README.md`.""",
    "growth": """\
Three square dense layers with batch norm, batch 100, with XLA; each size in a
process of its own.""",
}


def load_all(folder: Path) -> dict:
    """The content of each part's file by its name, of those that ran."""
    found = {name: load(part, folder) for name, part in PARTS.items()}
    return {name: content for name, content in found.items() if content}


def build_page(results: dict) -> str:
    """The page, given the contents of the files."""
    lines = [INTRODUCTION, "## What must hold", "", claims.table(results), ""]
    for name, part in PARTS.items():
        lines += [f"## {part.title}", "", "```", part.command, "```", ""]
        content = results.get(name)
        if content is None:
            lines += ["Not run.", ""]
            continue
        if not content.get("finished", True):
            lines += ["Not finished: what is missing says so.", ""]
        lines += [NOTES[name], ""] if name in NOTES else []
        lines += [*BODIES[name](content), "", describe_machine(content), ""]
    return "\n".join(lines).rstrip() + "\n"


def describe_machine(content: dict) -> str:
    """Machine, versions and dates of a part, and how it was set."""
    machine = content["environment"]
    dates = [row["date"] for row in content.get("rows", []) if "date" in row]
    dates = sorted({*dates} or {machine["date"]})
    shown = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    own = {"date", "machine", "cores", "cpu_features"}
    versions = {k: v for k, v in machine.items() if k not in own}
    for more in content.get("versions", {}).values():
        versions |= {k: v for k, v in more.items() if k not in versions}
    settings = ", ".join(
        f"{key.replace('_', ' ')} {_setting(value)}"
        for key, value in content["configuration"].items()
        if value
    )
    features = " ".join(machine.get("cpu_features", []))
    kind = machine["machine"] + (f" with {features}" if features else "")
    return (
        f"({machine['cores']} cores, {kind}, {shown}; "
        + ", ".join(f"{name} {value}" for name, value in versions.items())
        + f"; {settings}.)"
    )


def _setting(value):
    if isinstance(value, dict):
        return " ".join(f"{k}={v}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def _growth(content):
    text = "Seconds and peak memory against the number of weights"
    return [peer_tables.growth(content["rows"]), "", f"![{text}]({FIGURE})"]


def _files(content):
    lines = []
    for network, title in peer_tables.NETWORKS.items():
        table = peer_tables.files(content["rows"], network)
        lines += [f"### {title}", "", table, ""]
    return lines[:-1]


def _recurrent(content):
    parts = tables.recurrent_parts(content["parts"])
    return [tables.recurrent_step(content["rows"]), "", parts]


BODIES = {
    "peers_train_step": lambda c: [peer_tables.train_step(c["rows"])],
    "peers_accuracy": lambda c: [peer_tables.accuracy(c["rows"])],
    "peers_files": _files,
    "growth": _growth,
    "train_step": lambda c: [tables.train_step(c["rows"])],
    "recurrent_step": _recurrent,
    "inference": lambda c: [tables.inference(c["rows"])],
    "monitor": lambda c: [tables.monitor(c)],
}


def insert_blocks(text: str, results: dict) -> str:
    """A document with what stands between markers made anew."""
    pattern = BLOCK.format(r"(\w+)", "(.*?)")
    return re.sub(
        pattern,
        lambda found: BLOCK.format(found[1], _block(found[1], results)),
        text,
        flags=re.DOTALL,
    )


def _block(name, results):
    """The headline, or the first table of a part with the machine."""
    if name == "headline":
        lines = [headline.table(results)]
        if missed := claims.not_held(results):
            lines += ["", "Of what must hold, this does not:", "", missed]
    elif name in results:
        table, *_ = BODIES[name](results[name])
        lines = [table, "", describe_machine(results[name])]
    else:
        lines = ["Not run."]
    return "\n".join(lines) + "\n"


def write(folder: Path) -> list[Path]:
    """Writes the page, the figure and, of the published numbers, the tables."""
    results = load_all(folder)
    written = [folder / "README.md"]
    harness.write_text(written[0], build_page(results))
    if "growth" in results:
        figures.draw_growth(results["growth"]["rows"], folder / FIGURE)
        written.append(folder / FIGURE)
    if folder == harness.RESULTS:
        for path in DOCUMENTS:
            harness.write_text(path, insert_blocks(path.read_text(), results))
            written.append(path)
    return written
