"""Damaged files are read or refused: no crash, no hang, no other exception."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import READERS, Fuzzer, write_corpus
from tflite_export.flatbuffer.model import FlatModel


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


def test_damaged_files(corpus, request):
    """`--fuzz-seconds` says how long. Then the files differ from run to run."""
    seconds = request.config.getoption("--fuzz-seconds")
    seed = time.time_ns() if seconds else 1
    end = time.monotonic() + (seconds or 3)
    fuzzer, number = Fuzzer(corpus, seed), 0
    while time.monotonic() < end:
        outcome = fuzzer.try_file(number, with_memory=number % 20 == 0)
        assert outcome[1] in ("read", "refused"), (seed, number, outcome)
        number += 1
    print(f"{number} files of seed {seed}")


def test_the_record_says_what_must_hold():
    path = Path(__file__).parents[2] / "results" / "fuzz" / "files.json"
    record = json.loads(path.read_text())
    assert record["files"] >= 1_000_000 and not record["problems"]


def fields(part, seen):
    """Yields the numbers, texts and lists of a model: an object, a name."""
    if id(part) in seen:
        return
    seen.add(id(part))
    for name, value in vars(part).items():
        if not hasattr(value, "__dict__"):
            yield part, name
        for item in value if isinstance(value, list) else [value]:
            if hasattr(item, "__dict__"):
                yield from fields(item, seen)


NUMBERS = st.sampled_from([-(2**31), -2, -1, 0, 1, 2, 127, 2**31 - 1])
LISTS = st.lists(NUMBERS, max_size=4)


def change(draw, value):
    """Another value of the same kind."""
    if isinstance(value, bool) or value is None:
        return draw(st.one_of(st.none(), st.booleans()))
    if isinstance(value, (int, np.integer)):
        near = st.integers(-3, 3).map(lambda step: int(value) + step)
        return draw(st.one_of(NUMBERS, near))
    if isinstance(value, bytes):
        return draw(st.binary(max_size=8))
    if isinstance(value, np.ndarray):
        numbers = np.array(draw(LISTS)).astype(value.dtype)
        return draw(st.sampled_from([None, numbers, value[:-1], value[::-1]]))
    if isinstance(value, list):
        return draw(st.sampled_from([value[:-1], value[::-1], value * 2]))
    return value


def test_forged_models(corpus, request):
    """Files that are whole, but whose parts do not fit together."""
    files = [path.read_bytes() for path in sorted(corpus.glob("*.tflite"))]
    files = [content for content in files if len(content) < 20_000]
    seconds = request.config.getoption("--fuzz-seconds")

    @settings(
        max_examples=100 + 50 * seconds,
        deadline=None,
        database=None,
        derandomize=not seconds,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def check(data):
        model = FlatModel(data.draw(st.sampled_from(files)))
        places = list(fields(model.model, set()))
        for _ in range(data.draw(st.integers(1, 3))):
            part, name = data.draw(st.sampled_from(places))
            setattr(part, name, change(data.draw, getattr(part, name)))
        try:
            content = model.to_bytes()
        except Exception:
            return  # No file can say so.
        for reader in ("read_packed", "inspect", "pack"):
            function, errors = READERS[reader]
            try:
                function(content)
            except errors as error:
                assert str(error)

    check()
