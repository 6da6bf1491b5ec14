"""larq-compute-engine: binary convolutions for its own runtime."""

from pathlib import Path

import larq_compute_engine

from benchmarks import networks
from benchmarks.peers import shared
from benchmarks.peers.larq import KITS
from benchmarks.worker import Cannot


def export(format, path, network, width):
    """Writes the file of a network with binary weights and inputs.

    Its convolution kernels are bits. Dense kernels are float32, because the
    runtime has no binary dense layer.
    """
    if network == "lstm":
        raise Cannot("no recurrent layer")
    layers = networks.describe(network, width)
    model = shared.as_if_trained(networks.build(layers, **KITS["larq"]))
    content = larq_compute_engine.convert_keras_model(model)
    Path(path).write_bytes(content)
    return {}
