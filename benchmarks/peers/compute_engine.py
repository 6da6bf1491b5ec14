"""larq-compute-engine: binary convolutions for its own runtime: a worker."""

from pathlib import Path

import larq_compute_engine

from benchmarks import networks
from benchmarks.peers import shared
from benchmarks.peers.larq_layers import KITS
from benchmarks.workers import Cannot, serve


def export(network, folder):
    """The file of a network with binary weights and inputs.

    Its convolution kernels are bits. Dense kernels are float32: the runtime
    has no binary dense layer.
    """
    if any(name == "LSTM" for name, _ in network):
        raise Cannot("no recurrent layer")
    model = shared.as_if_trained(networks.build(network, KITS["larq"]))
    path = Path(folder) / "compute_engine.tflite"
    path.write_bytes(larq_compute_engine.convert_keras_model(model))
    return {"compute_engine": str(path)}


def main():
    versions = shared.versions_of(
        "larq-compute-engine", "larq", "tensorflow", "tf_keras", "numpy"
    )
    serve(versions, export)


if __name__ == "__main__":
    main()
