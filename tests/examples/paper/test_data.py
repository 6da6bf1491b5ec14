"""Data sets: files as their authors wrote them, and the paper's numbers."""

import contextlib
import functools
import gzip
import hashlib
import http.server
import io
import os
import pickle
import shutil
import sys
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.linalg
import scipy.signal

from examples.paper import data as datasets
from examples.paper.data import DataError, files, formats, images
from examples.paper.data import preprocessing as pre
from examples.paper.data.cache import cached

DATA = os.environ.get("KERAS_LAB_DATA")


def needs(path):
    """Skips a test where a real file is absent."""
    absent = not DATA or not (Path(DATA) / path).exists()
    return pytest.mark.skipif(
        absent, reason=f"{path} is not in KERAS_LAB_DATA ({DATA})"
    )


# Preprocessing, against NumPy and SciPy in float64.


def gcn_oracle(images, scale):
    centred = [image - image.mean() for image in images.astype(np.float64)]
    norms = [np.linalg.norm(image) for image in centred]
    return np.stack(
        [
            scale * image / (norm if norm > 0 else 1)
            for image, norm in zip(centred, norms)
        ]
    )


@pytest.mark.parametrize("scale", [1.0, 55.0])
def test_global_contrast_is_zero_mean_and_norm_scale(rng, scale):
    x = rng.integers(0, 256, (20, 8, 8, 3)).astype(np.uint8)
    x[3] = 7
    got = pre.global_contrast_normalize(x, scale)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, gcn_oracle(x, scale), atol=1e-5 * scale)


def zca_oracle(x, regularization):
    x = x.reshape(len(x), -1).astype(np.float64)
    covariance = np.cov(x.T, bias=True) + regularization * np.eye(x.shape[1])
    return x.mean(axis=0), np.linalg.inv(scipy.linalg.sqrtm(covariance))


def test_zca_is_the_inverse_root_of_the_covariance(rng, monkeypatch):
    monkeypatch.setattr(pre, "CHUNK", 70)  # So that the sum has several parts.
    x = rng.normal(size=(300, 4, 4, 3)) @ rng.normal(size=(3, 3)) + 2
    mean, whiten = pre.zca_whitening(x.astype(np.float32), 0.1)
    expected_mean, expected = zca_oracle(x, 0.1)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-5)
    np.testing.assert_allclose(whiten, expected, atol=1e-4)


@needs("cifar-10-batches-py/test_batch")
def test_zca_whitens_real_images():
    path = Path(DATA) / "cifar-10-batches-py" / "test_batch"
    x, _ = formats.read_cifar_batch(path)
    x = pre.global_contrast_normalize(x[:2000, 12:20, 12:20], 55.0)
    mean, whiten = pre.zca_whitening(x, 0.1)
    _, expected = zca_oracle(x, 0.1)
    np.testing.assert_allclose(whiten, expected, atol=2e-3)
    white = (x.reshape(len(x), -1) - mean) @ whiten
    variance = np.linalg.eigvalsh(np.cov(white.T, bias=True))
    assert variance.max() < 1 and variance.max() > 0.95


def lcn_oracle(image, size=7, sigma=2.0):
    """A channel of an image, with the window in two dimensions."""
    offsets = np.arange(size) - size // 2
    window = np.exp(-(offsets[:, None] ** 2 + offsets**2) / (2.0 * sigma**2))
    window /= window.sum()
    blur = functools.partial(scipy.signal.convolve2d, in2=window, mode="same")
    deviation = np.sqrt(blur(image**2))
    divisor = np.maximum(np.maximum(deviation, deviation.mean()), 1e-4)
    return (image - blur(image)) / divisor


@pytest.mark.parametrize("channels", [None, (0,)])
def test_local_contrast_is_that_of_each_channel(rng, channels, monkeypatch):
    monkeypatch.setattr(pre, "CHUNK", 4)
    x = rng.normal(size=(6, 12, 10, 3)).astype(np.float32)
    x[2] = 0
    expected = x.astype(np.float64)
    for image in expected:
        for channel in channels or range(3):
            image[..., channel] = lcn_oracle(image[..., channel])
    got = pre.local_contrast_normalize(x, channels=channels)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert np.isfinite(got).all()


