"""The exporter, for those to whom its failure is no reason to stop."""

import tempfile
from pathlib import Path

__all__ = ["rehearse_export", "try_export"]

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
