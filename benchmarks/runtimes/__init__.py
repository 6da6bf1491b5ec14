"""Which runtime runs which format: `python -m benchmarks.runtimes`.

`networks.py` exports small networks with the outputs of Keras beside the files.
`environments.py` installs a runtime in an environment of its own, where
`interpreter.py` or `browser.py` runs the files and compares. `report.py` makes
the table.
"""
