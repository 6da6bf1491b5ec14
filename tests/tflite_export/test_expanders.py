"""The expanders in C, Java and JavaScript do what the Python one does."""

import functools
import hashlib
import pathlib
import shutil
import struct
import subprocess
from typing import NamedTuple

import numpy as np
import pytest

from tests.tflite_export import containers
from tests.tflite_export.containers import LIMIT, floats, weights
from tflite_export import expanders
from tflite_export.container import shrink

EXPANDERS = pathlib.Path(expanders.__file__).parent
DRIVERS = pathlib.Path(__file__).parent / "expanders"
FILES = containers.files()
MB = 2**20


def tool(name):
    found = shutil.which(name)
    return found or pytest.skip(f"`{name}` is not installed")


def build_c(folder, *options):
    program, source = folder / "driver", DRIVERS / "driver.c"
    warnings = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    options = [*warnings, *options, f"-I{EXPANDERS}", source, "-lz"]
    subprocess.run([tool("gcc"), *options, "-o", program], check=True)
    return [program]


def build_sanitized_c(folder):
    return build_c(folder, "-O1", "-fsanitize=address,undefined")


def build_optimized_c(folder):
    return build_c(folder, "-O2")


def build_java(folder):
    java, options = tool("java"), ["-Xlint:all", "-Werror", "-d", folder]
    sources = [EXPANDERS / "Tflz.java", DRIVERS / "Driver.java"]
    subprocess.run([tool("javac"), *options, *sources], check=True)
    return [java, "-Xmx400m", "-cp", folder, "Driver"]


def build_javascript(folder, *options):
    # Without a package.json beside it, Node takes only `.mjs` for a module.
    copy = shutil.copy(EXPANDERS / "tflz.js", folder / "tflz.mjs")
    return [tool("node"), *options, DRIVERS / "driver.mjs", copy]


def build_measured_javascript(folder):
    return build_javascript(folder, "--expose-gc")


@pytest.fixture(scope="session")
def commands(tmp_path_factory):
    """Returns the command of a builder, which runs once."""

    @functools.cache
    def command(build):
        return build(tmp_path_factory.mktemp("expander"))

    return command


class Answer(NamedTuple):
    expanded: bool
    memory: int  # In bytes, beside the container.
    seconds: float
    content: bytes  # The expanded file, or what is wrong.


def runner(*builders):
    """A fixture: a function that expands many containers in one process."""

    @pytest.fixture(params=builders)
    def fixture(request, commands, tmp_path):
        command = commands(request.param)

        def expand_all(contents):
            batch, answers = tmp_path / "batch", tmp_path / "answers"
            with batch.open("wb") as file:
                for content in contents:
                    file.write(struct.pack("<I", len(content)) + content)
            subprocess.run([*command, batch, answers, str(LIMIT)], check=True)
            found = list(read_answers(answers.read_bytes()))
            assert len(found) == len(contents)
            return found

        return expand_all

    return fixture


def read_answers(data):
    at = 0
    while at < len(data):
        expanded, *numbers = struct.unpack_from("<BIII", data, at)
        memory, microseconds, length = numbers
        content = data[at + 13 : at + 13 + length]
        yield Answer(expanded == 1, memory, microseconds / 1e6, content)
        at += 13 + length


# The sanitizers take time and memory themselves.
optimized_c = runner(build_optimized_c)
measured = runner(build_optimized_c, build_java, build_measured_javascript)
checked = runner(build_sanitized_c, build_java, build_javascript)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def test_every_file_comes_back(checked):
    answers = checked([shrink(content) for content in FILES.values()])
    for (name, content), answer in zip(FILES.items(), answers):
        assert answer.expanded, f"{name}: {answer.content}"
        assert sha256(answer.content) == sha256(content), name


def test_damage_is_refused(checked):
    cases = dict([*containers.damaged(), *containers.forged()])
    *answers, undamaged = checked([*cases.values(), containers.small()])
    assert undamaged.content == containers.SMALL_FILE
    for name, answer in zip(cases, answers):
        assert not answer.expanded, name
        assert answer.content, f"{name}: no message"


@pytest.mark.parametrize(
    "count", [500, pytest.param(50_000, marks=pytest.mark.slow)]
)
def test_random_damage_is_refused(checked, count):
    rng = np.random.default_rng(count)
    wholes = [shrink(FILES[name]) for name in ("all_encodings", "1_3_257")]
    contents = []
    while len(contents) < count:
        whole = wholes[len(contents) % 2]
        content = containers.random_damage(rng, whole)
        if content != whole:
            contents.append(content)
    assert not any(answer.expanded for answer in checked(contents))


def test_takes_less_than_1_mb_beside_the_file(measured):
    rng = np.random.default_rng(1)
    content = floats(rng, 10**5) + b"".join(
        weights(rng, 3 * 10**6, per_byte) for per_byte in (1, 2, 4)
    )
    [answer] = measured([shrink(content)])
    assert answer.expanded
    assert len(content) - MB < answer.memory < len(content) + MB


def test_bombs_take_no_memory(measured):
    bombs = dict(containers.forged())
    # A stream does not tell its length: only `limit` protects from this one.
    del bombs["a huge range"]
    for name, answer in zip(bombs, measured(list(bombs.values()))):
        assert answer.memory < MB, name


@pytest.mark.parametrize("per_byte", containers.TIMED)
def test_10_mb_take_less_than_20_ms_in_c(optimized_c, per_byte):
    container = shrink(weights(np.random.default_rng(1), 10**7, per_byte))
    answers = optimized_c([container] * 3)
    assert min(answer.seconds for answer in answers) < 0.02