def test_an_even_window_is_an_error():
    with pytest.raises(ValueError, match="size=6"):
        pre.local_contrast_normalize(np.zeros((1, 8, 8, 1)), size=6)


# Files in their original formats.


def idx(array):
    shape = np.array(array.shape, ">u4").tobytes()
    return bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()


def write_gzip(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, compresslevel=1))


@pytest.fixture(scope="module")
def numbered_mnist(tmp_path_factory):
    """A file of MNIST whose images hold their own number in three pixels."""
    folder = tmp_path_factory.mktemp("mnist")
    numbers = np.arange(70_000, dtype=np.uint32)
    pixels = np.zeros((70_000, 28, 28), np.uint8)
    pixels[:, 0, :3] = numbers.view(np.uint8).reshape(-1, 4)[:, :3]
    labels = (numbers % 10).astype(np.uint8)
    for name, part in (("train", slice(60_000)), ("t10k", slice(60_000, None))):
        stem = folder / "mnist"
        write_gzip(stem / f"{name}-images-idx3-ubyte.gz", idx(pixels[part]))
        write_gzip(stem / f"{name}-labels-idx1-ubyte.gz", idx(labels[part]))
    return folder


def test_mnist_parts_have_the_papers_sizes_and_share_no_image(
    numbered_mnist, monkeypatch
):
    monkeypatch.setattr(images, "CONTENT_SHA256", {})
    data = datasets.mnist(numbered_mnist)
    parts = (data.train, data.validation, data.test)
    assert [len(part.x) for part in parts] == [50_000, 10_000, 10_000]
    # The mean of the training images, from their numbers.
    digits = np.arange(50_000)[:, None] // 256 ** np.arange(3) % 256
    pixels = np.concatenate([part.x for part in parts])[:, :3] * 255
    pixels = np.rint(pixels + digits.mean(axis=0)).astype(int)
    numbers = pixels @ 256 ** np.arange(3)
    np.testing.assert_array_equal(numbers, np.arange(70_000))
    labels = np.concatenate([part.y for part in parts])
    np.testing.assert_array_equal(labels, numbers % 10)
    assert not pixels[:, 3:].any()


@needs("mnist/t10k-labels-idx1-ubyte.gz")
def test_mnist_with_other_content_is_an_error(tmp_path):
    (tmp_path / "mnist").mkdir()
    for name in images.MNIST_SHA256:
        source = Path(DATA) / "mnist" / name
        (tmp_path / "mnist" / name).symlink_to(source.resolve())
    path = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
    labels = formats.read_idx(path, 1)
    path.unlink()
    write_gzip(path, idx(labels))  # Compressed in another way it is the same.
    datasets.mnist(tmp_path)
    write_gzip(path, idx(np.random.default_rng(0).permutation(labels)))
    with pytest.raises(DataError, match="its content is another") as caught:
        datasets.mnist(tmp_path)
    assert str(path) in str(caught.value)


CIFAR_FILES = [f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]


@needs("cifar-10-batches-py/test_batch")
def test_cifar10_parts_have_the_papers_sizes_and_share_no_image():
    data = datasets.cifar10(DATA, raw=True)
    parts = (data.train, data.validation, data.test)
    assert [len(part.x) for part in parts] == [45_000, 5_000, 10_000]
    # One after the other they are the files, one after the other.
    folder = Path(DATA) / "cifar-10-batches-py"
    batches = [
        pickle.loads((folder / name).read_bytes(), encoding="bytes")
        for name in CIFAR_FILES
    ]
    pixels = np.concatenate([batch[b"data"] for batch in batches])
    got = np.concatenate([part.x for part in parts])
    np.testing.assert_array_equal(
        got, pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    )
    labels = np.concatenate([batch[b"labels"] for batch in batches])
    got = np.concatenate([part.y for part in parts])
    np.testing.assert_array_equal(got, labels)


