"""A worker: Keras' own `fit` on JAX, with `DataParallel`.

Start it with `python examples/distributed/run.py jax`.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras

from examples.distributed import common


def main(rank, workers, port, folder):
    if workers > 1:
        # Before anything else, because the devices depend on it.
        keras.distribution.initialize(f"127.0.0.1:{port}", workers, rank)
        # Each worker has its own part of the data already.
        distribution = keras.distribution.DataParallel(auto_shard_dataset=False)
        keras.distribution.set_distribution(distribution)
    x, y = common.make_data()
    x, y = (common.my_part(part, rank, workers) for part in (x, y))
    model = common.make_model()
    model.compile(common.make_optimizer(), common.make_loss())
    backup = keras.callbacks.BackupAndRestore(
        f"{folder}/backup-{rank}", double_checkpoint=True
    )
    model.fit(
        x,
        y,
        batch_size=common.BATCH // workers,
        epochs=common.EPOCHS,
        shuffle=False,
        verbose=0,
        callbacks=[backup],
    )
    common.report(folder, rank, model)


if __name__ == "__main__":
    main(**common.parse_worker())
