"""The expanders in Python, C, Java and JavaScript all do the same."""

import functools
import pathlib
import random
import shutil
import struct
import subprocess
import time
import tracemalloc
import zlib
from typing import NamedTuple

import numpy as np
import pytest

from tests.fuzz.damage import damaged
from tests.tflite_export import containers
from tests.tflite_export.containers import LIMIT, floats, weights
from tflite_export import expanders
from tflite_export.container import shrink
from tflite_export.expanders.tflz import ContainerError, expand

EXPANDERS = pathlib.Path(expanders.__file__).parent
DRIVERS = pathlib.Path(__file__).parent / "expanders"
FILES = containers.files()
MB = 2**20
# How the messages about some containers begin, in each language.
WORDS = {
    "version 2": b"Unknown container version: ",
    "expands to 4 GiB": b"File too large: ",
    "expands to more than the limit": b"File too large: ",
    **{f"byte {i}": b"Not a container: " for i in range(4)},
    **{f"byte {i}": b"Unknown container version: " for i in range(4, 8)},
}


class Answer(NamedTuple):
    expanded: bool
    memory: int  # In bytes, beside the container.
    seconds: float
    content: bytes  # The expanded file, or what is wrong.


def tool(name):
    found = shutil.which(name)
    return found or pytest.skip(f"`{name}` is not installed")


def build_c(compiler, folder, *options):
    program, source = folder / "driver", DRIVERS / "driver.c"
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    options = [*warnings, *options, f"-I{EXPANDERS}", source, "-lz"]
    subprocess.run([tool(compiler), *options, "-o", program], check=True)
    return [program]


def sanitized_c(folder):
    options = ["-std=c99", "-O1", "-fsanitize=address,undefined"]
    return build_c("gcc", folder, *options)


def optimized_cpp(folder):
    return build_c("g++", folder, "-xc++", "-O2")


def java(folder):
    java, options = tool("java"), ["-Xlint:all", "-Werror", "-d", folder]
    sources = [EXPANDERS / "Tflz.java", DRIVERS / "Driver.java"]
    subprocess.run([tool("javac"), *options, *sources], check=True)
    return [java, "-Xmx400m", "-cp", folder, "Driver"]


def javascript(folder, *options):
    # Without a package.json beside it, Node takes only `.mjs` for a module.
    copy = shutil.copy(EXPANDERS / "tflz.js", folder / "tflz.mjs")
    return [tool("node"), *options, DRIVERS / "driver.mjs", copy]


def measured_javascript(folder):
    return javascript(folder, "--expose-gc")


def javascript_of_bytes(folder):
    return [*measured_javascript(folder), "bytes"]


def python(folder):
    """There is no command: it runs in this process."""


def expand_in_python(content, limit):
    tracemalloc.start()
    start = time.process_time()
    try:
        expanded, result = True, expand(content, limit)
    except ContainerError as error:
        expanded, result = False, str(error).encode()
    seconds = time.process_time() - start
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Answer(expanded, memory, seconds, result)


def read_answers(data):
    at = 0
    while at < len(data):
        expanded, *numbers = struct.unpack_from("<BIII", data, at)
        memory, microseconds, length = numbers
        content = data[at + 13 : at + 13 + length]
        yield Answer(expanded == 1, memory, microseconds / 1e6, content)
        at += 13 + length


@pytest.fixture(scope="session")
def commands(tmp_path_factory):
    """Returns the command of a builder, which runs once."""

    @functools.cache
    def command(build):
        return build(tmp_path_factory.mktemp("expander"))

    return command


@pytest.fixture
def expand_all(request, commands, tmp_path):
    """A function that expands many containers in one process."""
    command = commands(request.param)

    def expand_all(contents, limit=LIMIT):
        if command is None:
            return [expand_in_python(content, limit) for content in contents]
        batch, answers = tmp_path / "batch", tmp_path / "answers"
        with batch.open("wb") as file:
            for content in contents:
                file.write(struct.pack("<I", len(content)) + content)
        subprocess.run([*command, batch, answers, str(limit)], check=True)
        found = list(read_answers(answers.read_bytes()))
        assert len(found) == len(contents)
        return found

    return expand_all


