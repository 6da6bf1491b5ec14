"""How far the outputs of two models are from each other."""

import dataclasses

import numpy as np

# A smaller difference counts as none. A weight that is zero is stored with a
# positive scale, because a scale must be positive.
NEGLIGIBLE = 1e-20


@dataclasses.dataclass(frozen=True)
class Agreement:
    """How far the outputs of an exported model are from those of Keras.

    If the model has several outputs, the errors are those of the worst one.

    Attributes:
        runtime: The interpreter that was used.
        samples: How many samples were compared.
        data: `"given"` or `"random"`.
        max_error: The largest difference, relative to the largest output.
        mean_error: The mean difference, relative to the largest output.
        relative_error: ‖y' − y‖ / ‖y‖.
        snr_db: The signal-to-noise ratio in decibels, infinite if equal.
        equal_predictions: The share of samples with the same largest output.
            `None` unless the model has one output with several classes.
        computed_in: `"float32"` if the model has another precision, and was
            compared with what its layers compute in float32. Else empty.
        ties: The share of values before a sign that are zero up to rounding,
            so that their sign is undecided. Counted only if the outputs differ.
        error_with_ties: If Keras was given the file's signs at the ties,
            ‖y' − y‖ / ‖y‖ with its own signs. Else 0.
    """

    runtime: str
    samples: int
    data: str
    max_error: float
    mean_error: float
    relative_error: float
    snr_db: float
    equal_predictions: float | None
    computed_in: str = ""
    ties: float = 0.0
    error_with_ties: float = 0.0


@dataclasses.dataclass(frozen=True)
class InFloat:
    """Layers that compute in float32 because int8 was not precise enough.

    Attributes:
        paths: The paths of their kernels, the one that loses most first.
        int8_error: ‖y' − y‖ / ‖y‖ of the file with all of them in int8.
        more_bytes: How much larger the file is than that one.
        time_ratio: How long an inference takes, as a multiple of that file's.
            The median of a few runs on this machine, one sample at a time.
    """

    paths: tuple
    int8_error: float
    more_bytes: int
    time_ratio: float


def compare(
    expected: dict, actual: dict, runtime: str, data: str, computed_in: str = ""
) -> Agreement:
    """Compares the outputs of Keras with those of the file, by name."""
    pairs = [
        (np.asarray(y, np.float64), np.asarray(actual[name], np.float64))
        for name, y in expected.items()
    ]
    largest = max(np.abs(y).max(initial=0) for y, _ in pairs) or 1.0
    max_error, mean_error, relative = np.max(
        [_errors(y, z, largest) for y, z in pairs], axis=0
    )
    equal = None
    if len(pairs) == 1 and pairs[0][0].ndim == 2 and pairs[0][0].shape[1] > 1:
        y, z = pairs[0]
        equal = float(np.mean(y.argmax(axis=1) == z.argmax(axis=1)))
    return Agreement(
        runtime=runtime,
        samples=len(pairs[0][0]),
        data=data,
        max_error=float(max_error),
        mean_error=float(mean_error),
        relative_error=float(relative),
        snr_db=float(-20 * np.log10(relative)) if relative else float("inf"),
        equal_predictions=equal,
        computed_in=computed_in,
    )


def _errors(y, z, largest):
    """The largest, mean and relative error of an output z that should be y.

    `largest` is the largest number of all outputs. An output that should be
    zero is measured by it.
    """
    errors = np.abs(z - y)
    errors[errors < NEGLIGIBLE] = 0
    scale = np.abs(y).max(initial=0) or largest
    signal = np.linalg.norm(y) or largest
    noise = np.linalg.norm(errors)
    return errors.max(initial=0) / scale, errors.mean() / scale, noise / signal
