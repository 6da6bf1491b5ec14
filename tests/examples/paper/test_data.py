"""Data sets: the original formats, and the paper's splits and preprocessing."""

import functools
import gzip
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.linalg
import scipy.signal

from examples.paper import data as datasets
from examples.paper.data import DataError, formats, images
from examples.paper.data import preprocessing as pre

DATA = os.environ.get("KERAS_LAB_DATA")


def needs(path):
    """Skips a test if a real file is absent."""
    return pytest.mark.skipif(
        not DATA or not (Path(DATA) / path).exists(),
        reason=f"{path} is not in KERAS_LAB_DATA ({DATA})",
    )


# Preprocessing, against NumPy and SciPy in float64.


def gcn_oracle(images, scale):
    centred = [image - image.mean() for image in images.astype(np.float64)]
    norms = [np.linalg.norm(image) or 1 for image in centred]
    return scale * np.stack([x / norm for x, norm in zip(centred, norms)])


@pytest.mark.parametrize("scale", [1.0, 55.0])
def test_global_contrast_has_mean_zero_and_norm_scale(rng, scale):
    x = rng.integers(0, 256, (20, 8, 8, 3)).astype(np.uint8)
    x[3] = 7
    got = pre.global_contrast_normalize(x, scale)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, gcn_oracle(x, scale), atol=1e-5 * scale)


def zca_oracle(x, regularization=0.1):
    x = x.reshape(len(x), -1).astype(np.float64)
    covariance = np.cov(x.T, bias=True) + regularization * np.eye(x.shape[1])
    return x.mean(axis=0), np.linalg.inv(scipy.linalg.sqrtm(covariance))


def test_zca_is_the_inverse_root_of_the_covariance(rng, monkeypatch):
    monkeypatch.setattr(pre, "CHUNK", 70)  # So that the sum has several parts.
    x = rng.normal(size=(300, 4, 4, 3)) @ rng.normal(size=(3, 3)) + 2
    mean, whiten = pre.zca_whitening(x.astype(np.float32))
    expected_mean, expected = zca_oracle(x)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-5)
    np.testing.assert_allclose(whiten, expected, atol=1e-4)


def lcn_oracle(image, size=7, sigma=2.0):
    """One channel of an image, with a two-dimensional window."""
    offsets = np.arange(size) - size // 2
    window = np.exp(-(offsets[:, None] ** 2 + offsets**2) / (2.0 * sigma**2))
    window /= window.sum()
    blur = functools.partial(scipy.signal.convolve2d, in2=window, mode="same")
    deviation = np.sqrt(blur(image**2))
    divisor = np.maximum(np.maximum(deviation, deviation.mean()), 1e-4)
    return (image - blur(image)) / divisor


def lcn_images(x, channels):
    x = x.astype(np.float64)
    for image in x:
        for channel in channels:
            image[..., channel] = lcn_oracle(image[..., channel])
    return x


@pytest.mark.parametrize("channels", [None, (0,)])
def test_local_contrast_is_that_of_each_channel(rng, channels, monkeypatch):
    monkeypatch.setattr(pre, "CHUNK", 4)
    x = rng.normal(size=(6, 12, 10, 3)).astype(np.float32)
    x[2] = 0
    got = pre.local_contrast_normalize(x, channels=channels)
    np.testing.assert_allclose(
        got, lcn_images(x, channels or range(3)), atol=1e-5
    )
    with pytest.raises(ValueError, match="size=6"):
        pre.local_contrast_normalize(x, size=6)


# MNIST.


