"""Containers: every file comes back, and every reader takes them."""

import io
import random
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.damage import damaged
from tests.tflite_export import containers
from tests.tflite_export.containers import weights
from tests.tflite_export.models import dense, net, relu
from tests.tflite_export.support import exported, randomize
from tflite_export import (
    ContainerError,
    InvalidModelError,
    ValidationError,
    expand,
    export_tflite,
    inspect,
    make_interpreter,
    pack,
    read_packed,
    run,
    shrink,
)
from tflite_export import export as export_module
from tflite_export.container import is_shrunk
from tflite_export.expanders import tflz
from tflite_export.expanders.tflz import HEADER, RANGE

FILES = containers.files()


def ranges_of(container):
    count = HEADER.unpack_from(container)[4]
    table = container[HEADER.size :][: count * RANGE.size]
    return list(RANGE.iter_unpack(table))


@pytest.fixture(scope="module")
def models():
    """Real `.tflite` files: two of this package, two of the plain converter."""
    network = exported("network")
    found = {name: network.content(name) for name in ("fast", "packed")}
    for optimizations in ([], [tf.lite.Optimize.DEFAULT]):
        kernel = tf.random.normal((64, 40))
        function = tf.function(lambda x: tf.nn.relu(x @ kernel))
        converter = tf.lite.TFLiteConverter.from_concrete_functions(
            [function.get_concrete_function(tf.TensorSpec((1, 64)))]
        )
        converter.optimizations = optimizations
        found[f"foreign, {optimizations}"] = converter.convert()
    return found


def test_every_model_comes_back_smaller(models):
    for name, content in models.items():
        container = shrink(content)
        assert expand(container) == content, name
        assert is_shrunk(container) and not is_shrunk(content)
        assert len(container) < len(content), name
        assert expand(expand(shrink(container))) == content, name


@pytest.mark.parametrize("per_byte", [1, 2, 4])
def test_weights_take_a_bit_each(per_byte):
    content = weights(np.random.default_rng(1), 80_001, per_byte)
    container = shrink(content)
    assert ranges_of(container) == [(0, 80_001, per_byte)]
    assert len(container) < 80_001 * per_byte / 8 + 64


def test_repeated_weights_are_deflated():
    assert len(shrink(b"\x01" * 1_000_000)) < 2000


@pytest.mark.parametrize(("per_byte", "ones"), [(1, 1), (2, 0x11), (4, 0x55)])
def test_a_stretch_that_begins_with_equal_weights_takes_a_bit_each(
    per_byte, ones
):
    random = weights(np.random.default_rng(1), 900_000, per_byte)
    container = shrink(bytes([ones]) * 100_000 + random)
    assert ranges_of(container) == [(0, 1_000_000, per_byte)]


def test_weights_of_other_values_are_deflated_quickly():
    rng = np.random.default_rng(1)
    content = rng.choice([-127, 127], 2_000_000).astype(np.int8).tobytes()
    start = time.process_time()
    assert len(shrink(content)) < len(content) / 6
    assert time.process_time() - start < 1.5


def test_the_longest_of_too_many_ranges_are_kept(monkeypatch):
    rng = np.random.default_rng(1)
    lengths = [400, 300, 900, 500, 350]
    parts = [weights(rng, length, 1) + b"other" for length in lengths]
    monkeypatch.setattr("tflite_export.container.MAX_RANGES", 2)
    container = shrink(b"".join(parts))
    assert [length for _, length, _ in ranges_of(container)] == [900, 500]
    assert expand(container) == b"".join(parts)


@settings(max_examples=100, deadline=None, database=None)
@given(st.lists(st.sampled_from(b"\x01\xff\x11\xf1\x55\xd70")))
def test_any_runs_come_back(values):
    runs = (bytes([x]) * (250 + 3 * i) for i, x in enumerate(values))
    content = b"".join(runs)
    assert expand(shrink(content)) == content


@pytest.mark.parametrize(
    "count", [200, pytest.param(10_000, marks=pytest.mark.slow)]
)
def test_mutations_of_models_come_back(models, count):
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(sorted(models)), st.integers(0, 2**32 - 1))
    def check(name, seed):
        others = list(models.values())
        content = damaged(random.Random(seed), models[name], others)
        assert expand(shrink(content)) == content

    check()


class SlowStream(io.BytesIO):
    def read(self, count=-1):
        return super().read(min(count, 1000))


