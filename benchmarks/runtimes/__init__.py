"""The runtimes of `runtime_support.py`: their environments and workers.

The workers run where only a runtime and NumPy are installed.
"""
