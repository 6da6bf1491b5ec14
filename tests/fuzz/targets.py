"""What is fuzzed: the files to damage, and the functions that read them."""

import collections
import contextlib
import random
import signal
import tempfile
import tracemalloc
import warnings
from pathlib import Path

import keras
import numpy as np

import keras_lab
import tflite_export
from tests.fuzz.damage import damaged, damaged_archive, damaged_container
from tests.tflite_export.containers import LIMIT
from tflite_export import ContainerError, InvalidModelError, NothingBinaryError

SECONDS = 20  # A reader that takes longer hangs.
MEMORY_EVERY = 10  # Measuring the memory makes a reader several times slower.
TIMES, SPARE = 4, 1 << 22  # Memory: four times the file, and 4 MiB.
FORMATS = ("float", "packed_float", "packed", "fast")


def load_keras(content):
    with tempfile.NamedTemporaryFile(suffix=".keras") as file:
        file.write(content)
        file.flush()
        keras_lab.files.load_model(file.name)


# Each with the errors that it documents.
READERS = {
    "read_packed": (tflite_export.read_packed, InvalidModelError),
    "inspect": (
        lambda content: str(tflite_export.inspect(content)),
        InvalidModelError,
    ),
    "pack": (tflite_export.pack, (InvalidModelError, NothingBinaryError)),
    "expand": (
        lambda content: tflite_export.expand(content, LIMIT),
        ContainerError,
    ),
    "load_model": (load_keras, ValueError),
}
# The files that each reader gets, how they are damaged, and how often. Keras
# takes 30 ms to load a model.
KINDS = {
    "read_packed": ("*.tflite", [damaged], 24),
    "inspect": ("*.tflite", [damaged], 24),
    "pack": ("*-float.tflite", [damaged], 20),
    "expand": ("*.tflz", [damaged, damaged_container], 30),
    "load_model": ("*.keras", [damaged, damaged_archive], 2),
}


def write_corpus(folder: Path) -> None:
    """Writes the undamaged files into a folder."""
    from tests.tflite_export.support import exported
    from tests.tflite_export.test_rewrite import foreign, random_signs, sparse

    for case in ("dense_folded", "network", "lstm"):
        for format in FORMATS:
            content = exported(case).content(format)
            (folder / f"{case}-{format}.tflite").write_bytes(content)
            container = tflite_export.shrink(content)
            (folder / f"{case}-{format}.tflz").write_bytes(container)
        exported(case).model.save(folder / f"{case}.keras")
    rng = np.random.default_rng(1)
    kernels = random_signs(rng, 32, 16), sparse(rng, 16, 16).astype("f").T
    for storage in ("float16", "sparsity"):
        content = foreign(
            lambda x: (x @ kernels[0]) @ kernels[1], 1, 32, storage=storage
        )
        (folder / f"{storage}-float.tflite").write_bytes(content)
    # Large enough for its data to count more than the objects around them.
    large = keras.Sequential([keras.Input((1024,)), keras_lab.BinaryDense(512)])
    for format in FORMATS:
        tflite_export.export_tflite(
            large, folder / f"large-{format}.tflite", format=format
        )


class Fuzzer:
    """Damages files of a corpus and gives them to their readers.

    `corpus` is the folder that `write_corpus` filled. The file with a given
    number is the same in every run with the same seed.
    """

    def __init__(self, corpus, seed):
        self.seed = seed
        self.files = {
            name: [p.read_bytes() for p in sorted(corpus.glob(pattern))]
            for name, (pattern, _, _) in KINDS.items()
        }

    def file(self, number):
        """Returns the name of a reader and a damaged file for it."""
        rng = random.Random(f"{self.seed} {number}")
        shares = [share for _, _, share in KINDS.values()]
        (reader,) = rng.choices(tuple(KINDS), shares)
        damage, files = rng.choice(KINDS[reader][1]), self.files[reader]
        # Large files are slow to read, and rarely tell anything new.
        (content,) = rng.choices(files, [1 / len(f) for f in files])
        return reader, damage(rng, content, files)

    def try_file(self, number, with_memory=False):
        """Reads a damaged file. Returns the reader's name and what happened.

        That is "read", "refused", or a problem: the exception that is not
        documented, that it hangs, or the memory it took.
        """
        reader, content = self.file(number)
        function, errors = READERS[reader]
        outcome = "read"
        try:
            with _limits(content, with_memory and reader != "load_model"):
                function(content)
        except errors as error:
            outcome = "refused" if str(error) else "refused without a reason"
        except BaseException as error:  # Whatever it is, it is recorded.
            if isinstance(error, KeyboardInterrupt):
                raise
            outcome = f"{type(error).__name__}: {error}"
        return reader, outcome


class TooMuch(BaseException):
    """It took too long, or too much memory."""


@contextlib.contextmanager
def _limits(content, with_memory):
    def stop(*_):
        raise TooMuch(f"took more than {SECONDS} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    if with_memory:
        tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.alarm(0)
        if with_memory:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            if peak > TIMES * len(content) + SPARE:
                raise TooMuch(f"took {peak} bytes for {len(content)}")


def read_files(folder, seed, first, last):
    """Reads the files from a number to another.

    Returns how many of each reader had each outcome, and the problems.
    """
    fuzzer = Fuzzer(Path(folder), seed)
    counts, problems = collections.Counter(), []
    for number in range(first, last):
        reader, outcome = fuzzer.try_file(number, number % MEMORY_EVERY == 0)
        if outcome not in ("read", "refused"):
            problems.append([number, reader, outcome])
            outcome = "problem"
        counts[reader, outcome] += 1
    return counts, problems
