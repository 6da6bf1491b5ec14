"""MNIST, CIFAR-10 and SVHN with the paper's splits and preprocessing."""

import os

import numpy as np

from examples.paper.data import preprocessing
from examples.paper.data.files import (
    Dataset,
    Part,
    Source,
    content_digest,
    data_folder,
    digests,
    is_official,
    locate,
)
from examples.paper.data.formats import (
    check_content,
    damaged,
    read_cifar_batch,
    read_idx,
    read_mat,
)

MNIST_ADDRESSES = (
    "http://yann.lecun.com/exdb/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)
MNIST_MD5 = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
CIFAR_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
CIFAR_SHA256 = (
    "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
)
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


def mnist(folder: str | os.PathLike | None = None) -> Dataset:
    """MNIST: 50,000 / 10,000 / 10,000 images of 784 pixels.

    Pixels are in [0, 1], minus the mean image of the training part. The
    validation part is the last 10,000 of the 60,000 training images.

    Args:
        folder: The data folder, see `data_folder`.
    """
    folder = data_folder(folder)
    paths = [
        locate(
            Source(
                f"mnist/{name}",
                tuple(address + name for address in MNIST_ADDRESSES),
                f"md5:{md5}",
            ),
            folder,
        )
        for name, md5 in MNIST_MD5.items()
    ]
    images, labels = _read_mnist(*paths[:2], count=60_000)
    test_images, test_labels = _read_mnist(*paths[2:], count=10_000)
    images = np.concatenate([images, test_images])
    labels = np.concatenate([labels, test_labels])
    mean = images[:50_000].mean(axis=0, dtype=np.float64)
    images -= mean.astype(np.float32)
    parts = _split(images, labels, 50_000, 60_000)
    return Dataset(*parts, classes=10, files=digests(paths))


def _split(images, labels, *ends):
    """The training, validation and test part, one after the other."""
    return map(Part, np.split(images, ends), np.split(labels, ends))


def _read_mnist(image_path, label_path, count):
    images = read_idx(image_path, (count, 28, 28))
    labels = read_idx(label_path, (count,))
    for path, array in ((image_path, images), (label_path, labels)):
        check_content(path, CONTENT.get(path.name), array)
    return images.reshape(count, 784).astype(np.float32) / 255, labels


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
    folder = data_folder(folder)
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    sources = [
        Source(
            f"cifar-10-batches-py/{name}",
            (CIFAR_ADDRESS,),
            f"sha256:{CIFAR_SHA256}",
            archive=True,
        )
        for name in names
    ]
    paths = [locate(source, folder) for source in sources]
    images, labels = _read_cifar10(paths)
    if not raw:
        images = _whitened(images)
    parts = _split(images, labels, 45_000, 50_000)
    return Dataset(*parts, classes=10, files=digests(paths))


def _read_cifar10(paths):
    batches = [read_cifar_batch(path) for path in paths]
    for path, (images, labels) in zip(paths, batches):
        check_content(path, CONTENT.get(path.name), images, labels)
    return map(np.concatenate, zip(*batches))


def _whitened(images):
    images = preprocessing.global_contrast_normalize(images, scale=55.0)
    mean, whiten = preprocessing.zca_whitening(images[:50_000])
    flat = images.reshape(len(images), -1)
    for start in range(0, len(flat), preprocessing.CHUNK):
        part = flat[start : start + preprocessing.CHUNK]
        part[:] = (part - mean) @ whiten
    return images


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
    folder = data_folder(folder)
    contents, files, departures = {}, {}, []
    for name, md5 in SVHN_MD5.items():
        source = Source(f"svhn/{name}", (SVHN_ADDRESS + name,), f"md5:{md5}")
        path = locate(source, folder, optional=name.startswith("extra"))
        if path is None:
            departures.append(f"without {name}")
            continue
        if not is_official(source, path):
            departures.append(f"another {name} than the official one")
        contents[path] = read_mat(path)
        digest = content_digest(*contents[path])
        if digest in files.values():
            raise damaged(path, "another file of SVHN has the same content")
        # Not the digest of the file, because MATLAB writes the date into it.
        # Older results have that one, under the plain name.
        files[f"{name}: X, y"] = digest
    parts = {"train": [], "validation": [], "test": []}
    for path, (images, labels) in contents.items():
        if path.name.startswith("test"):
            parts["test"].append((images, labels))
            continue
        chosen = _first_of_each(path, labels)
        parts["validation"].append((images[chosen], labels[chosen]))
        parts["train"].append((images[~chosen], labels[~chosen]))
    channels = (0,) if first_channel_only else None
    return Dataset(
        **{name: _normalized(part, channels) for name, part in parts.items()},
        classes=10,
        files=files,
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
    images = np.concatenate([images for images, _ in pieces])
    # With `extra` the result has 7 GB: it must not be in memory twice.
    normalized = np.empty(images.shape, np.float32)
    for start in range(0, len(images), preprocessing.CHUNK):
        chunk = slice(start, start + preprocessing.CHUNK)
        normalized[chunk] = preprocessing.local_contrast_normalize(
            preprocessing.global_contrast_normalize(images[chunk]),
            channels=channels,
        )
    return Part(normalized, np.concatenate([labels for _, labels in pieces]))
