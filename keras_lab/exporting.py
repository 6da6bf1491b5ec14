"""The exporter, for those to whom its failure is no reason to stop."""

import tempfile
from pathlib import Path

from keras_lab.binary_weight import binary_weights

__all__ = ["rehearse_export", "stored_as_float", "try_export"]

# What a layer of another origin, a full disk or a wrong option can lead to.
PROBLEMS = (
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def try_export(model, path, format="packed", **options):
    """Exports a model; returns its report, or `None`, and what went wrong."""
    import tflite_export

    try:
        report = tflite_export.export_tflite(model, path, format, **options)
    except PROBLEMS as error:
        return None, error
    return report, None


def rehearse_export(model, format="packed", **options):
    """As `try_export`, of a file that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        return try_export(model, path, format, **options)


def stored_as_float(model, report) -> list:
    """The binary weights of a model that its file holds in 32 bits.

    The converter may fold a batch norm into the kernel after it.
    """
    packed = {row.layer for row in report.layers if row.kind == "binary"}
    weights = binary_weights(model.weights)
    return [weight for weight in weights if weight.latent.path not in packed]