def write_idx(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = np.array(array.shape, ">u4").tobytes()
    content = bytes([0, 0, 8, array.ndim]) + shape + array.tobytes()
    path.write_bytes(gzip.compress(content, compresslevel=1))


@pytest.fixture(scope="module")
def numbered_mnist(tmp_path_factory):
    """Files like MNIST's whose images hold their own number in three pixels."""
    folder = tmp_path_factory.mktemp("mnist")
    numbers = np.arange(70_000, dtype=np.uint32)
    pixels = np.zeros((70_000, 28, 28), np.uint8)
    pixels[:, 0, :3] = numbers.view(np.uint8).reshape(-1, 4)[:, :3]
    labels = (numbers % 10).astype(np.uint8)
    for name, part in (("train", slice(60_000)), ("t10k", slice(60_000, None))):
        stem = folder / "mnist" / name
        write_idx(Path(f"{stem}-images-idx3-ubyte.gz"), pixels[part])
        write_idx(Path(f"{stem}-labels-idx1-ubyte.gz"), labels[part])
    return folder


def test_mnist_parts_have_the_papers_sizes_and_share_no_image(
    numbered_mnist, monkeypatch
):
    monkeypatch.setattr(images, "CONTENT", {})
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


def test_mnist_with_other_content_is_an_error(numbered_mnist):
    with pytest.raises(DataError, match=r"train-images.*its content.*delete"):
        datasets.mnist(numbered_mnist)


@needs("mnist/train-images-idx3-ubyte.gz")
def test_mnist_is_the_real_one():
    data = datasets.mnist(DATA)
    np.testing.assert_array_equal(data.train.y[:6], [5, 0, 4, 1, 9, 2])
    np.testing.assert_array_equal(data.test.y[:5], [7, 2, 1, 0, 4])
    assert np.abs(data.train.x.mean(axis=0)).max() < 1e-5


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>404</html>",
        gzip.compress(bytes(5000))[:-20],
        gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 9])),
        gzip.compress(b"\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\2"),
    ],
    ids=["empty", "a web page", "truncated", "labels", "no pixels"],
)
def test_a_damaged_idx_file_is_named(tmp_path, content):
    (tmp_path / "images.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"images\.gz is not the expected"):
        formats.read_idx(tmp_path / "images.gz", (2, 1, 2))


# CIFAR-10.


CIFAR_FILES = [f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]


@needs("cifar-10-batches-py/test_batch")
def test_cifar10_parts_are_the_files_one_after_the_other():
    data = datasets.cifar10(DATA, raw=True)
    parts = (data.train, data.validation, data.test)
    assert [len(part.x) for part in parts] == [45_000, 5_000, 10_000]
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


def test_cifar10_is_whitened_by_its_50000_training_images(
    tmp_path, monkeypatch, rng
):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in CIFAR_FILES:
        (folder / name).write_bytes(b"")
    pixels = rng.integers(0, 256, (60_000, 2, 2, 3)).astype(np.uint8)
    pixels[50_000:] //= 4
    small = (pixels, np.zeros(60_000, np.uint8))
    monkeypatch.setattr(images, "_read_cifar10", lambda paths: small)
    data = datasets.cifar10(tmp_path)
    x = gcn_oracle(pixels, 55).reshape(60_000, 12)
    mean, whiten = zca_oracle(x[:50_000])
    parts = (data.train, data.validation, data.test)
    got = np.concatenate([part.x for part in parts]).reshape(60_000, 12)
    np.testing.assert_allclose(got, (x - mean) @ whiten, atol=1e-3)


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("evil",))


IMAGES = np.arange(2 * 3072).astype(np.uint8).reshape(2, 3072)


