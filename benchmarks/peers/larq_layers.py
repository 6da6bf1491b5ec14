"""larq's layers in the style of BinaryNet.

`larq_weights` binarizes weights only. `larq` also binarizes the inputs of all
layers but the first, as larq's examples do.
"""

import larq
import tf_keras

from benchmarks import networks
from benchmarks.peers import shared

PACKAGES = ("larq", "tensorflow", "tf_keras", "numpy")
LAYERS = {"Dense": larq.layers.QuantDense, "Conv2D": larq.layers.QuantConv2D}
WEIGHTS = {"kernel_quantizer": "ste_sign", "kernel_constraint": "weight_clip"}
INPUTS = {"input_quantizer": "ste_sign"}
KITS = {
    "tf_keras": networks.Kit(tf_keras),
    "larq_weights": networks.Kit(tf_keras, LAYERS, WEIGHTS),
    "larq": networks.Kit(tf_keras, LAYERS, WEIGHTS, INPUTS),
}
# From larq's MNIST tutorial.
RECIPE = {"learning_rate": 0.001, "batch": 64, "norm": {"scale": False}}


def make(network, method):
    """Returns a model and an optimizer, not compiled."""
    tf_keras.utils.set_random_seed(networks.SEED)
    model = networks.build(network, KITS[method])
    return model, tf_keras.optimizers.Adam(0.001)


prepare, step, forget = shared.steps(make)


def train(method, network, data, seed, rates, batch):
    """Returns the epochs of a method, as a list by the name of the method.

    `larq` is trained as in its tutorial, with cross-entropy and Adam at its
    default rate. `larq_weights` has our loss and our rates.
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
