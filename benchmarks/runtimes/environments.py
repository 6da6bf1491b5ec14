"""The runtimes, and an environment for each, made once and kept.

The environments are in the folder `KERAS_LAB_RUNTIMES`, by default
`~/.cache/keras_lab/runtimes`. One with TensorFlow takes more than a gigabyte.
"""

import dataclasses
import os
from pathlib import Path

from benchmarks.peers.environments import create, execute
from benchmarks.runtimes import arm
from benchmarks.runtimes.networks import FIXED, FORMATS, NETWORKS
from benchmarks.worker import Worker

FOLDER = "~/.cache/keras_lab/runtimes"
BROWSER = "@litertjs/core"
# The last release of each minor version.
LITERT = "2.3.0 2.2.0 2.1.6 2.0.3 1.4.0 1.3.0 1.2.0 1.1.2"
TENSORFLOW = "2.21.0 2.20.0 2.19.1 2.18.1 2.17.1 2.16.2 2.15.1 2.13.1 2.12.1"


@dataclasses.dataclass(frozen=True)
class Runtime:
    """A release of a runtime, and where it runs."""

    package: str  # Its name on PyPI or npm.
    version: str
    cpu: str | None = None  # A CPU that is emulated.
    batch: str = "open"  # Or "1": the batch size of the files that it gets.
    more: tuple[str, ...] = ()  # Requirements that the package does not name.
    note: str = ""  # The end of its name.

    @property
    def name(self) -> str:
        parts = f"{self.package} {self.version}", self.cpu, self.note
        return ", ".join(filter(None, parts))

    def cases(self) -> list[dict]:
        """Returns each file that it gets, with XNNPACK and without.

        In the browser XNNPACK cannot be turned off. There a file with a fixed
        batch size says nothing about open ones.
        """
        browser = self.package == BROWSER
        left_out = FIXED if browser and self.batch == "open" else ()
        return [
            {"network": network, "format": format, "xnnpack": xnnpack}
            for format in FORMATS
            for network in NETWORKS
            for xnnpack in ((True,) if browser else (True, False))
            if network not in left_out
        ]

    @property
    def requirements(self) -> tuple[str, ...]:
        return (f"{self.package}=={self.version}", *self.more)


OLD_NUMPY = ("numpy<2",)
RUNTIMES = (
    *(Runtime("ai-edge-litert", version) for version in LITERT.split()),
    Runtime("ai-edge-litert", "1.0.1", more=OLD_NUMPY),
    *(Runtime("tensorflow-cpu", version) for version in TENSORFLOW.split()),
    Runtime("tflite-runtime", "2.14.0", more=OLD_NUMPY),
    *(
        Runtime("ai-edge-litert", "2.3.0", cpu, more=("numpy<2.3",))
        for cpu in arm.CPUS
    ),
    Runtime("tflite-runtime", "2.14.0", "cortex-a53", more=OLD_NUMPY),
    Runtime(BROWSER, "2.5.3", batch="1", note="batch_size=1"),
    Runtime(BROWSER, "2.5.3", note="open batch"),
)


def folder() -> Path:
    """Returns the folder of all environments."""
    path = os.environ.get("KERAS_LAB_RUNTIMES", FOLDER)
    return Path(path).expanduser().resolve()


def start(runtime: Runtime, versions: dict) -> Worker:
    """Returns a worker with a runtime. Adds what is installed to `versions`."""
    place = folder() / runtime.requirements[0].replace("/", "_")
    module, variables = "interpreter", {}
    if runtime.package == BROWSER:
        python = create(place, ("playwright", "numpy"))
        variables["LITERT_JS"] = str(_install_npm(place, runtime))
        module = "browser"
    elif runtime.cpu:
        place = place.with_name(f"{place.name}-aarch64")
        python = arm.install(place, runtime.requirements, runtime.cpu)
    else:
        python = create(place, runtime.requirements)
    worker = Worker(f"benchmarks.runtimes.{module}", python, variables)
    versions[runtime.name] = worker.call("versions", package=runtime.package)
    return worker


def _install_npm(place, runtime):
    packages = place / "node_modules" / "@litertjs"
    if not packages.is_dir():
        wanted = f"{runtime.package}@{runtime.version}"
        print(f"installing {wanted}", flush=True)
        options = ["--no-audit", "--no-fund", "--prefix", place]
        execute("npm install fails", ["npm", "install", *options, wanted])
    return packages