@needs("cifar-10-batches-py/test_batch")
def test_a_batch_of_cifar10_in_the_place_of_another_is_an_error(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in CIFAR_FILES:
        source = Path(DATA) / "cifar-10-batches-py" / "test_batch"
        (folder / name).symlink_to(source.resolve())
    with pytest.raises(DataError, match=r"data_batch_1.*content is another"):
        datasets.cifar10(tmp_path)


def test_cifar10_is_whitened_by_its_50000_training_images(
    tmp_path, monkeypatch, rng
):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in CIFAR_FILES:
        (folder / name).write_bytes(b"read by the next line instead")
    pixels = rng.integers(0, 256, (60_000, 2, 2, 3)).astype(np.uint8)
    pixels[50_000:] //= 4
    small = {"images": pixels, "labels": np.zeros(60_000, np.uint8)}
    monkeypatch.setattr(images, "_read_cifar10", lambda paths: small)
    data = datasets.cifar10(tmp_path)
    x = pixels.reshape(60_000, 12).astype(np.float64)
    x -= x.mean(axis=1, keepdims=True)
    x *= 55 / np.linalg.norm(x, axis=1, keepdims=True)
    mean, whiten = zca_oracle(x[:50_000], 0.1)
    parts = (data.train, data.validation, data.test)
    got = np.concatenate([part.x for part in parts]).reshape(60_000, 12)
    np.testing.assert_allclose(got, (x - mean) @ whiten, atol=1e-3)


@needs("mnist/train-images-idx3-ubyte.gz")
def test_mnist_is_the_real_one():
    data = datasets.mnist(DATA)
    np.testing.assert_array_equal(data.train.y[:6], [5, 0, 4, 1, 9, 2])
    np.testing.assert_array_equal(data.test.y[:5], [7, 2, 1, 0, 4])
    assert abs(data.train.x.mean()) < 1e-6
    # The known mean and deviation of MNIST's pixels are 0.1307 and 0.3081; the
    # mean image takes its share of the deviation.
    total = 0.3081**2 + 0.1307**2
    assert 0 < data.train.x.var() < total
    assert data.files == images.MNIST_SHA256


@needs("cifar-10-batches-py/data_batch_1")
def test_cifar10_batch_is_the_real_one():
    path = Path(DATA) / "cifar-10-batches-py" / "data_batch_1"
    pixels, labels = formats.read_cifar_batch(path)
    assert pixels.shape == (10_000, 32, 32, 3)
    np.testing.assert_array_equal(labels[:5], [6, 9, 9, 4, 1])
    # The first pixel of the first image, a frog, is brown.
    np.testing.assert_array_equal(pixels[0, 0, 0], [59, 62, 63])


def write_mat(path, counts, first_number):
    """A file of SVHN, `counts` images a digit, each with its own number."""
    labels = np.tile(np.arange(1, 11), counts).astype(np.uint8)
    numbers = first_number + np.arange(len(labels), dtype=np.uint32)
    pixels = np.zeros((len(labels), 32, 32, 3), np.uint8)
    pixels[:, :2, 0, 0] = numbers.view(np.uint8).reshape(-1, 4)[:, :2]
    pixels[:, 9, 9] = 255
    path.parent.mkdir(exist_ok=True)
    content = {"X": pixels.transpose(1, 2, 3, 0), "y": labels[:, None]}
    scipy.io.savemat(path, content)


def keep_pixels(monkeypatch):
    for name in ("global_contrast_normalize", "local_contrast_normalize"):
        monkeypatch.setattr(pre, name, lambda x, **_: x.astype(np.float32))


@pytest.mark.parametrize("extra", [False, True])
def test_svhn_parts_share_no_image_and_validation_is_even(
    tmp_path, monkeypatch, extra
):
    keep_pixels(monkeypatch)
    write_mat(tmp_path / "svhn" / "train_32x32.mat", 410, 0)
    write_mat(tmp_path / "svhn" / "test_32x32.mat", 30, 5000)
    if extra:
        write_mat(tmp_path / "svhn" / "extra_32x32.mat", 230, 6000)
    data = datasets.svhn(tmp_path)
    train, validation, test = data.train, data.validation, data.test
    assert len(validation.y) == (6000 if extra else 4000)
    assert len(train.y) == (10 * (10 + 30) if extra else 100)
    assert len(test.y) == 300
    each = 600 if extra else 400
    np.testing.assert_array_equal(np.bincount(validation.y), [each] * 10)
    x = np.concatenate([train.x, validation.x, test.x])
    numbers = x[:, 0, 0, 0] + 256 * x[:, 1, 0, 0]
    count = 4100 + 300 + (2300 if extra else 0)
    assert np.unique(numbers).size == len(numbers) == count
    # The label 10 of a file is the digit 0.
    labels = np.concatenate([train.y, validation.y, test.y])
    np.testing.assert_array_equal(labels, (numbers + 1) % 10)
    names = ["train_32x32.mat", "test_32x32.mat"]
    names += ["extra_32x32.mat"] if extra else []
    departures = [f"another {name} than the official one" for name in names]
    departures += [] if extra else ["without extra_32x32.mat"]
    assert data.departures == tuple(departures)


def test_svhn_normalizes_all_channels_or_the_first_as_the_authors(tmp_path):
    write_mat(tmp_path / "svhn" / "train_32x32.mat", 401, 0)
    write_mat(tmp_path / "svhn" / "test_32x32.mat", 1, 5000)
    contents = scipy.io.loadmat(tmp_path / "svhn" / "test_32x32.mat")
    expected = gcn_oracle(np.moveaxis(contents["X"], -1, 0), 1.0)
    # Twice: what is kept of the one must not be taken for the other.
    for channels in ((0, 1, 2), (0,)) * 2:
        normalized = expected.copy()
        for image in normalized:
            for channel in channels:
                image[..., channel] = lcn_oracle(image[..., channel])
        data = datasets.svhn(tmp_path, first_channel_only=channels == (0,))
        np.testing.assert_allclose(data.test.x, normalized, atol=1e-5)


def test_svhn_does_not_test_on_what_it_trains_on(tmp_path):
    write_mat(tmp_path / "svhn" / "train_32x32.mat", 410, 0)
    path = tmp_path / "svhn" / "test_32x32.mat"
    shutil.copy(tmp_path / "svhn" / "train_32x32.mat", path)
    with pytest.raises(DataError, match=r"train_32x32\.mat.*test_32x32\.mat"):
        datasets.svhn(tmp_path)


def test_with_too_few_images_of_a_digit_svhn_names_the_file(tmp_path):
    write_mat(tmp_path / "svhn" / "train_32x32.mat", 300, 0)
    write_mat(tmp_path / "svhn" / "test_32x32.mat", 1, 0)
    with pytest.raises(DataError, match=r"train_32x32.mat.*300 images"):
        datasets.svhn(tmp_path)


def test_svhn_without_scipy_says_what_to_install(tmp_path, monkeypatch):
    write_mat(tmp_path / "svhn" / "train_32x32.mat", 1, 0)
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(DataError, match=r"keras_lab\[datasets\]"):
        formats.read_mat(tmp_path / "svhn" / "train_32x32.mat")


# Texts.


def test_text_targets_are_the_next_bytes_and_blocks_do_not_overlap(tmp_path):
    rng = np.random.default_rng(1)
    content = rng.integers(40, 90, 4_321, dtype=np.uint8).tobytes()
    (tmp_path / "text").write_bytes(content)
    data = datasets.text_file(tmp_path / "text", 7, 5, percent=(80, 10))
    vocabulary = sorted(set(content))
    assert data.classes == len(vocabulary) == 50
    parts = (data.train, data.validation, data.test)
    blocks = (4_321 - 1) // 35
    counts = [blocks * 80 // 100, blocks * 10 // 100]
    counts.append(blocks - sum(counts))
    assert [part.x.shape for part in parts] == [(5 * n, 7) for n in counts]
    x = np.concatenate([part.x for part in parts]).ravel()
    y = np.concatenate([part.y for part in parts]).ravel()
    used = blocks * 35
    assert bytes(vocabulary[rank] for rank in x) == content[:used]
    assert bytes(vocabulary[rank] for rank in y) == content[1 : used + 1]


@needs("text/warpeace_input.txt")
@pytest.mark.parametrize(
    ("steps", "blocks"), [(100, (260, 32, 33)), (10, (2606, 325, 327))]
)
def test_war_and_peace_has_the_authors_blocks(steps, blocks):
    data = datasets.war_and_peace(DATA, steps)
    assert data.classes == 87
    parts = (data.train, data.validation, data.test)
    assert tuple(len(part.x) // 100 for part in parts) == blocks


def test_a_text_of_the_right_size_and_other_bytes_is_an_error(tmp_path, rng):
    (tmp_path / "text").mkdir()
    content = rng.integers(32, 127, 3_258_246).astype(np.uint8)
    (tmp_path / "text" / "warpeace_input.txt").write_bytes(content)
    with pytest.raises(DataError, match=r"95 different bytes, not 87"):
        datasets.war_and_peace(tmp_path)


@needs("text/warpeace_input.txt")
def test_a_text_of_the_right_bytes_in_another_order_is_said_so(tmp_path):
    (tmp_path / "text").mkdir()
    content = (Path(DATA) / "text" / "warpeace_input.txt").read_bytes()
    (tmp_path / "text" / "warpeace_input.txt").write_bytes(content[::-1])
    assert datasets.war_and_peace(DATA).departures == ()
    (departure,) = datasets.war_and_peace(tmp_path).departures
    assert departure.startswith("another warpeace_input.txt than")


@needs("text/linux_input.txt")
def test_linux_kernel_has_the_authors_blocks():
    data = datasets.linux_kernel(DATA)
    original = (Path(DATA) / "text/linux_input.txt").stat().st_size == 6_206_996
    assert (data.departures == ()) == original
    assert data.classes == 101
    parts = (data.train, data.validation, data.test)
    assert [len(part.x) // 100 for part in parts] == [558, 31, 31]


def test_a_text_that_is_too_short_is_an_error(tmp_path):
    (tmp_path / "short").write_bytes(b"abc" * 100)
    with pytest.raises(DataError, match="300 bytes"):
        datasets.text_file(tmp_path / "short")
    with pytest.raises(ValueError, match="steps=0"):
        datasets.text_file(tmp_path / "short", steps=0)


# Damaged files: each error names the file and what to do.


def write_mnist(folder, contents):
    """Four files, so that none is downloaded; some with a given content."""
    (folder / "mnist").mkdir()
    for name in images.MNIST_SHA256:
        array = np.zeros(60_000 if "train" in name else 10_000, np.uint8)
        if "images" in name:
            array = np.zeros((3, 28, 28), np.uint8)
        content = contents.get(name, gzip.compress(idx(array)))
        (folder / "mnist" / name).write_bytes(content)


def damaged_mnist(kind):
    good = gzip.compress(idx(np.zeros((60_000, 28, 28), np.uint8)), 1)
    few = idx(np.zeros((9, 28, 28), np.uint8))
    return {
        "empty": b"",
        "a web page": b"<html>404</html>",
        "truncated": good[: len(good) // 2],
        "another sum": good[:-8] + b"\0\0\0\0" + good[-4:],
        "labels": gzip.compress(idx(np.zeros(9, np.uint8))),
        "too few": gzip.compress(few),
        "truncated before gzip": gzip.compress(few[:-5]),
        "half a header": gzip.compress(b"\0\0\x08\x03\0\0"),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("empty", "first bytes"),
        ("a web page", "gzip"),
        ("truncated", "end-of-stream"),
        ("another sum", "CRC"),
        ("labels", "3 dimensions"),
        ("too few", "60000"),
        ("truncated before gzip", "7051"),
        ("half a header", "000008030000"),
    ],
)
def test_a_damaged_file_of_mnist_is_named(tmp_path, kind, complaint):
    name = "train-images-idx3-ubyte.gz"
    write_mnist(tmp_path, {name: damaged_mnist(kind)})
    with pytest.raises(DataError, match=complaint) as caught:
        datasets.mnist(tmp_path)
    assert str(tmp_path / "mnist" / name) in str(caught.value)
    assert "Delete it" in str(caught.value)


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("evil",))


BATCHES = {
    "empty": b"",
    "a web page": b"<html>",
    "no labels": pickle.dumps({b"data": np.zeros((2, 3072), np.uint8)}),
    "small images": pickle.dumps(
        {b"data": np.zeros((2, 30), np.uint8), b"labels": [1, 2]}
    ),
    "an unknown label": pickle.dumps(
        {b"data": np.zeros((1, 3072), np.uint8), b"labels": [10]}
    ),
    "code": pickle.dumps({b"data": Evil(), b"labels": []}),
    "a list": pickle.dumps([1, 2]),
}


@pytest.mark.parametrize("kind", BATCHES)
def test_a_damaged_file_of_cifar10_is_named(tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(BATCHES[kind])
    with pytest.raises(DataError, match=r"data_batch_1.*Delete it"):
        formats.read_cifar_batch(tmp_path / "data_batch_1")
    assert not (tmp_path / "evil").exists()


def test_a_pickle_of_python_2_is_read(tmp_path):
    """As the official files are: protocol 2, strings of bytes."""
    pixels = np.arange(2 * 3072).astype(np.uint8).reshape(2, 3072)
    content = pickle.dumps({b"data": pixels, b"labels": [3, 9]}, protocol=2)
    content = content.replace(b"numpy._core", b"numpy.core")
    (tmp_path / "batch").write_bytes(content)
    got, labels = formats.read_cifar_batch(tmp_path / "batch")
    np.testing.assert_array_equal(got[0, 3, 5, 2], pixels[0, 2048 + 3 * 32 + 5])
    np.testing.assert_array_equal(labels, [3, 9])


@pytest.mark.parametrize("how", ["truncated", "foreign", "wrong shape"])
def test_a_damaged_file_of_svhn_is_named(tmp_path, how):
    path = tmp_path / "svhn" / "train_32x32.mat"
    write_mat(path, 2, 0)
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    elif how == "foreign":
        path.write_bytes(b"<html>404</html>")
    else:
        scipy.io.savemat(path, {"X": np.zeros((3, 3)), "y": np.ones((3, 1))})
    with pytest.raises(DataError, match=r"train_32x32.mat.*Delete it"):
        formats.read_mat(path)


def test_a_text_of_another_size_is_named(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "warpeace_input.txt").write_bytes(b"Well, Prince")
    with pytest.raises(DataError, match=r"warpeace_input.txt.*12 bytes"):
        datasets.war_and_peace(tmp_path)


# The data folder and downloads.


def test_the_folder_is_the_argument_then_the_environment_then_keras_home(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KERAS_LAB_DATA", raising=False)
    assert datasets.data_folder() == tmp_path / "home" / "datasets"
    monkeypatch.setenv("KERAS_LAB_DATA", str(tmp_path))
    assert datasets.data_folder() == tmp_path
    (tmp_path / "a").mkdir()
    assert datasets.data_folder(tmp_path / "a") == tmp_path / "a"
    with pytest.raises(DataError, match="no_such_folder"):
        datasets.data_folder(tmp_path / "no_such_folder")


@pytest.fixture
def server(tmp_path):
    """A web server for `tmp_path/web`: gives the folder and the address."""
    web = tmp_path / "web"
    web.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(web))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield web, f"http://127.0.0.1:{httpd.server_port}/"
        httpd.shutdown()
        thread.join()


def left_behind(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def sha256(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def test_a_missing_file_is_downloaded_once(server, tmp_path):
    web, address = server
    (web / "file").write_bytes(b"content")
    source = files.Source("set/file", (address + "file",), sha256(b"content"))
    path = files.locate(source, tmp_path / "data")
    assert path == tmp_path / "data" / "set" / "file"
    assert path.read_bytes() == b"content"
    (web / "file").unlink()
    assert files.locate(source, tmp_path / "data") == path
    assert left_behind(tmp_path / "data") == [path]


def test_a_mirror_is_asked_where_the_official_address_fails(server, tmp_path):
    web, address = server
    (web / "moved").write_bytes(b"<html>We have moved</html>")
    (web / "mirror").write_bytes(b"content")
    names = ("absent", "moved", "mirror")
    source = files.Source(
        "file", tuple(address + name for name in names), sha256(b"content")
    )
    path = files.locate(source, tmp_path / "data")
    assert path.read_bytes() == b"content"


@pytest.mark.parametrize(
    "check", [sha256(b"right"), "md5:" + "0" * 32, "bytes:5"]
)
def test_a_wrong_download_is_not_kept(server, tmp_path, check):
    web, address = server
    (web / "file").write_bytes(b"wrong one")
    source = files.Source("file", (address + "file", address + "no"), check)
    with pytest.raises(DataError, match="could not be downloaded") as caught:
        files.locate(source, tmp_path / "data")
    message = str(caught.value)
    assert address + "file" in message and check in message
    assert "404" in message and "KERAS_LAB_DATA" in message
    assert left_behind(tmp_path / "data") == []


def test_an_optional_file_is_not_downloaded(tmp_path):
    source = files.Source("file", ("http://127.0.0.1:9/file",), "bytes:1")
    assert files.locate(source, tmp_path, optional=True) is None


def make_archive(path, names):
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 3
            archive.addfile(entry, io.BytesIO(b"abc"))
    return sha256(path.read_bytes())


def test_an_archive_is_unpacked_as_a_whole(server, tmp_path):
    web, address = server
    check = make_archive(web / "set.tar.gz", ["set/one", "set/two"])
    source = files.Source("set/two", (address + "set.tar.gz",), check, True)
    folder = tmp_path / "data"
    assert files.locate(source, folder).read_bytes() == b"abc"
    names = {
        path.relative_to(folder).as_posix() for path in left_behind(folder)
    }
    assert names == {"set/one", "set/two"}


def test_of_an_archive_only_what_is_missing_is_taken(server, tmp_path):
    web, address = server
    check = make_archive(web / "set.tar.gz", ["set/one", "set/two"])
    source = files.Source("set/two", (address + "set.tar.gz",), check, True)
    folder = tmp_path / "data" / "set"
    folder.mkdir(parents=True)
    (folder / "one").write_bytes(b"the user's")
    (folder / "notes").write_bytes(b"the user's, too")
    assert files.locate(source, tmp_path / "data").read_bytes() == b"abc"
    assert (folder / "one").read_bytes() == b"the user's"
    assert (folder / "notes").read_bytes() == b"the user's, too"


@pytest.mark.parametrize("names", [["other/one"], ["../escape"]])
def test_an_archive_of_something_else_is_refused(server, tmp_path, names):
    web, address = server
    check = make_archive(web / "set.tar.gz", names)
    source = files.Source("set/one", (address + "set.tar.gz",), check, True)
    with pytest.raises(DataError, match=r"set\.tar\.gz"):
        files.locate(source, tmp_path / "data")
    assert left_behind(tmp_path / "data") == []
    assert not (tmp_path / "escape").exists()


# The cache of preprocessed arrays.


def test_preprocessing_runs_once_for_each_content(tmp_path):
    source = tmp_path / "source"
    calls = []

    def make():
        calls.append(source.read_bytes())
        return {"x": np.arange(len(calls[-1])), "y": np.ones(2)}

    for content in (b"abc", b"abc", b"abcd", b"abc"):
        source.write_bytes(content)
        arrays = cached(tmp_path, "name", [source], make)
        np.testing.assert_array_equal(arrays["x"], np.arange(len(content)))
        np.testing.assert_array_equal(arrays["y"], np.ones(2))
    assert calls == [b"abc", b"abcd"]


@pytest.mark.parametrize(
    "how", ["truncated", "empty", "missing", "float", "no list", "{}", "[1]"]
)
def test_a_damaged_entry_is_made_anew(tmp_path, how, capsys):
    source = tmp_path / "source"
    source.write_bytes(b"abc")

    def get():
        arrays = {"x": np.arange(100), "y": np.ones(2)}
        return cached(tmp_path, "name", [source], lambda: arrays)

    get()
    (path,) = tmp_path.glob("preprocessed/*/x.npy")
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:-7])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "missing":
        path.unlink()
    elif how == "float":
        np.save(path, np.arange(100.0))
    elif how == "no list":
        (path.parent / "contents.json").unlink()
    else:
        (path.parent / "contents.json").write_text(how)
    capsys.readouterr()
    np.testing.assert_array_equal(get()["x"], np.arange(100))
    assert f"damaged: {path.parent}" in capsys.readouterr().err
    np.testing.assert_array_equal(get()["x"], np.arange(100))
    assert capsys.readouterr().err == ""


def test_an_interrupted_preprocessing_leaves_nothing(tmp_path, monkeypatch):
    source = tmp_path / "source"
    source.write_bytes(b"abc")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "save", interrupted)
    with contextlib.suppress(KeyboardInterrupt):
        cached(tmp_path, "name", [source], lambda: {"x": np.ones(2)})
    assert left_behind(tmp_path) == [source]


def test_where_nothing_can_be_kept_preprocessing_still_works(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"abc")
    (tmp_path / "preprocessed").write_text("a file where the folder would be")
    arrays = cached(tmp_path, "name", [source], lambda: {"x": np.ones(2)})
    np.testing.assert_array_equal(arrays["x"], np.ones(2))
