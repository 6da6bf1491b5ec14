"""Samples that a user gives for the inputs of a model, one array per input."""

import numpy as np

__all__ = ["by_input"]


def by_input(argument: str, names: list[str], data, rank: int) -> dict:
    """The arrays of each input by its name.

    Args:
        argument: The name of the user's argument, for errors.
        names: The names of the inputs, in the order of the model.
        data: A dict of arrays by the names of the inputs, a list of arrays in
            their order, or one array if there is one input.
        rank: The number of axes of the first input, batch included.
    """
    if isinstance(data, dict):
        if set(data) != set(names):
            raise ValueError(
                f"`{argument}` must have the keys {sorted(names)}. "
                f"Received: {sorted(map(str, data))}"
            )
        parts = [data[name] for name in names]
    elif len(names) > 1 or _is_list_of_one(data, rank):
        parts = _as_list(argument, names, data)
    else:
        parts = [data]
    return {name: _as_array(argument, part) for name, part in zip(names, parts)}


def _as_list(argument, names, data):
    if isinstance(data, (list, tuple)) and len(data) == len(names):
        return data
    kind = type(data).__name__
    if isinstance(data, (list, tuple)):
        kind += f" of {len(data)}"
    raise ValueError(
        f"The model has {len(names)} inputs. `{argument}` must be a list of "
        f"{len(names)} arrays or a dict with the keys {names}. Received: {kind}"
    )


def _is_list_of_one(data, rank):
    """Whether it is a list with the array of the only input, not its rows."""
    return (
        isinstance(data, (list, tuple))
        and len(data) == 1
        and np.ndim(data[0]) == rank
    )


def _as_array(argument, data):
    try:
        array = np.asarray(data)
    except ValueError:
        array = np.empty(0, object)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"`{argument}` must be an array of numbers for each input. "
            f"Received: {data!r:.60} of type {type(data).__name__}"
        )
    return array
