"""Data sets: the original formats, and the paper's splits and preprocessing."""

import functools
import gzip
import itertools
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.linalg
import scipy.signal

from examples.paper import data as datasets
from examples.paper.data import DataError, data_folder, files, images
from examples.paper.data import preprocessing as pre

DATA = os.environ.get("KERAS_LAB_DATA")


def needs(path):
    """Skips a test if a real file is absent."""
    return pytest.mark.skipif(
        not DATA or not (Path(DATA) / path).exists(),
        reason=f"{path} is not in KERAS_LAB_DATA ({DATA})",
    )


def joined(data):
    """The inputs and labels of all parts, one after the other."""
    return map(np.concatenate, zip(data.train, data.validation, data.test))


def lengths(data):
    return [len(part.y) for part in (data.train, data.validation, data.test)]


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


def lcn_oracle(x, channels):
    """With a two-dimensional window, one channel of an image at a time."""
    offsets = np.arange(7) - 3
    window = np.exp(-(offsets[:, None] ** 2 + offsets**2) / (2.0 * 2.0**2))
    window /= window.sum()
    blur = functools.partial(scipy.signal.convolve2d, in2=window, mode="same")
    x = x.astype(np.float64)
    for number, channel in itertools.product(range(len(x)), channels):
        image = x[number, ..., channel]
        deviation = np.sqrt(blur(image**2))
        divisor = np.maximum(np.maximum(deviation, deviation.mean()), 1e-4)
        image[:] = (image - blur(image)) / divisor
    return x


@pytest.mark.parametrize("channels", [(0, 1, 2), (0,)])
def test_local_contrast_is_that_of_each_channel(rng, channels):
    x = rng.normal(size=(6, 12, 10, 3)).astype(np.float32)
    x[2] = 0
    got = pre.local_contrast_normalize(x, channels)
    np.testing.assert_allclose(got, lcn_oracle(x, channels), atol=1e-5)


# The data folder, and downloads into it from a local web server.


