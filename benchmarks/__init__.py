"""Measures keras_lab, by itself and against other libraries.

`python -m benchmarks` runs every part that has not run and writes the tables of
`results/benchmarks/README.md`. `harness.py` times and keeps results, one module
per part measures, `peers/` has one worker per library, and `report.py` turns
the JSON files into tables.
"""

import os

# TensorFlow reads it when it is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
