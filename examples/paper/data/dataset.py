"""What a data set is, once loaded."""

import dataclasses
from typing import NamedTuple

import numpy as np

__all__ = ["Dataset", "Part"]


class Part(NamedTuple):
    """Inputs and what to predict from them, one row an example."""

    x: np.ndarray
    y: np.ndarray


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Three parts that share no example.

    Args:
        train: The part to train on.
        validation: The part to choose an epoch by.
        test: The part to report on.
        classes: The number of classes that `y` is of.
        files: The SHA-256 of each file it was read from, by name.
        vocabulary: Of a text: the bytes that occur, by their class.
        departures: How it is not the data set that the paper used, a sentence
            each.
    """

    train: Part
    validation: Part
    test: Part
    classes: int
    files: dict[str, str]
    vocabulary: bytes | None = None
    departures: tuple[str, ...] = ()