@pytest.mark.parametrize(
    "content",
    [
        b"<html>",
        pickle.dumps({b"data": IMAGES}),
        pickle.dumps({b"data": IMAGES[:, :30], b"labels": [1, 2]}),
        pickle.dumps({b"data": Evil(), b"labels": []}),
    ],
    ids=["a web page", "no labels", "small images", "code"],
)
def test_a_damaged_file_of_cifar10_is_named(tmp_path, content, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data_batch_1").write_bytes(content)
    with pytest.raises(DataError, match=r"data_batch_1 is not the expected"):
        formats.read_cifar_batch(tmp_path / "data_batch_1")
    assert not (tmp_path / "evil").exists()


def test_a_pickle_of_python_2_is_read(tmp_path):
    """The official files have protocol 2 and strings of bytes."""
    content = pickle.dumps({b"data": IMAGES, b"labels": [3, 9]}, protocol=2)
    content = content.replace(b"numpy._core", b"numpy.core")
    (tmp_path / "batch").write_bytes(content)
    got, labels = formats.read_cifar_batch(tmp_path / "batch")
    np.testing.assert_array_equal(got[0, 3, 5, 2], IMAGES[0, 2048 + 3 * 32 + 5])
    np.testing.assert_array_equal(labels, [3, 9])


# SVHN.


def write_mat(folder, name, each, first_number):
    """A file of SVHN, `each` images per digit, each with its own number."""
    labels = np.tile(np.arange(1, 11), each).astype(np.uint8)
    numbers = first_number + np.arange(len(labels), dtype=np.uint32)
    pixels = np.zeros((len(labels), 32, 32, 3), np.uint8)
    pixels[:, :2, 0, 0] = numbers.view(np.uint8).reshape(-1, 4)[:, :2]
    pixels[:, 9, 9] = 255
    path = folder / "svhn" / f"{name}_32x32.mat"
    path.parent.mkdir(exist_ok=True)
    content = {"X": pixels.transpose(1, 2, 3, 0), "y": labels[:, None]}
    scipy.io.savemat(path, content)
    return path


@pytest.mark.parametrize("extra", [False, True])
def test_svhn_parts_share_no_image_and_validation_is_even(
    tmp_path, monkeypatch, extra
):
    for name in ("global_contrast_normalize", "local_contrast_normalize"):
        monkeypatch.setattr(pre, name, lambda x, **_: x.astype(np.float32))
    write_mat(tmp_path, "train", 410, 0)
    write_mat(tmp_path, "test", 30, 5000)
    if extra:
        write_mat(tmp_path, "extra", 230, 6000)
    data = datasets.svhn(tmp_path)
    parts = (data.train, data.validation, data.test)
    counts = [400, 6000, 300] if extra else [100, 4000, 300]
    assert [len(part.y) for part in parts] == counts
    assert np.ptp(np.bincount(data.validation.y)) == 0
    x = np.concatenate([part.x for part in parts])
    numbers = x[:, 0, 0, 0] + 256 * x[:, 1, 0, 0]
    assert np.unique(numbers).size == sum(counts)
    # The label 10 in a file is the digit 0.
    labels = np.concatenate([part.y for part in parts])
    np.testing.assert_array_equal(labels, (numbers + 1) % 10)
    assert ("without extra_32x32.mat" in data.departures) != extra
    assert "another train_32x32.mat than the official one" in data.departures


@pytest.mark.parametrize("first_only", [False, True])
def test_svhn_normalizes_all_channels_or_the_first(tmp_path, first_only):
    write_mat(tmp_path, "train", 400, 0)
    path = write_mat(tmp_path, "test", 1, 5000)
    x = gcn_oracle(np.moveaxis(scipy.io.loadmat(path)["X"], -1, 0), 1.0)
    data = datasets.svhn(tmp_path, first_channel_only=first_only)
    expected = lcn_images(x, (0,) if first_only else range(3))
    np.testing.assert_allclose(data.test.x, expected, atol=1e-5)


def test_svhn_is_identified_by_its_images_not_by_the_date_in_the_file(
    tmp_path,
):
    write_mat(tmp_path, "train", 400, 0)
    path = write_mat(tmp_path, "test", 1, 5000)
    before = datasets.svhn(tmp_path).files
    content = path.read_bytes()
    path.write_bytes(b"MATLAB 5.0, another day".ljust(116) + content[116:])
    assert path.read_bytes() != content
    assert datasets.svhn(tmp_path).files == before
    write_mat(tmp_path, "test", 1, 5001)
    assert datasets.svhn(tmp_path).files != before


def test_svhn_files_that_do_not_fit_are_errors(tmp_path):
    train = write_mat(tmp_path, "train", 300, 0)
    test = write_mat(tmp_path, "test", 1, 5000)
    with pytest.raises(DataError, match=r"train_32x32\.mat.*300 images"):
        datasets.svhn(tmp_path)
    train.write_bytes(test.read_bytes())
    with pytest.raises(DataError, match=r"test_32x32\.mat.*same content"):
        datasets.svhn(tmp_path)
    train.write_bytes(train.read_bytes()[:3000])
    with pytest.raises(DataError, match=r"train_32x32\.mat is not the exp"):
        datasets.svhn(tmp_path)


# Texts.


def test_text_targets_are_the_next_bytes_and_blocks_do_not_overlap(
    tmp_path, rng
):
    content = rng.integers(40, 90, 4_321, dtype=np.uint8).tobytes()
    (tmp_path / "text").write_bytes(content)
    data = datasets.text_file(tmp_path / "text", 7, 5, percent=(80, 10))
    vocabulary = sorted(set(content))
    assert data.vocabulary == bytes(vocabulary)
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


@pytest.mark.parametrize(
    ("name", "classes", "blocks"),
    [
        pytest.param(
            *("war_and_peace", 87, [260, 32, 33]),
            marks=needs("text/warpeace_input.txt"),
        ),
        pytest.param(
            *("linux_kernel", 101, [558, 31, 31]),
            marks=needs("text/linux_input.txt"),
        ),
    ],
)
def test_texts_have_the_authors_blocks(name, classes, blocks):
    data = getattr(datasets, name)(DATA)
    assert data.classes == classes
    parts = (data.train, data.validation, data.test)
    assert [len(part.x) // 100 for part in parts] == blocks


def test_a_text_that_does_not_fit_is_an_error(tmp_path, rng):
    path = tmp_path / "text" / "warpeace_input.txt"
    path.parent.mkdir()
    path.write_bytes(b"Well, Prince")
    with pytest.raises(DataError, match=r"warpeace_input.txt.*12 bytes"):
        datasets.war_and_peace(tmp_path)
    path.write_bytes(rng.integers(32, 127, 3_258_246).astype(np.uint8))
    with pytest.raises(DataError, match=r"95 different bytes, not 87"):
        datasets.war_and_peace(tmp_path)
    with pytest.raises(DataError, match="too short"):
        datasets.text_file(path, batch=10**6)
    with pytest.raises(ValueError, match="steps=0"):
        datasets.text_file(path, steps=0)
