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

OPTIONS = {
    "networks": list(networks.NETWORKS),
    "formats": list(networks.FORMATS),
}
QUICK = {}


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