@pytest.mark.parametrize("kind", [bytearray, memoryview, SlowStream])
def test_expand_reads_other_buffers_and_streams(kind):
    assert expand(kind(containers.small())) == containers.SMALL_FILE
    for name in ("empty", "all_encodings", "chunks"):
        assert expand(kind(shrink(FILES[name]))) == FILES[name]
    for name, content in (*containers.damaged(), *containers.forged()):
        with pytest.raises(ContainerError):
            expand(kind(content), containers.LIMIT)
            pytest.fail(f"Expanded a damaged container: {name}")


@pytest.mark.parametrize("function", [shrink, expand])
@pytest.mark.parametrize("source", [None, "m.tflite", io.StringIO("TFLZ")])
def test_what_has_no_bytes_is_a_type_error(function, source):
    with pytest.raises(TypeError, match=r"bytes.* Received: "):
        function(source)


def test_what_has_gaps_is_an_error():
    gaps = memoryview(containers.small() * 2)[::2]
    with pytest.raises(ValueError, match=r"take `bytes` .* strides=\(2,\)"):
        shrink(gaps)
    with pytest.raises(TypeError, match="Expected bytes"):
        expand(gaps)


def test_expand_accepts_exactly_the_limit():
    container = shrink(bytes(1000))
    assert expand(container, limit=1000) == bytes(1000)
    with pytest.raises(ContainerError, match="1000 bytes, over 999"):
        expand(container, limit=999)
    with pytest.raises(TypeError, match=r"and a limit\. .* limit=None"):
        expand(container, None)
    assert expand(container, float("inf")) == bytes(1000)


def test_expand_needs_only_numpy():
    program = (
        "import runpy, sys; names = runpy.run_path(sys.argv[1]);"
        "print(names['expand'](sys.stdin.buffer));"
        "assert not {'keras', 'tensorflow'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tflz.__file__],
        input=containers.small(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().strip() == repr(containers.SMALL_FILE)


@pytest.fixture(scope="module")
def model():
    return randomize(net((64,), dense(96), relu, dense(5))())


@pytest.fixture(scope="module")
def files(model, tmp_path_factory):
    """A plain file, the container of the same model, and their reports."""
    folder = tmp_path_factory.mktemp("container")
    paths = folder / "m.tflite", folder / "m.tflz"
    return *paths, *(export_tflite(model, path, "fast") for path in paths)


def test_the_container_expands_to_the_plain_file(files):
    plain, container, plain_report, report = files
    assert expand(container.read_bytes()) == plain.read_bytes()
    assert container.stat().st_size < plain.stat().st_size / 2
    assert report.file_bytes == container.stat().st_size
    assert report.expanded_bytes == plain.stat().st_size
    assert report.expanded_bytes == plain_report.file_bytes
    assert report.layers == plain_report.layers
    assert report.agreement == plain_report.agreement
    assert "\nexpanded  " in str(report)
    assert "\nexpanded  " not in str(plain_report)


@pytest.mark.parametrize("of", [lambda p: p, str, lambda p: p.read_bytes()])
def test_every_reader_takes_a_container(files, of):
    plain, container, _, report = files
    x = np.random.default_rng(0).normal(size=(9, 64)).astype("f")
    for name, y in run(plain, x).items():
        np.testing.assert_array_equal(run(of(container), x)[name], y)
    make_interpreter(of(container)).allocate_tensors()
    for weight, other in zip(read_packed(plain), read_packed(of(container))):
        assert weight.path == other.path
        np.testing.assert_array_equal(weight.signs, other.signs)
    found = inspect(of(container))
    assert found.layers == inspect(plain).layers
    assert found.file_bytes == report.file_bytes
    assert found.expanded_bytes == report.expanded_bytes


def test_pack_takes_a_container():
    content = exported("dense").converted
    assert pack(shrink(content)) == pack(content)


@pytest.mark.parametrize("read", [inspect, read_packed, pack, make_interpreter])
def test_a_damaged_container_is_an_invalid_model(files, read):
    content = files[1].read_bytes()
    changed = bytearray(content)
    changed[len(changed) // 2] ^= 1
    for bad in (content[:-1], content[:20], content + b"0", bytes(changed)):
        with pytest.raises(InvalidModelError, match="Damaged container"):
            read(bad)
    if read is not make_interpreter:
        with pytest.raises(InvalidModelError, match="Not a TFLite model"):
            read(shrink(b"text"))


def test_nothing_is_written_if_the_container_is_wrong(
    model, tmp_path, monkeypatch
):
    path = tmp_path / "m.tflz"
    path.write_text("old")
    monkeypatch.setattr(export_module, "shrink", lambda _: shrink(b""))
    with pytest.raises(ValidationError, match="does not expand to the same"):
        export_tflite(model, path, "fast")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["m.tflz"]
