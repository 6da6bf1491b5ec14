"""A worker: a loop in TensorFlow, with `MultiWorkerMirroredStrategy`.

Start it with `python examples/distributed/run.py tensorflow`. Keras' own `fit`
does not work with this strategy, not even with plain `Dense` layers. It does
with `MirroredStrategy`, see `tensorflow_fit.py`.
"""

import json
import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import tensorflow as tf

from examples.distributed import common


def main(rank, workers, port, folder):
    addresses = [f"127.0.0.1:{port + k}" for k in range(workers)]
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": rank},
        }
    )
    # So that a resumed run has the same bits.
    tf.config.experimental.enable_op_determinism()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    x, y = common.make_data()
    x, y = (common.my_part(part, rank, workers) for part in (x, y))
    with strategy.scope():
        model = common.make_model()
        optimizer = common.make_optimizer()
        checkpoint = common.Checkpoint(folder, model, optimizer)
    loss_of, variables = common.make_loss(), model.trainable_variables

    @tf.function
    def step(x, y):
        def replica_step(x, y):
            with tf.GradientTape() as tape:
                # Keras divides it by the number of workers.
                loss = loss_of(y, model(x, training=True))
            # The optimizer adds up the gradients of the workers, so every
            # worker computes the same α.
            gradients = tape.gradient(loss, variables)
            optimizer.apply(gradients, variables)

        strategy.run(replica_step, args=(x, y))

    first, size = checkpoint.restore(), common.BATCH // workers
    for epoch in range(first, common.EPOCHS):
        for start in range(0, len(x), size):
            step(x[start : start + size], y[start : start + size])
        if rank == 0:
            checkpoint.save(epoch + 1)
    common.report(folder, rank, model)


if __name__ == "__main__":
    main(**common.parse_worker())
