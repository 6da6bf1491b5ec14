"""Programs in a fresh interpreter, for what happens once per process."""

import os
import subprocess
import sys
import textwrap


def run(code, **environment):
    """Runs a program and returns the words that it prints."""
    inherited = {k: v for k, v in os.environ.items() if "BFC" not in k}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**inherited, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()
