"""A process is killed while it writes: the file is the old one or the new one.

Half of the processes export a model again and again, the others write a large
file by `keras_lab.files.replacing`, so that most are killed in the middle.
"""

import importlib
import multiprocessing
import random
import tempfile
import time
from pathlib import Path

from tests.endurance.network import network

FORK = multiprocessing.get_context("fork")
LARGE = [bytes([value]) * 30_000_000 for value in (1, 2)]


def export(*paths):
    from tflite_export import export_tflite

    for seed, path in enumerate(paths):
        export_tflite(network(seed), path)


def export_for_ever(path):
    while True:
        export(path, path)


def replace_for_ever(path):
    from keras_lab.files import replacing

    while True:
        for content in LARGE:
            with replacing(path) as partial:
                partial.write_bytes(content)


def start(function, *args):
    process = FORK.Process(target=function, args=args)
    process.start()
    return process


def run(kills=200, seed=1):
    """Kills `kills` processes. Returns what was found in the files."""
    # So that a fork has them. Nothing runs in TensorFlow before the fork.
    importlib.import_module("tensorflow")
    importlib.import_module("tflite_export.export")

    rng = random.Random(seed)
    found = {"old or new": 0, "damaged": 0, "killed while writing": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [folder / "1.tflite", folder / "2.tflite"]
        start(export, *paths).join()
        exports = [path.read_bytes() for path in paths]
        # What the files may be, the writer, and the most seconds it gets.
        kinds = (exports, export_for_ever, 0.5), (LARGE, replace_for_ever, 0.05)
        for number in range(kills):
            whole, write, seconds = kinds[number % 2]
            path = folder / f"target-{number % 2}.tflite"
            path.write_bytes(whole[0])
            before = path.stat().st_ino
            process = start(write, path)
            while path.stat().st_ino == before and process.is_alive():
                time.sleep(0.001)
            time.sleep(rng.uniform(0, seconds))
            assert process.is_alive()
            process.kill()
            process.join()
            is_whole = path.read_bytes() in whole
            found["old or new" if is_whole else "damaged"] += 1
            for partial in folder.glob(".*.partial"):
                found["killed while writing"] += 1
                partial.unlink()
    return {"kills": kills, "seed": seed, **found}
