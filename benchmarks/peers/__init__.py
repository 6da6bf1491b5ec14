"""Measured against what users would pick instead.

`environments.py` gives each peer a Python environment of its own. The module of
a peer's name is a worker that runs in it, and knows that peer's interface; it
is called by the three programs `train_step.py`, `accuracy.py` and `files.py`,
which never import a peer.
"""
