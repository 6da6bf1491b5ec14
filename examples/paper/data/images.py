"""MNIST, CIFAR-10 and SVHN with the paper's splits and preprocessing."""

import os

import numpy as np

from examples.paper.data import files, preprocessing
from examples.paper.data.files import Dataset, Part, damaged

MNIST_ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST_FILES = {
    "train-images-idx3-ubyte.gz": (60_000, 28, 28),
    "train-labels-idx1-ubyte.gz": (60_000,),
    "t10k-images-idx3-ubyte.gz": (10_000, 28, 28),
    "t10k-labels-idx1-ubyte.gz": (10_000,),
}
CIFAR_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
CIFAR_FILES = (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")
SVHN_ADDRESS = "http://ufldl.stanford.edu/housenumbers/"
SVHN_MD5 = {
    "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
    "extra_32x32.mat": "a93ce644f1a588dc4d68dda5feec44a7",
}
# Half of the `content_digest` of each file: a file may be compressed or pickled
# differently and still hold the same images.
CONTENT = {
    "train-images-idx3-ubyte.gz": "741c988805d008ac6e4c904b69001ba1",
    "train-labels-idx1-ubyte.gz": "1feba77c54802fa5339a11837ea4b286",
    "t10k-images-idx3-ubyte.gz": "6d87418db22cc8025d05968bec9bd5c3",
    "t10k-labels-idx1-ubyte.gz": "ddeff807876a9661a1110d45c266c862",
    "data_batch_1": "8350d89ba6404c270d263d84bf037e74",
    "data_batch_2": "28d2d506ff2e052a3c902ac74931514d",
    "data_batch_3": "e56532de152c7a77fc2a722499682f26",
    "data_batch_4": "bb996a8ffff861dd5cca88c397fdfb88",
    "data_batch_5": "efb6334c7c1f88ac69032959408d9eec",
    "test_batch": "8193b3fbce55bec361cd1b8fd4880cb1",
}


def mnist(
    folder: str | os.PathLike | None = None, raw: bool = False
) -> Dataset:
    """MNIST: 50,000 / 10,000 / 10,000 images of 784 pixels.

    Pixels are in [0, 1], minus the mean image of the training part. The
    validation part is the last 10,000 of the 60,000 training images.

    Args:
        folder: The data folder, see `data_folder`.
        raw: Whether not to subtract the mean image.
    """
    folder = files.data_folder(folder)
    paths, arrays = [], []
    for name, shape in MNIST_FILES.items():
        path = files.locate(folder, f"mnist/{name}", MNIST_ADDRESS + name)
        array = files.read_idx(path, shape)
        _check_content(path, array)
        paths.append(path)
        arrays.append(array)
    images = np.concatenate(arrays[0::2]).reshape(70_000, 784)
    images = images.astype(np.float32) / 255
    if not raw:
        mean = images[:50_000].mean(axis=0, dtype=np.float64)
        images -= mean.astype(np.float32)
    parts = _split(images, np.concatenate(arrays[1::2]), 50_000, 60_000)
    return Dataset(*parts, classes=10, files=_digests(paths))


def _check_content(path, *arrays):
    """Raises DataError if a well-formed file holds unexpected values."""
    expected = CONTENT.get(path.name, "")
    found = files.content_digest(*arrays)
    if not found.startswith(expected):
        raise damaged(
            path, f"its content has the SHA-256 {found}, not {expected}…"
        )


def _digests(paths):
    return {path.name: files.file_digest(path) for path in paths}


def _split(images, labels, *ends):
    """The training, validation and test part, one after the other."""
    return map(Part, np.split(images, ends), np.split(labels, ends))


def cifar10(
    folder: str | os.PathLike | None = None, raw: bool = False
) -> Dataset:
    """CIFAR-10: 45,000 / 5,000 / 10,000 images of 32x32x3, whitened.

    Global contrast normalization with scale 55, then ZCA whitening fitted on
    all 50,000 training images, as in the authors' code: they include the 5,000
    of the validation part, the last ones. It takes about a minute.

    Args:
        folder: The data folder, see `data_folder`.
        raw: Whether to return the bytes as they are, 0 to 255.
    """
    folder = files.data_folder(folder)
    paths = [
        files.locate(folder, f"cifar-10-batches-py/{name}", CIFAR_ADDRESS)
        for name in CIFAR_FILES
    ]
    images, labels = _read_cifar10(paths)
    if not raw:
        images = preprocessing.global_contrast_normalize(images, scale=55.0)
        mean, whiten = preprocessing.zca_whitening(images[:50_000])
        flat = images.reshape(len(images), -1)
        for part in preprocessing.chunks(flat):
            part[:] = (part - mean) @ whiten
    parts = _split(images, labels, 45_000, 50_000)
    return Dataset(*parts, classes=10, files=_digests(paths))


def _read_cifar10(paths):
    batches = [files.read_cifar_batch(path) for path in paths]
    for path, batch in zip(paths, batches):
        _check_content(path, *batch)
    return map(np.concatenate, zip(*batches))


def svhn(
    folder: str | os.PathLike | None = None, first_channel_only: bool = False
) -> Dataset:
    """SVHN, 32x32x3, with global and local contrast normalization.

    The validation part is the first 400 images of each class of `train` and, if
    that file is present, the first 200 of each class of `extra`; the training
    part is the rest of both. With all three files this is the paper's 598,388 /
    6,000 / 26,032. `extra` is used if it is present, but it is never
    downloaded: it has 1.3 GB.

    Args:
        folder: The data folder, see `data_folder`.
        first_channel_only: Whether the local normalization leaves green and
            blue alone, as a bug in the authors' library did.
    """
    folder = files.data_folder(folder)
    found, departures = {}, []
    parts = {"train": [], "validation": [], "test": []}
    for name, md5 in SVHN_MD5.items():
        if name.startswith("extra") and not (folder / "svhn" / name).is_file():
            departures.append(f"no {name}")
            continue
        path = files.locate(folder, f"svhn/{name}", SVHN_ADDRESS + name, md5)
        if files.file_digest(path, "md5") != md5:
            departures.append(f"not the official {name}")
        images, labels = files.read_mat(path)
        # Not the digest of the file, which has the date in it. Older results
        # have that one, under the plain name.
        found[f"{name}: X, y"] = files.content_digest(images, labels)
        if name.startswith("test"):
            parts["test"].append((images, labels))
            continue
        chosen = _first_of_each(path, labels)
        parts["validation"].append((images[chosen], labels[chosen]))
        parts["train"].append((images[~chosen], labels[~chosen]))
    channels = (0,) if first_channel_only else (0, 1, 2)
    return Dataset(
        **{name: _normalized(part, channels) for name, part in parts.items()},
        classes=10,
        files=found,
        departures=tuple(departures),
    )


def _first_of_each(path, labels):
    """A mask of the images of the validation part."""
    each = 200 if path.name.startswith("extra") else 400
    chosen = np.zeros(len(labels), bool)
    for digit in range(10):
        indices = np.flatnonzero(labels == digit)[:each]
        if len(indices) < each:
            raise damaged(
                path,
                f"it holds {len(indices)} images of the digit {digit}, and "
                f"the validation part takes {each}",
            )
        chosen[indices] = True
    return chosen


def _normalized(pieces, channels):
    images, labels = map(np.concatenate, zip(*pieces))
    # With `extra` the result has 7 GB: it must not be in memory twice.
    normalized = np.empty(images.shape, np.float32)
    chunks = preprocessing.chunks
    for image, result in zip(chunks(images), chunks(normalized)):
        result[:] = preprocessing.local_contrast_normalize(
            preprocessing.global_contrast_normalize(image), channels
        )
    return Part(normalized, labels)