def test_the_folder_is_the_argument_then_the_environment_then_keras_home(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KERAS_LAB_DATA", raising=False)
    assert data_folder() == tmp_path / "home" / "datasets"
    monkeypatch.setenv("KERAS_LAB_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    with pytest.raises(DataError, match="no_such_folder"):
        data_folder(tmp_path / "no_such_folder")


def test_a_missing_file_is_downloaded_once(tmp_path):
    web = tmp_path / "web"
    web.mkdir()
    with pytest.raises(DataError, match=r"(?s)no/file.*KERAS_LAB_DATA"):
        files.locate(tmp_path, "set/file", f"{web.as_uri()}/no/file")
    (web / "file").write_bytes(b"content")
    with tarfile.open(web / "set.tar.gz", "w:gz") as archive:
        archive.add(web / "file", "set/member")
    for name, source in (("file", "file"), ("member", "set.tar.gz")):
        for _ in range(2):
            address = f"{web.as_uri()}/{source}"
            path = files.locate(tmp_path, f"set/{name}", address)
            assert path.read_bytes() == b"content"
            (web / source).unlink(missing_ok=True)
    names = [path.name for path in path.parent.iterdir()]
    assert sorted(names) == ["file", "member"]


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("evil",))


DAMAGED = {
    "idx": (
        functools.partial(files.read_idx, shape=(2, 1, 2)),
        gzip.compress(b"\0\0\x08\1\0\0\0\x09"),
    ),
    "cifar": (
        files.read_cifar_batch,
        pickle.dumps({b"data": Evil(), b"labels": []}),
    ),
    "mat": (files.read_mat, b"MATLAB 5.0"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_file_is_named_and_cannot_run_code(
    tmp_path, monkeypatch, kind
):
    monkeypatch.chdir(tmp_path)
    read, content = DAMAGED[kind]
    (tmp_path / "part").write_bytes(content)
    with pytest.raises(DataError, match=r"part is not the expected file"):
        read(tmp_path / "part")
    assert not (tmp_path / "evil").exists()


# MNIST.


def test_mnist_parts_have_the_papers_sizes_and_share_no_image(
    tmp_path, monkeypatch
):
    """Each image holds its own number in three pixels."""
    (tmp_path / "mnist").mkdir()
    numbers = np.arange(70_000, dtype=np.uint32)
    pixels = np.zeros((70_000, 28, 28), np.uint8)
    pixels[:, 0, :3] = numbers.view(np.uint8).reshape(-1, 4)[:, :3]
    for name, shape in images.MNIST_FILES.items():
        array = pixels if "images" in name else (numbers % 10).astype(np.uint8)
        array = array[:60_000] if "train" in name else array[60_000:]
        header = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()
        content = gzip.compress(header + array.tobytes(), compresslevel=1)
        (tmp_path / "mnist" / name).write_bytes(content)
    with pytest.raises(DataError, match=r"train-images.*its content.*delete"):
        datasets.mnist(tmp_path)
    monkeypatch.setattr(images, "CONTENT", {})
    data = datasets.mnist(tmp_path)
    assert lengths(data) == [50_000, 10_000, 10_000]
    # The mean of the training images, from their numbers.
    mean = pixels[:50_000, 0, :3].mean(axis=0)
    got, labels = joined(data)
    np.testing.assert_allclose(
        255 * got[:, :3] + mean, pixels[:, 0, :3], atol=0.01
    )
    np.testing.assert_array_equal(labels, numbers % 10)
    raw, _ = joined(datasets.mnist(tmp_path, raw=True))
    np.testing.assert_allclose(255 * raw[:, :3], pixels[:, 0, :3], atol=0.01)


# CIFAR-10.


@pytest.mark.slow
@needs("cifar-10-batches-py/test_batch")
def test_cifar10_parts_are_the_files_one_after_the_other():
    data = datasets.cifar10(DATA, raw=True)
    assert lengths(data) == [45_000, 5_000, 10_000]
    folder = Path(DATA) / "cifar-10-batches-py"
    got, labels = joined(data)
    for number, name in enumerate(images.CIFAR_FILES):
        batch = pickle.loads((folder / name).read_bytes(), encoding="bytes")
        here = slice(10_000 * number, 10_000 * (number + 1))
        pixels = batch[b"data"].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        np.testing.assert_array_equal(got[here], pixels)
        np.testing.assert_array_equal(labels[here], batch[b"labels"])


def test_cifar10_is_whitened_by_its_50000_training_images(
    tmp_path, monkeypatch, rng
):
    (tmp_path / "cifar-10-batches-py").mkdir()
    for name in images.CIFAR_FILES:
        (tmp_path / "cifar-10-batches-py" / name).write_bytes(b"")
    pixels = rng.integers(0, 256, (60_000, 2, 2, 3)).astype(np.uint8)
    pixels[50_000:] //= 4
    small = (pixels, np.zeros(60_000, np.uint8))
    monkeypatch.setattr(images, "_read_cifar10", lambda paths: small)
    got, _ = joined(datasets.cifar10(tmp_path))
    x = gcn_oracle(pixels, 55).reshape(60_000, 12)
    mean, whiten = zca_oracle(x[:50_000])
    expected = ((x - mean) @ whiten).reshape(got.shape)
    np.testing.assert_allclose(got, expected, atol=1e-3)


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


@pytest.fixture
def plain(monkeypatch):
    """Leaves out the normalization."""
    for name in ("global_contrast_normalize", "local_contrast_normalize"):
        monkeypatch.setattr(pre, name, lambda x, *_: x.astype(np.float32))


@pytest.mark.parametrize("extra", [False, True])
def test_svhn_parts_share_no_image_and_validation_is_even(
    tmp_path, plain, extra
):
    write_mat(tmp_path, "train", 410, 0)
    write_mat(tmp_path, "test", 30, 5000)
    if extra:
        write_mat(tmp_path, "extra", 230, 6000)
    data = datasets.svhn(tmp_path)
    assert lengths(data) == ([400, 6000, 300] if extra else [100, 4000, 300])
    assert np.ptp(np.bincount(data.validation.y)) == 0
    x, labels = joined(data)
    numbers = x[:, 0, 0, 0] + 256 * x[:, 1, 0, 0]
    assert np.unique(numbers).size == len(labels)
    # The label 10 in a file is the digit 0.
    np.testing.assert_array_equal(labels, (numbers + 1) % 10)
    assert ("no extra_32x32.mat" in data.departures) != extra
    assert "not the official train_32x32.mat" in data.departures


@pytest.mark.parametrize("first_only", [False, True])
def test_svhn_normalizes_all_channels_or_the_first(
    tmp_path, monkeypatch, first_only
):
    monkeypatch.setattr(pre, "CHUNK", 7)
    monkeypatch.setattr(images, "_first_of_each", lambda _, labels: labels < 5)
    write_mat(tmp_path, "train", 2, 0)
    path = write_mat(tmp_path, "test", 1, 5000)
    x = gcn_oracle(np.moveaxis(scipy.io.loadmat(path)["X"], -1, 0), 1.0)
    data = datasets.svhn(tmp_path, first_channel_only=first_only)
    expected = lcn_oracle(x, (0,) if first_only else (0, 1, 2))
    np.testing.assert_allclose(data.test.x, expected, atol=1e-5)


def test_svhn_is_identified_by_its_images_not_by_the_date_in_the_file(
    tmp_path, plain
):
    write_mat(tmp_path, "train", 400, 0)
    path = write_mat(tmp_path, "test", 1, 5000)
    before = datasets.svhn(tmp_path).files
    content = path.read_bytes()
    path.write_bytes(b"MATLAB 5.0, another day".ljust(116) + content[116:])
    assert datasets.svhn(tmp_path).files == before
    write_mat(tmp_path, "test", 1, 5001)
    assert datasets.svhn(tmp_path).files != before


def test_too_few_images_of_a_digit_are_an_error(tmp_path):
    write_mat(tmp_path, "train", 300, 0)
    with pytest.raises(DataError, match=r"train_32x32\.mat.*300 images"):
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
    blocks = (4_321 - 1) // 35
    counts = [blocks * 80 // 100, blocks * 10 // 100]
    counts.append(blocks - sum(counts))
    assert lengths(data) == [5 * count for count in counts]
    x, y = joined(data)
    used = blocks * 35
    assert bytes(vocabulary[rank] for rank in x.ravel()) == content[:used]
    assert (
        bytes(vocabulary[rank] for rank in y.ravel()) == content[1 : used + 1]
    )


@needs("text/warpeace_input.txt")
def test_war_and_peace_has_the_authors_blocks():
    blocks = [260, 32, 33]
    assert lengths(datasets.war_and_peace(DATA)) == [100 * n for n in blocks]


def test_a_text_that_does_not_fit_is_an_error(tmp_path):
    path = tmp_path / "text" / "warpeace_input.txt"
    path.parent.mkdir()
    path.write_bytes(b"Well, Prince")
    with pytest.raises(DataError, match=r"warpeace_input.txt.*12 bytes"):
        datasets.war_and_peace(tmp_path)
    with pytest.raises(DataError, match="too short"):
        datasets.text_file(path)
    path.write_bytes(bytes(3_258_246))
    with pytest.raises(DataError, match="1 of them distinct, not"):
        datasets.war_and_peace(tmp_path)
