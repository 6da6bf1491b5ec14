"""The benchmarks: one module per measurement, which also makes its table.

A new module here is a new benchmark. `harness.py` says which names it has.
"""
