"""tensorflow-model-optimization: quantization-aware training, clustering.

`qat` trains for int8 weights and activations, `clusters` for kernels with two
different values each.
"""

import gzip
from pathlib import Path

import tensorflow_model_optimization as tfmot
import tf_keras

from benchmarks import networks
from benchmarks.peers import shared
from benchmarks.worker import Cannot

clustering = tfmot.clustering.keras
quantization = tfmot.quantization.keras
KMEANS = clustering.CentroidInitialization.KMEANS_PLUS_PLUS


def layers_of(model, kind):
    return [layer for layer in model.layers if isinstance(layer, kind)]


def quantize(model):
    """Prepares a model for quantization-aware training.

    tfmot refuses a batch norm that does not directly follow a kernel, for
    example after a max-pooling. That one stays in float.
    """
    previous = {
        after.name: before
        for before, after in zip(model.layers, model.layers[1:])
    }

    def annotate(layer):
        before = previous.get(layer.name)
        pooled = isinstance(before, tf_keras.layers.MaxPooling2D)
        if pooled and isinstance(layer, tf_keras.layers.BatchNormalization):
            return layer
        return quantization.quantize_annotate_layer(layer)

    if layers_of(model, tf_keras.layers.LSTM):
        raise Cannot("refuses recurrent layers")
    annotated = tf_keras.models.clone_model(model, clone_function=annotate)
    return quantization.quantize_apply(annotated)


def cluster(model, layers=None, values=2):
    """Prepares a model for a few values per kernel in some layers.

    These are all layers with kernels, but with an LSTM the softmax layer stays
    in float, as in the paper.
    """
    if layers is None:
        layers = layers_of(model, tf_keras.layers.LSTM) or [
            layer for layer in model.layers if hasattr(layer, "kernel")
        ]

    def change(layer):
        if layer not in layers:
            return layer
        return clustering.cluster_weights(
            layer, number_of_clusters=values, cluster_centroids_init=KMEANS
        )

    return tf_keras.models.clone_model(model, clone_function=change)


METHODS = {"tf_keras": lambda m: m, "qat": quantize, "clusters": cluster}


def build(network, seed=networks.SEED):
    tf_keras.utils.set_random_seed(seed)
    return networks.build(network, tf_keras)


def make(network, method):
    """Returns a model and an optimizer, not compiled."""
    model = METHODS[method](build(network))
    return model, tf_keras.optimizers.Adam(0.001)


prepare, step = shared.steps(make)


def train(method, network, data, seed, rates, batch):
    """Returns the epochs of a method: the second half is fine-tuning."""
    data, model = shared.load(data), build(network, seed)
    split = len(rates) // 2
    history = []
    for part, change, first in (
        (rates[:split], METHODS["tf_keras"], 1),
        (rates[split:], METHODS[method], split + 1),
    ):
        if not part:
            continue
        model = change(model)
        adam = tf_keras.optimizers.Adam(part[0])
        model.compile(adam, "squared_hinge")
        history += shared.train(model, data, part, seed, batch, first)
    history[-1].update(shared.errors(clustering.strip_clustering(model), data))
    return {method: history}


def export(format, path, network, width):
    """Writes clustered weights as float32 or int8, compressed with gzip."""
    model = cluster(
        shared.as_if_trained(build(networks.describe(network, width)))
    )
    weights = "int8" if format == "clusters_int8" else "float32"
    write_compressed(model, weights, path)
    return {}


def export_resnet8(source, values, weights, path):
    """Clusters all convolutions but the first; returns the file's bytes."""
    model = tf_keras.models.load_model(source, compile=False)
    layers = layers_of(model, tf_keras.layers.Conv2D)[1:]
    return write_compressed(cluster(model, layers, values), weights, path)


def write_compressed(model, weights, path):
    content = shared.to_tflite(clustering.strip_clustering(model), weights)
    return Path(path).write_bytes(gzip.compress(content, compresslevel=9))
