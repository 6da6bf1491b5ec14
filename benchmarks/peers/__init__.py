"""The libraries that keras_lab is compared with.

`environments.py` gives each of them a Python environment. The module of a
library's name is the worker that runs in it and the only place that knows its
API; the measurements never import a peer.
"""
