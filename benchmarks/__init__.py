"""Measures keras_lab, by itself and against other libraries.

`python -m benchmarks` runs every default part that has not run and writes the
tables of `results/benchmarks/README.md`. The parts `backend_step` and
`runtime_support` run only if you name them. `harness.py` times and keeps
results, `parts/` has one module per measurement, `peers/` one worker per
library and `runtimes/` one per runtime, and `report.py` puts the tables into
the documents.
"""

import os

# TensorFlow reads it when it is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
