"""Runs functions in another process, which may be another environment.

A worker reads calls of a module's functions from its standard input and writes
results to its standard output, one JSON object per line:

    {"call": "double", "arguments": {"x": 3}}    {"result": 6}
    {"call": "fly", "arguments": {}}             {"cannot": …, "detail": …}

Everything else that the process prints goes to the standard error. This file
needs only the standard library, because each peer has its own environment.
"""

import contextlib
import importlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Their versions are kept with the results.
PACKAGES = (
    "keras_lab",
    "keras",
    "tensorflow",
    "numpy",
    "ai-edge-litert",
    "ai-edge-quantizer",
    "larq",
    "larq-compute-engine",
    "tf_keras",
    "tensorflow-model-optimization",
    "jax",
    "torch",
)


class Cannot(Exception):
    """Something that a library cannot do, in three words and in detail."""

    def __init__(self, words, detail=""):
        super().__init__(words)
        self.words, self.detail = words, detail

    def to_json(self):
        return {"cannot": self.words, "detail": self.detail}


class Worker:
    """A process that runs the functions of a module of this repository.

    `python` is the interpreter to run it with, and `variables` are additional
    environment variables.
    """

    def __init__(self, module, python=sys.executable, variables=None):
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        # `PYTHONPATH` belongs to this Python, not to that of a peer.
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        self.process = subprocess.Popen(
            [str(python), "-m", "benchmarks.worker", module],
            cwd=ROOT,
            env={**kept, **(variables or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def call(self, function, **arguments):
        """Returns the result of a function of the module. Raises `Cannot`."""
        request = json.dumps({"call": function, "arguments": arguments})
        # If the process has ended, the answer is empty.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            code = self.process.wait()
            how = f"exit code {code}"
            if code < 0:
                how = f"signal {signal.Signals(-code).name}"
            self.errors.seek(0)
            detail = [how, *self.errors.read().splitlines()[-20:]]
            raise Cannot("worker process ended", "\n".join(detail))
        answer = json.loads(answer)
        if "cannot" in answer:
            raise Cannot(answer["cannot"], answer["detail"])
        return answer["result"]

    def close(self):
        self.process.terminate()
        # Not `stdin.close()`, which would flush to a process that has ended.
        self.process.communicate()
        self.errors.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def serve(name):
    """Answers calls of a module's functions until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    functions = {"versions": versions}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if name not in sys.modules:
                functions |= vars(importlib.import_module(name))
            result = functions[request["call"]](**request["arguments"])
            answer = {"result": result}
        except Cannot as error:
            answer = error.to_json()
        except Exception as error:  # The caller decides what it means.
            words = f"raises {type(error).__name__} here"
            answer = Cannot(words, str(error)).to_json()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def versions():
    """Returns the versions of those `PACKAGES` that are installed."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def memory():
    """Returns the memory of this process in bytes, on Linux.

    `private` are the pages that are not pages of a file, `resident` all pages,
    and `peak` is the largest `resident` so far. Not by psutil: it has no peak
    that can be reset.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    pairs = (line.split(":") for line in lines if line.endswith(" kB"))
    size = {name: 1024 * int(value.split()[0]) for name, value in pairs}
    return types.SimpleNamespace(
        private=size["RssAnon"], resident=size["VmRSS"], peak=size["VmHWM"]
    )


def forget_peak() -> None:
    """Makes the system count the peak from now on."""
    # If it is not allowed, the peak is an upper bound.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    # By its real name: `Cannot` must be the class that the module imports.
    from benchmarks import worker

    worker.serve(sys.argv[1])