def languages(*builders):
    return pytest.mark.parametrize("expand_all", builders, indirect=True)


# The sanitizers take time and memory themselves.
checked = languages(python, sanitized_c, java, javascript)
measured = languages(python, optimized_cpp, java, measured_javascript)


@checked
def test_every_file_comes_back(expand_all):
    answers = expand_all([shrink(content) for content in FILES.values()])
    for (name, content), answer in zip(FILES.items(), answers):
        assert answer.expanded, f"{name}: {answer.content}"
        # A comparison of two long contents would take long to print.
        equal = answer.content == content
        assert equal, name


@checked
def test_damage_is_refused(expand_all):
    cases = dict([*containers.damaged(), *containers.forged()])
    *answers, undamaged = expand_all([*cases.values(), containers.small()])
    assert undamaged.content == containers.SMALL_FILE
    for name, answer in zip(cases, answers):
        assert not answer.expanded, name
        words = WORDS.get(name.split(" ^ ")[0], b"Damaged container: ")
        assert words in answer.content, name


@languages(java)
def test_a_file_larger_than_the_memory_is_refused(expand_all):
    content = containers.container(b"", [(0, 2**30, 4)], b"", size=2**30)
    [answer] = expand_all([content], limit=2**30)
    assert b"IOException: File too large: " in answer.content


# Node does not report bytes after the end of a deflated stream.
@languages(python, sanitized_c, java)
def test_bytes_after_the_deflated_rest_are_refused(expand_all):
    rest = zlib.compress(b"model", 9) + b"junk"
    [answer] = expand_all([containers.container(b"model", [], b"", rest=rest)])
    assert not answer.expanded


@checked
@pytest.mark.parametrize(
    "count", [500, pytest.param(50_000, marks=pytest.mark.slow)]
)
def test_random_damage_is_refused(expand_all, count):
    rng = random.Random(count)
    wholes = [shrink(FILES[name]) for name in ("all_encodings", "1_3_257")]
    contents = []
    while len(contents) < count:
        content = damaged(rng, wholes[len(contents) % 2], wholes)
        if content not in wholes:
            contents.append(content)
    assert not any(answer.expanded for answer in expand_all(contents))


@measured
@pytest.mark.parametrize("many_ranges", [False, True])
def test_takes_less_than_1_mb_beside_the_file(expand_all, many_ranges):
    rng = np.random.default_rng(1)
    content = floats(rng, 10**5) + b"".join(
        weights(rng, 3 * 10**6, per_byte) for per_byte in (1, 2, 4)
    )
    if many_ranges:
        content = (weights(rng, 300, 1) + floats(rng, 1)) * 16_000
    [answer] = expand_all([shrink(content)])
    assert answer.expanded
    assert len(content) - MB < answer.memory < len(content) + MB


@measured
def test_bombs_take_no_memory(expand_all):
    bombs = dict(containers.forged())
    # A stream does not tell its length: only `limit` protects from this one.
    del bombs["a huge range"]
    for name, answer in zip(bombs, expand_all(list(bombs.values()))):
        assert answer.memory < MB, name


@languages(python, javascript_of_bytes)
def test_bombs_of_known_size_take_no_memory(expand_all):
    bombs = dict(containers.forged())
    for name, answer in zip(bombs, expand_all(list(bombs.values()))):
        assert answer.memory < MB, name
    [answer] = expand_all([bombs["a huge range"]])
    assert b"Damaged container: it should have 33554484 bytes" in answer.content


@languages(python, optimized_cpp)
def test_10_mb_take_milliseconds(request, expand_all):
    container = shrink(weights(np.random.default_rng(1), 10**7, 1))
    answers = expand_all([container] * 3)
    in_c = "optimized_cpp" in request.node.name
    limit = 0.02 if in_c else 0.05
    assert min(answer.seconds for answer in answers) < limit


@languages(optimized_cpp)
def test_thousands_of_ranges_take_milliseconds(expand_all):
    ranges = [(i, 1, 1) for i in range(16_384)]
    content = b"\1" * len(ranges)
    [answer] = expand_all([containers.container(content, ranges, content)])
    assert answer.content == content and answer.seconds < 0.02
