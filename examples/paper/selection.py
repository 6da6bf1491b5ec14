"""Which epoch of a run is reported: the best one on the validation part."""

from collections.abc import Mapping, Sequence


def select(history: Mapping[str, Sequence], measure: str) -> dict | None:
    """The epoch with the lowest validation measure, the later one of equals.

    Args:
        history: Numbers by epoch; `None` where one was not finite.
        measure: `"error"` or `"loss"`.

    Returns:
        The epoch, from 1, and its validation and test measure; `None` if there
        is no epoch to choose.
    """
    values = history.get(f"validation_{measure}", ())
    tested = history.get(f"test_{measure}", ())
    epochs = [
        epoch
        for epoch, pair in enumerate(zip(values, tested), start=1)
        if None not in pair
    ]
    if not epochs:
        return None
    best = min(epochs, key=lambda epoch: (values[epoch - 1], -epoch))
    return {
        "epoch": best,
        **{
            f"{part}_{measure}": history[f"{part}_{measure}"][best - 1]
            for part in ("validation", "test")
        },
    }
