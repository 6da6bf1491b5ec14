"""A kernel that is split between two devices, on JAX with `ModelParallel`.

    python examples/distributed/jax_model_parallel.py

α is a sum over all of a kernel. JAX adds up the parts of the two devices.
"""

import os
import sys
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"
# Two devices on one CPU. Leave this line out if you have two others.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import keras

import keras_lab
from examples.distributed import common


def train():
    model = common.make_model()
    model.compile(common.make_optimizer(), common.make_loss())
    x, y = common.make_data()
    model.fit(x, y, common.BATCH, common.EPOCHS, shuffle=False, verbose=0)
    weights = keras_lab.binary_weights(model).values()
    kernel = model.layers[1].kernel.value
    shards = [shard.data.shape for shard in kernel.addressable_shards]
    return [float(weight.alpha.value) for weight in weights], shards


def main():
    alone, _ = train()
    mesh = keras.distribution.DeviceMesh(
        (1, 2), ["batch", "model"], keras.distribution.list_devices()
    )
    layout = keras.distribution.LayoutMap(mesh)
    layout[".*kernel"] = (None, "model")
    keras.distribution.set_distribution(
        keras.distribution.ModelParallel(
            layout_map=layout, batch_dim_name="batch"
        )
    )
    split, shards = train()
    print("parts of the second kernel:", *shards)
    common.compare(alone, [[alpha] for alpha in split])


if __name__ == "__main__":
    main()
