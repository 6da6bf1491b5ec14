"""One change of the graph per module, each with `can_apply` and `apply`.

`registry.py` lists them in the order in which they run.
"""
