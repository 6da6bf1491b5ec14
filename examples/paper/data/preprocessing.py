"""Contrast normalization and whitening of images, as pure functions.

As in Pylearn2, the library that the paper's authors used.
"""

from collections.abc import Iterator

import numpy as np

CHUNK = 5000


def chunks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Views of an array, one after the other, to use less memory at a time."""
    for start in range(0, len(array), CHUNK):
        yield array[start : start + CHUNK]


def global_contrast_normalize(
    images: np.ndarray, scale: float = 1.0
) -> np.ndarray:
    """Each image minus its mean, divided by its norm, times `scale`.

    Mean and norm are over all pixels and channels. A constant image becomes
    zero.
    """
    x = images.reshape(len(images), -1).astype(np.float32)
    x -= x.mean(axis=1, keepdims=True)
    norm = np.sqrt(np.einsum("ij,ij->i", x, x)) / np.float32(scale)
    x /= np.where(norm < 1e-8, 1, norm)[:, None]
    return x.reshape(images.shape)


def zca_whitening(
    images: np.ndarray, regularization: float = 0.1
) -> tuple[np.ndarray, np.ndarray]:
    """The mean image and the whitening matrix P of some images.

    P = V diag(λ + regularization)^-½ Vᵀ, where λ and V are the eigenvalues and
    eigenvectors of their covariance; a whitened image is (x − mean) P.
    """
    x = images.reshape(len(images), -1)
    mean = x.mean(axis=0, dtype=np.float64).astype(np.float32)
    # Products in float32 for speed, their sum in float64 for accuracy.
    covariance = np.zeros((x.shape[1], x.shape[1]))
    for chunk in chunks(x):
        centred = chunk - mean
        covariance += centred.T @ centred
    covariance /= len(x)
    covariance[np.diag_indices_from(covariance)] += regularization
    eigenvalues, vectors = np.linalg.eigh(covariance)
    whiten = (vectors / np.sqrt(eigenvalues)) @ vectors.T
    return mean, whiten.astype(np.float32)


def local_contrast_normalize(
    images: np.ndarray, channels: tuple[int, ...] = (0, 1, 2)
) -> np.ndarray:
    """Each pixel minus the mean of its neighbourhood, divided by its size.

    With a Gaussian window G of 7x7 pixels and σ = 2 that sums to one, and zeros
    outside the image:

        (x − G∗x) / max(s, mean of s over the image, 1e-4),   s = √(G∗x²)

    Args:
        images: Shape (n, height, width, channels).
        channels: The channels to normalize, each on its own. Pylearn2 has
            `(0,)`: by mistake it returns inside the loop over the channels.
    """
    offsets = np.arange(-3, 4)
    window = np.exp(-(offsets**2) / (2 * 2.0**2))
    window = (window / window.sum()).astype(np.float32)
    result = np.array(images, dtype=np.float32)
    for channel in channels:
        x = result[..., channel]
        deviation = np.sqrt(_blur(x * x, window))
        floor = deviation.mean(axis=(1, 2), keepdims=True)
        divisor = np.maximum(np.maximum(deviation, floor), 1e-4)
        result[..., channel] = (x - _blur(x, window)) / divisor
    return result


def _blur(x, window):
    """x ∗ G for a separable G: along the rows, then along the columns."""
    for axis in (1, 2):
        pad = [(0, 0)] * 3
        pad[axis] = (len(window) // 2,) * 2
        padded = np.moveaxis(np.pad(x, pad), axis, 0)
        length = x.shape[axis]
        blurred = sum(
            weight * padded[offset : offset + length]
            for offset, weight in enumerate(window)
        )
        x = np.moveaxis(blurred, 0, axis)
    return x
