"""larq's layers in the style of BinaryNet.

`larq_weights` binarizes weights only. `larq` also binarizes the inputs of all
layers but the first, as larq's examples do.
"""

import larq
import tf_keras

from benchmarks import networks
from benchmarks.peers import shared

WEIGHTS = {
    "keras": tf_keras,
    "layers": {
        "Dense": larq.layers.QuantDense,
        "Conv2D": larq.layers.QuantConv2D,
    },
    "kernel": {
        "kernel_quantizer": "ste_sign",
        "kernel_constraint": "weight_clip",
    },
}
# The arguments of `networks.build`.
KITS = {
    "tf_keras": {"keras": tf_keras},
    "larq_weights": WEIGHTS,
    "larq": {**WEIGHTS, "inputs": {"input_quantizer": "ste_sign"}},
}


def make(network, method):
    """Returns a model and an optimizer, not compiled."""
    tf_keras.utils.set_random_seed(networks.SEED)
    model = networks.build(network, **KITS[method])
    return model, tf_keras.optimizers.Adam(0.001)


prepare, step = shared.steps(make)


def train(method, network, data, seed, rates, batch):
    """Returns the epochs of a method, as a list by the name of the method.

    `larq` is trained as in its tutorial, with cross-entropy and Adam at its
    default rate. `larq_weights` has our loss and our rates.
    """
    data = shared.load(data)
    tf_keras.utils.set_random_seed(seed)
    kit, loss = KITS[method], "squared_hinge"
    if method == "larq":
        kit = {**kit, "norm": {"scale": False}}
        loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        data["targets"] = data["train_y"]
        rates, batch = [0.001] * len(rates), 64
    model = networks.build(network, **kit)
    model.compile(tf_keras.optimizers.Adam(rates[0]), loss, jit_compile=True)
    return {method: shared.train(model, data, rates, seed, batch)}
