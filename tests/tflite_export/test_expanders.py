"""The expanders in C, Java and JavaScript do what the Python one does."""

import hashlib
import pathlib
import shutil
import struct
import subprocess
import time

import numpy as np
import pytest

from tests.tflite_export import containers
from tests.tflite_export.containers import LIMIT, floats, weights
from tflite_export import expanders
from tflite_export.container import shrink

EXPANDERS = pathlib.Path(expanders.__file__).parent
DRIVERS = pathlib.Path(__file__).parent / "expanders"
FILES = containers.files()
C_FLAGS = "-std=c99 -Wall -Wextra -Wpedantic -Werror".split()


def tool(name):
    found = shutil.which(name)
    return found or pytest.skip(f"`{name}` is not installed")


def build_c(folder, *flags):
    program = folder / "driver"
    subprocess.run(
        [tool("gcc"), *C_FLAGS, *flags, f"-I{EXPANDERS}", DRIVERS / "driver.c"]
        + ["-o", program, "-lz"],
        check=True,
    )
    return [program]


def build_java(folder):
    sources = [EXPANDERS / "Tflz.java", DRIVERS / "Driver.java"]
    java = tool("java")
    subprocess.run(
        [tool("javac"), "-Xlint:all", "-Werror", "-d", folder, *sources],
        check=True,
    )
    return [java, "-Xshare:auto", "-Xmx400m", "-cp", folder, "Driver"]


def build_javascript(folder):
    # Outside of a package.json that says so, only `.mjs` is a module to Node.
    copy = shutil.copy(EXPANDERS / "tflz.js", folder / "tflz.mjs")
    return [tool("node"), "--expose-gc", DRIVERS / "driver.mjs", copy]


BUILDERS = {
    "c": lambda folder: build_c(folder, "-O2"),
    "c_sanitized": lambda folder: build_c(
        folder, "-O1", "-fsanitize=address,undefined"
    ),
    "java": build_java,
    "javascript": build_javascript,
}


@pytest.fixture(scope="session", params=BUILDERS)
def expand_all(request, tmp_path_factory):
    """A function that expands many containers in one process."""
    folder = tmp_path_factory.mktemp(request.param)
    command = BUILDERS[request.param](folder)

    def expand_all(contents):
        """Returns a tuple per container: expanded?, memory, answer."""
        batch, answers = folder / "batch", folder / "answers"
        with batch.open("wb") as file:
            for content in contents:
                file.write(struct.pack("<I", len(content)) + content)
        answers.unlink(missing_ok=True)
        subprocess.run([*command, batch, answers, str(LIMIT)], check=True)
        data, found = answers.read_bytes(), []
        while data:
            expanded, memory, length = struct.unpack_from("<BII", data)
            found.append((bool(expanded), memory, data[9 : 9 + length]))
            data = data[9 + length :]
        assert len(found) == len(contents)
        return found

    expand_all.language = request.param
    return expand_all


def test_every_file_comes_back(expand_all):
    answers = expand_all([shrink(content) for content in FILES.values()])
    for (name, content), (expanded, _, answer) in zip(FILES.items(), answers):
        assert expanded, f"{name}: {answer}"
        assert (
            hashlib.sha256(answer).digest() == hashlib.sha256(content).digest()
        ), name


def test_damage_is_refused(expand_all):
    cases = dict([*containers.damaged(), *containers.forged()])
    answers = expand_all([*cases.values(), containers.small()])
    assert answers.pop()[::2] == (True, containers.SMALL_FILE)
    for name, (expanded, _, problem) in zip(cases, answers):
        assert not expanded, f"{name} was expanded"
        assert problem, f"{name}: no message"


def test_bombs_take_no_memory(expand_all):
    if expand_all.language == "c_sanitized":
        pytest.skip("The sanitizer takes memory itself")
    bombs = dict(containers.forged())
    # Its length cannot be known from a stream: only `limit` protects from it.
    del bombs["a huge range"]
    answers = expand_all(list(bombs.values()))
    for name, (_, memory, _) in zip(bombs, answers):
        assert memory < 2**20, name


def test_takes_less_than_1_mb_beside_the_file(expand_all):
    if expand_all.language == "c_sanitized":
        pytest.skip("The sanitizer takes memory itself")
    rng = np.random.default_rng(1)
    content = floats(rng, 10**5) + b"".join(
        weights(rng, 3 * 10**6, n) for n in (1, 2, 4)
    )
    [(expanded, memory, _)] = expand_all([shrink(content)])
    assert expanded
    assert memory < len(content) + 2**20


@pytest.mark.parametrize(
    "count", [500, pytest.param(50_000, marks=pytest.mark.slow)]
)
def test_random_damage_is_refused(expand_all, count):
    rng = np.random.default_rng(count)
    wholes = [shrink(FILES[name]) for name in ("all_encodings", "1_3_257")]
    contents = []
    while len(contents) < count:
        whole = wholes[len(contents) % 2]
        content = containers.random_damage(rng, whole)
        if content != whole:
            contents.append(content)
    assert not any(expanded for expanded, _, _ in expand_all(contents))


def test_10_mb_take_less_than_20_ms_in_c(tmp_path):
    """Measured as what ten more containers cost in the driver."""
    command = build_c(tmp_path, "-O2", "-DREPEAT")
