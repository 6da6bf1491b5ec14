"""Kernels that are split between two devices, on JAX with `ModelParallel`.

    python examples/distributed/jax_model_parallel.py

The kernels are split by rows, then by columns. α is a sum over the rows, and
over the columns too if there is one α per tensor. JAX adds up the parts of the
two devices.
"""

import os
import sys
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"
# Two devices on one CPU. Leave this line out if you have two others.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import keras
import numpy as np

import keras_lab
from examples.distributed import common


def train(scale):
    """Returns each α after a training, and the parts of a kernel."""
    model = common.make_model(kernel_quantizer=keras_lab.LAB(scale))
    model.compile(common.make_optimizer(), common.make_loss())
    x, y = common.make_data()
    model.fit(x, y, common.BATCH, common.EPOCHS, shuffle=False, verbose=0)
    weights = keras_lab.binary_weights(model).values()
    kernel = model.layers[1].kernel.value
    shards = [shard.data.shape for shard in kernel.addressable_shards]
    return [weight.alpha.numpy() for weight in weights], shards


def split(*axes):
    """From now on, a kernel is split along the axis "model" of the devices."""
    mesh = keras.distribution.DeviceMesh(
        (1, 2), ["batch", "model"], keras.distribution.list_devices()
    )
    layout = keras.distribution.LayoutMap(mesh)
    layout[".*kernel"] = axes
    keras.distribution.set_distribution(
        keras.distribution.ModelParallel(
            layout_map=layout, batch_dim_name="batch"
        )
    )


def main():
    scales = ("tensor", "channel")
    alone = {scale: train(scale)[0] for scale in scales}
    holds = True
    for axes in (("model", None), (None, "model")):
        split(*axes)
        for scale in scales:
            alphas, shards = train(scale)
            error = max(
                np.max(np.abs(alpha / expected - 1))
                for alpha, expected in zip(alphas, alone[scale])
            )
            print(f"one α per {scale}, parts {shards}: error {error:.1e}")
            holds = holds and error <= 1e-5
    print("α is", "right" if holds else "WRONG")
    raise SystemExit(0 if holds else 1)


if __name__ == "__main__":
    main()
