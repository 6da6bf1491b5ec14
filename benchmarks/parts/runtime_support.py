"""Which runtime runs which format: small networks, in each release.

Each runtime is installed in an environment of its own. `runtimes/networks.py`
exports the networks with the outputs of Keras beside the files, and
`runtimes/interpreter.py` or `runtimes/browser.py` runs and compares them.
"""

import functools
import hashlib
import re

from benchmarks import harness
from benchmarks.runtimes import environments, networks
from benchmarks.worker import Cannot, Worker
from examples.pages import markdown_table

OPTIONS = {
    "networks": list(networks.NETWORKS),
    "formats": list(networks.FORMATS),
}
QUICK = {}
RESULT = "runtimes"
ON_REQUEST = True
# The largest ‖y' − y‖ / ‖y‖ that counts as right, as in `export_tflite`.
TOLERANCES = {"float": 1e-3, "packed_float": 1e-3, "packed": 0.1, "fast": 0.1}
# The messages of runtimes, in three words.
REASONS = (
    (r"builtin opcode '(\w+)' version '(\d+)'", "no {} {}"),
    (r"tensor type \w+\[-1,", "open batch refused"),
    (r"signal (\w+)", "ends by {}"),
    (r"\((\w+)\) failed to (prepare|invoke)", "{} cannot {}"),
)
WORKS, WRONG = "works", "wrong"


def cells(_):
    return [{"runtime": runtime.name} for runtime in environments.RUNTIMES]


def measure(cell, _, content):
    """Returns a row for each file in a runtime."""
    folder, digest = write_files()
    if content.setdefault("files", digest) != digest:
        raise harness.ResultError(
            "The results are of files that are exported differently now. Run "
            "it with --again."
        )
    (runtime,) = (r for r in environments.RUNTIMES if r.name == cell["runtime"])
    try:
        return run_files(runtime, folder, content["versions"])
    except Cannot as error:
        raise Cannot(error.words, without_folders(error.detail)) from error


@functools.cache
def write_files():
    """Returns the folder of the exported files and a digest of them."""
    folder, digest = environments.folder() / "files", hashlib.sha256()
    folder.mkdir(parents=True, exist_ok=True)
    with Worker("benchmarks.runtimes.networks") as worker:
        for name in networks.NETWORKS:
            print(f"exporting {name}", flush=True)
            worker.call("write", folder=str(folder), name=name)
    for path in sorted(folder.glob("*.tflite")):
        digest.update(path.read_bytes())
    return folder, digest.hexdigest()[:12]


def run_files(runtime, folder, versions):
    """Runs each file. A crash is a result: the next file has a new worker."""
    rows, worker = [], environments.start(runtime, versions)
    for row in runtime.cases():
        path = networks.model_path(
            folder, row["network"], row["format"], runtime.batch
        )
        try:
            found = worker.call(
                "run",
                package=runtime.package,
                path=str(path),
                data=str(folder / f"{row['network']}.npz"),
                xnnpack=row["xnnpack"],
            )
        except Cannot as error:
            detail = without_folders(error.detail)
            found = {"fails": error.words, "detail": detail}
            if worker.process.poll() is not None:
                worker.close()
                worker = environments.start(runtime, versions)
        rows.append(row | found)
    worker.close()
    return rows


def without_folders(text):
    """Returns the beginning of a message, without folders of this machine."""
    return re.sub(r"(?<![:/\w])(/[\w.+@=-]+)+/", "", text)[:400]


def outcome(row) -> str:
    """Returns `WORKS`, `WRONG`, or the error in three words."""
    if "error" in row:
        tolerance = TOLERANCES[row["format"].split(",")[0]]
        right = row["finite"] and row["error"] <= tolerance
        return WORKS if right else WRONG
    for pattern, words in REASONS:
        if found := re.search(pattern, row["detail"]):
            return words.format(*found.groups())
    return row["fails"]


def support(rows) -> str:
    """Returns what a table says about a format in a runtime."""
    if not rows:
        return "not run"
    text = _sentence([row for row in rows if row["xnnpack"]])
    without = _sentence([row for row in rows if not row["xnnpack"]])
    if without not in ("", text):
        text += f"; without XNNPACK {without}"
    return text


def _sentence(rows):
    found = {}
    for row in rows:
        found.setdefault(outcome(row), []).append(row["network"])
    right = found.pop(WORKS, [])
    if right and not found:
        return WORKS
    parts = [f"{len(right)} of {len(rows)}"] if right else []
    if wrong := found.pop(WRONG, None):
        parts.append(f"**{WRONG}**: {', '.join(wrong)}")
    return "; ".join([*parts, *found])


def table(content) -> str:
    """Returns the table as Markdown."""
    lines = []
    for name in (runtime.name for runtime in environments.RUNTIMES):
        rows = [row for row in content["rows"] if row["runtime"] == name]
        texts = [
            support([r for r in rows if r.get("format") == f])
            for f in networks.FORMATS
        ]
        if rows and "cannot" in rows[0]:
            texts = [f"not run: {rows[0]['cannot']}"]
            texts += ["–"] * (len(networks.FORMATS) - 1)
        lines.append([name, *texts])
    return markdown_table(
        ["runtime", *(f"`{f}`" for f in networks.FORMATS)], lines
    )
