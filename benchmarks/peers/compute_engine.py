"""larq-compute-engine: binary convolutions for its own runtime."""

from pathlib import Path

import larq_compute_engine

from benchmarks import networks
from benchmarks.peers import shared
from benchmarks.peers.larq import KITS
from benchmarks.worker import Cannot

PACKAGES = ("larq-compute-engine", "larq", "tensorflow", "tf_keras", "numpy")


def export(network, folder):
    """Writes the file of a network with binary weights and inputs.

    Its convolution kernels are bits. Dense kernels are float32, because the
    runtime has no binary dense layer.
    """
    if any(name == "LSTM" for name, _ in network):
        raise Cannot("no recurrent layer")
    model = shared.as_if_trained(networks.build(network, **KITS["larq"]))
    path = Path(folder) / "compute_engine.tflite"
    path.write_bytes(larq_compute_engine.convert_keras_model(model))
    return {"compute_engine": {"path": str(path)}}
