"""The history of a monitor, made up."""

from keras_lab.analysis.history import CSV_COLUMNS


def rows(layers, epochs):
    """A history with numbers that are easy to recognize."""
    values = dict.fromkeys(CSV_COLUMNS)
    return [
        {
            **values,
            "epoch": epoch,
            "step": 10 * (epoch + 1),
            "weight": f"dense_{layer}/kernel",
            "alpha": 0.1 * layer + 0.01 * epoch,
            "flips": 0.5 / (1 + epoch) ** (1 + layer / 10),
            "clipped": 0.02 * epoch,
        }
        for epoch in range(epochs)
        for layer in range(1, layers + 1)
    ]
