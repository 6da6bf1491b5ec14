"""larq's BinaryNet-style layers: a worker.

`larq_weights` binarizes weights only; `larq` inputs as well, but for the first
layer's, as all of larq's examples do.
"""

import larq
import tf_keras

from benchmarks import networks
from benchmarks.peers import shared
from benchmarks.workers import serve

LAYERS = {"Dense": larq.layers.QuantDense, "Conv2D": larq.layers.QuantConv2D}
WEIGHTS = {"kernel_quantizer": "ste_sign", "kernel_constraint": "weight_clip"}
INPUTS = {"input_quantizer": "ste_sign"}
KITS = {
    "tf_keras": networks.Kit(tf_keras),
    "larq_weights": networks.Kit(tf_keras, LAYERS, WEIGHTS),
    "larq": networks.Kit(tf_keras, LAYERS, WEIGHTS, INPUTS),
}
# Of larq's MNIST tutorial.
RECIPE = {"learning_rate": 0.001, "batch": 64, "norm": {"scale": False}}


def make(network, method):
    """A model and an optimizer, not compiled."""
    tf_keras.utils.set_random_seed(1)
    model = networks.build(network, KITS[method])
    return model, tf_keras.optimizers.Adam(0.001)


def train(method, network, data, seed, rates, batch):
    """The epochs of a method, in a list by its name.

    `larq` is trained as in its tutorial: cross-entropy, and Adam at its default
    rate throughout. `larq_weights` has our loss and our rates.
    """
    data = shared.load(data)
    tf_keras.utils.set_random_seed(seed)
    if method == "larq":
        kit = networks.Kit(
            tf_keras, LAYERS, WEIGHTS, INPUTS, norm=RECIPE["norm"]
        )
        loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        data["targets"] = data["train_y"]
        rates = [RECIPE["learning_rate"]] * len(rates)
        batch = RECIPE["batch"]
    else:
        kit, loss = KITS[method], "squared_hinge"
    model = networks.build(network, kit)
    model.compile(tf_keras.optimizers.Adam(rates[0]), loss, jit_compile=True)
    return {method: shared.train(model, data, rates, seed, batch)}


def main():
    versions = shared.versions_of("larq", "tensorflow", "tf_keras", "numpy")
    serve(versions, train, *shared.Steps(make).functions)


if __name__ == "__main__":
    main()
