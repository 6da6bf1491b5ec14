"""`python -m benchmarks.runtimes` is `python -m benchmarks runtime_support`."""

import sys

from benchmarks.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["runtime_support", *sys.argv[1:]]))
