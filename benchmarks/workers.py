"""Functions that run in another process, which may be another environment.

A worker reads calls from its standard input and writes results to its standard
output, a JSON object a line:

    {"call": "double", "arguments": {"x": 3}}    {"result": 6}
    {"call": "fly", "arguments": {}}             {"error": {"type": …, …}}

Whatever else the process prints goes to the standard error. It needs nothing
but the standard library, as each peer has an environment of its own.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["Cannot", "Worker", "serve"]

ROOT = Path(__file__).resolve().parent.parent


class Cannot(Exception):
    """Something a peer cannot do.

    Args:
        words: Why, in three words, for a table.
        detail: The whole story, for the JSON file.
    """

    def __init__(self, words, detail=""):
        if len(words.split()) != 3:
            raise ValueError(f"`words` must be three. Received: {words!r}")
        super().__init__(words)
        self.words, self.detail = words, detail

    def to_json(self):
        return {"cannot": self.words, "detail": self.detail}


class Worker:
    """A process that runs the functions of a module.

    Args:
        module: A module of this repository that calls `serve`.
        python: The interpreter to run it with. Defaults to this one.
        environment: Further environment variables.

    Example:

    >>> with Worker("benchmarks.interpreter") as worker:
    ...     worker.call("alone", path="digits.tflite", threads=1)
    """

    def __init__(self, module, python=sys.executable, environment=None):
        self.module = module
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(
            [str(python), "-m", module],
            cwd=ROOT,
            env=_environment(environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def call(self, function, **arguments):
        """The result of a function of the module.

        Raises:
            Cannot: If the function raises, or the process ends.
        """
        try:
            line = json.dumps({"call": function, "arguments": arguments})
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline()
        if not answer:
            raise Cannot("worker process ended", self._how_it_ended())
        answer = json.loads(answer)
        if "error" in answer:
            raise Cannot(**answer["error"])
        return answer["result"]

    def close(self):
        """Ends the process, whatever it is doing."""
        self.process.terminate()
        # Not `stdin.close()`: it would flush to a process that is gone.
        self.process.communicate()
        self.errors.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _how_it_ended(self):
        """The exit code or the signal, and the last lines of its errors."""
        code = self.process.wait()
        how = f"exit code {code}"
        if code < 0:
            how = f"signal {signal.Signals(-code).name}"
        self.errors.seek(0)
        return "\n".join([how, *self.errors.read().splitlines()[-20:]])


def _environment(more):
    """This process' variables without what belongs to its own Python."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return {"TF_CPP_MIN_LOG_LEVEL": "2", **kept, **more}


def serve(*functions):
    """Answers calls of these functions until the input ends."""
    known = {function.__name__: function for function in functions}
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            result = known[request["call"]](**request["arguments"])
            answer = {"result": result}
        except Cannot as error:
            answer = {"error": {"words": error.words, "detail": error.detail}}
        except Exception as error:  # the other side decides what it means
            words = f"raises {type(error).__name__} here"
            answer = {"error": {"words": words, "detail": str(error)}}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
