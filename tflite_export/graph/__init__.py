"""What the finder and the transformations know about a TFLite graph.

Questions about weights, convolutions, loops and signs, and the two tools that
write operators: `Replacement` and `Unpacker`.
"""
