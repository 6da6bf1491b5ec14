"""Which runtime runs which format: small networks, in each release.

Each runtime is installed in an environment of its own. `runtimes/networks.py`
exports the networks with the outputs of Keras beside the files, and
`runtimes/interpreter.py` or `runtimes/browser.py` runs and compares them.
"""

import re
from pathlib import Path

from benchmarks import harness
from benchmarks.runtimes import environments, networks
from benchmarks.worker import Cannot, Worker

OPTIONS = {
    "networks": list(networks.NETWORKS),
    "formats": list(networks.FORMATS),
}
QUICK = {}


def cells(_):
    return [{"runtime": runtime.name} for runtime in environments.RUNTIMES]


def measure(cell, _, content):
    """Returns a row for each file in a runtime."""
    folder = write_files()
    digest = networks.digest(folder.glob("*.tflite"))
    if content.setdefault("files", digest) != digest:
        raise harness.ResultError(
            "The results are of files that are exported differently "
            "now. Run it with --again."
        )
    (runtime,) = (r for r in environments.RUNTIMES if r.name == cell["runtime"])
    try:
        return run_files(runtime, folder, content["versions"])
    except Cannot as error:
        raise Cannot(error.words, without_folders(error.detail)) from error


def write_files() -> Path:
    """Returns the folder of the exported files, which is made if needed."""
    folder = environments.folder() / f"files-{networks.sources()}"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with Worker("benchmarks.runtimes.networks") as worker:
            for name in networks.NETWORKS:
                print(f"exporting {name}", flush=True)
                worker.call("write", folder=str(folder), name=name)
        (folder / "complete").touch()
    return folder


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
