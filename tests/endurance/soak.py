"""Trains in a loop with all callbacks and watches the memory.

Keras loses 73 kB with each file that it saves, also with its own layers alone,
because of h5py. So an epoch must be long compared with its two files.
"""

import gc
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

from tests.endurance.network import network

AT_ONCE = 5  # How many fits a median is taken of.


def run(minutes=30.0, seed=1, samples=131_072):
    """Returns the memory after the first third and at the end, in MB.

    The first third fills caches.
    """
    import keras

    import keras_lab
    from keras_lab import callbacks

    rng, model = np.random.default_rng(seed), network(seed)
    x = rng.normal(size=(samples, 32)).astype("float32")
    y = rng.integers(0, 4, samples)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras_lab.LABAdam(), loss, metrics=["accuracy"])
    memory, end = [], time.time() + 60 * minutes
    # Only the first time: it compiles the step again, and TensorFlow never
    # frees a compiled step, not even one of plain Keras.
    first = [callbacks.ProgressiveBinarization(epochs=2)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        while time.time() < end:
            model.fit(
                x,
                y,
                64,
                epochs=4,
                verbose=0,
                validation_data=(x, y),
                callbacks=[
                    *first,
                    callbacks.BinaryMonitor(folder / "log.csv"),
                    callbacks.ExportBest(
                        folder / "best.tflite", monitor="val_loss"
                    ),
                    keras.callbacks.BackupAndRestore(folder / "backup"),
                    keras.callbacks.ModelCheckpoint(folder / "last.keras"),
                ],
            )
            first = []
            gc.collect()
            memory.append(psutil.Process().memory_info().rss / 1e6)
    third = len(memory) // 3
    start = float(np.median(memory[third : third + AT_ONCE]))
    last = float(np.median(memory[-AT_ONCE:]))
    return {
        "minutes": minutes,
        "seed": seed,
        "samples": samples,
        "fits": len(memory),
        "MB after a third": round(start, 1),
        "MB at the end": round(last, 1),
        "ratio": round(last / start, 4),
        "MB by fit": [round(value, 1) for value in memory],
    }
