"""`shrink` and `expand`: every file comes back, every damage is found."""

import io
import subprocess
import sys
import time
import tracemalloc

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import keras_lab
import tflite_export
from tests.tflite_export import containers
from tests.tflite_export.containers import LIMIT, floats, weights
from tflite_export.container import is_shrunk, shrink
from tflite_export.expanders import tflz
from tflite_export.expanders.tflz import HEADER, RANGE, ContainerError, expand

FILES = containers.files()


def ranges_of(container):
    count = HEADER.unpack_from(container)[4]
    table = container[HEADER.size :][: count * RANGE.size]
    return list(RANGE.iter_unpack(table))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Real `.tflite` files: two of this package, two of the plain converter."""
    keras.utils.set_random_seed(1)
    path = tmp_path_factory.mktemp("models") / "model.tflite"
    model = keras.Sequential(
        [
            keras.Input((8, 8, 4)),
            keras_lab.BinaryConv2D(32, 3),
            keras.layers.Flatten(),
            keras_lab.BinaryDense(8),
            keras.layers.Dense(3),
        ]
    )
    found = {}
    for format in ("fast", "packed"):
        tflite_export.export_tflite(model, path, format=format)
        found[format] = path.read_bytes()
    for quantized in (False, True):
        kernel = tf.random.normal((64, 40))
        function = tf.function(lambda x: tf.nn.relu(x @ kernel))
        converter = tf.lite.TFLiteConverter.from_concrete_functions(
            [function.get_concrete_function(tf.TensorSpec((1, 64)))]
        )
        if quantized:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        found[f"foreign, quantized={quantized}"] = converter.convert()
    return found


class TestRoundTrip:
    @pytest.mark.parametrize("name", FILES)
    def test_every_file_comes_back(self, name):
        content = FILES[name]
        assert expand(shrink(content)) == content

    def test_every_model_comes_back_smaller(self, models):
        for name, content in models.items():
            container = shrink(content)
            assert expand(container) == content, name
            assert is_shrunk(container) and not is_shrunk(content)
            assert len(container) < len(content), name

    def test_an_exported_file_takes_a_bit_per_weight(self, models):
        # 3 * 3 * 4 * 32 weights of the convolution and 1152 * 8 of the layer.
        ranges = ranges_of(shrink(models["fast"]))
        found = sum(length * per_byte for _, length, per_byte in ranges)
        assert 0.95 * (1152 + 9216) < found < 1.02 * (1152 + 9216)

    @pytest.mark.parametrize("per_byte", [1, 2, 4])
    def test_weights_take_a_bit_each(self, per_byte):
        content = weights(np.random.default_rng(1), 80_001, per_byte)
        container = shrink(content)
        assert ranges_of(container) == [(0, 80_001, per_byte)]
        assert len(container) < 80_001 * per_byte / 8 + 64

    def test_repeated_weights_are_deflated(self):
        assert len(shrink(b"\x01" * 1_000_000)) < 2000

    def test_keeps_the_longest_of_too_many_ranges(self, monkeypatch):
        rng = np.random.default_rng(1)
        lengths = [400, 300, 900, 500, 350]
        parts = [weights(rng, length, 1) + b"other" for length in lengths]
        monkeypatch.setattr("tflite_export.container.MAX_RANGES", 2)
        container = shrink(b"".join(parts))
        assert [length for _, length, _ in ranges_of(container)] == [900, 500]
        assert expand(container) == b"".join(parts)

    def test_a_container_can_be_shrunk(self):
        assert expand(expand(shrink(shrink(b"model")))) == b"model"

    @settings(max_examples=200, deadline=None, database=None)
    @given(st.binary(max_size=2000))
    def test_any_bytes_come_back(self, content):
        assert expand(shrink(content)) == content

    @settings(max_examples=100, deadline=None, database=None)
    @given(st.lists(st.sampled_from(b"\x01\xff\x11\xf1\x55\xd70")))
    def test_any_runs_come_back(self, values):
        runs = (bytes([x]) * (250 + 3 * i) for i, x in enumerate(values))
        content = b"".join(runs)
        assert expand(shrink(content)) == content

    @pytest.mark.parametrize(
        "count", [200, pytest.param(10_000, marks=pytest.mark.slow)]
    )
    def test_mutations_of_models_come_back(self, models, count):
        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(st.sampled_from(sorted(models)), st.integers(0, 2**32 - 1))
        def check(name, seed):
            rng = np.random.default_rng(seed)
            content = containers.random_damage(rng, models[name])
            assert expand(shrink(content)) == content

        check()


class TestExpand:
    def test_the_small_container(self):
        assert expand(containers.small()) == containers.SMALL_FILE

    @pytest.mark.parametrize("name", ["empty", "all_encodings", "chunks"])
    def test_reads_a_stream_that_returns_little_at_a_time(self, name):
        class Slow(io.BytesIO):
            def read(self, count=-1):
                return super().read(min(count, 1000))

        assert expand(Slow(shrink(FILES[name]))) == FILES[name]

    def test_accepts_other_buffers(self):
        for kind in (bytearray, memoryview):
            assert expand(kind(containers.small())) == containers.SMALL_FILE

    def test_accepts_exactly_the_limit(self):
        container = shrink(bytes(1000))
        assert expand(container, limit=1000) == bytes(1000)
        with pytest.raises(ContainerError, match="1000 bytes, over 999"):
            expand(container, limit=999)

    def test_takes_less_than_1_mb_beside_the_file(self):
        rng = np.random.default_rng(1)
        content = floats(rng, 10**5) + b"".join(
            weights(rng, 10**6, n) for n in (1, 2, 4)
        )
        with io.BytesIO(shrink(content)) as stream:
            tracemalloc.start()
            expand(stream)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < len(content) + 2**20

    @pytest.mark.parametrize("per_byte", containers.TIMED)
    def test_10_mb_take_less_than_50_ms(self, per_byte):
        content = weights(np.random.default_rng(1), 10**7, per_byte)
        container = shrink(content)
        durations = []
        for _ in range(3):
            start = time.process_time()
            expand(container)
            durations.append(time.process_time() - start)
        assert min(durations) < 0.05

    def test_needs_only_numpy(self):
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


class TestDamage:
    def refuse(self, name, content):
        for source in (content, io.BytesIO(content)):
            try:
                expand(source, LIMIT)
            except ContainerError:
                continue
            pytest.fail(f"Expanded a damaged container: {name}")

    def test_refuses_every_flipped_bit(self):
        content = bytearray(containers.small())
        for i in range(8 * len(content)):
            content[i // 8] ^= 1 << i % 8
            self.refuse(f"bit {i}", bytes(content))
            content[i // 8] ^= 1 << i % 8

    def test_refuses_changed_bytes_truncation_and_more(self):
        for name, content in containers.damaged():
            self.refuse(name, content)

    @pytest.mark.parametrize(("name", "content"), list(containers.forged()))
    def test_refuses_what_no_writer_makes(self, name, content):
        tracemalloc.start()
        self.refuse(name, content)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # Only the length of a stream would tell that the range is too long.
        assert peak < (LIMIT if name == "a huge range" else 0) + 2**20

    def test_refuses_bytes_within_the_deflated_rest(self):
        container = shrink(b"model")
        rest = container[HEADER.size :] + b"junk"
        self.refuse("junk", containers.container(b"model", [], b"", rest=rest))

    @pytest.mark.parametrize(
        "count", [2000, pytest.param(100_000, marks=pytest.mark.slow)]
    )
    def test_random_damage_is_refused(self, count, models):
        rng = np.random.default_rng(count)
        whole = shrink(models["fast"])
        for i in range(count):
            content = containers.random_damage(rng, whole)
            if content != whole:
                self.refuse(i, content)
