"""A process is killed while it writes: the file is the old one or the new one.

Half of the processes export a model again and again, the others write a large
file by `keras_lab.files.replacing`, so that most are killed in the middle.
"""

import multiprocessing
import random
import tempfile
import time
from pathlib import Path

FORK = multiprocessing.get_context("fork")
LARGE = [bytes([value]) * 30_000_000 for value in (1, 2)]


def networks():
    import keras

    import keras_lab

    for seed in (1, 2):
        keras.utils.set_random_seed(seed)
        yield keras.Sequential([keras.Input((64,)), keras_lab.BinaryDense(64)])


def export_for_ever(path):
    from tflite_export import export_tflite

    models = list(networks())
    while True:
        for model in models:
            export_tflite(model, path)


def replace_for_ever(path):
    from keras_lab.files import replacing

    while True:
        for content in LARGE:
            with replacing(path) as partial:
                partial.write_bytes(content)


def exported_files(folder):
    from tflite_export import export_tflite

    paths = [folder / "1.tflite", folder / "2.tflite"]
    for model, path in zip(list(networks()), paths):
        export_tflite(model, path)


def run(kills=200, seed=1):
    """Kills `kills` processes. Returns what was found in the files."""
    # So that a fork has them. Nothing runs in TensorFlow before the fork.
    import tensorflow  # noqa: F401

    import tflite_export.export  # noqa: F401

    rng = random.Random(seed)
    found = {"old or new": 0, "damaged": 0, "killed while writing": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = FORK.Process(target=exported_files, args=(folder,))
        process.start()
        process.join()
        exports = [path.read_bytes() for path in sorted(folder.iterdir())]
        for number in range(kills):
            kind = number % 2
            whole = (exports, LARGE)[kind]
            path = folder / f"target-{kind}.tflite"
            path.write_bytes(whole[0])
            before = path.stat().st_ino
            target = (export_for_ever, replace_for_ever)[kind]
            process = FORK.Process(target=target, args=(path,))
            process.start()
            while path.stat().st_ino == before and process.is_alive():
                time.sleep(0.001)
            time.sleep(rng.uniform(0, (0.5, 0.05)[kind]))
            assert process.is_alive()
            process.kill()
            process.join()
            is_whole = path.read_bytes() in whole
            found["old or new" if is_whole else "damaged"] += 1
            for partial in folder.glob(".*.partial"):
                found["killed while writing"] += 1
                partial.unlink()
    return {"kills": kills, "seed": seed, **found}
