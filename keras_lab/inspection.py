"""`keras-lab inspect`: what a saved model or an exported file holds."""

import json
import sys
from pathlib import Path

from keras_lab.analysis import plots
from keras_lab.analysis.summary import summary
from keras_lab.files import load_model

__all__ = ["run"]


def run(path: Path, plot: Path | None, exported: bool, as_json: bool) -> int:
    """Prints the table, writes the figure, and returns the exit code."""
    try:
        if path.suffix == ".tflite":
            _inspect_tflite(path, as_json)
        else:
            _inspect_keras(path, plot, exported, as_json)
    except (OSError, ValueError) as error:
        print(f"keras-lab inspect: error: {error}", file=sys.stderr)
        return 1
    return 0


def _inspect_tflite(path, as_json):
    import tflite_export

    report = tflite_export.inspect(path)
    print(report.to_json() if as_json else report)


def _inspect_keras(path, plot, exported, as_json):
    model = load_model(path)
    if exported:
        print(
            "Exporting the model to measure the file; --no-export leaves that "
            "out.",
            file=sys.stderr,
        )
    if as_json:
        content = summary(model, exported=exported, return_dict=True)
        print(json.dumps(content, indent=1))
    else:
        summary(model, exported=exported)
    if plot is not None:
        plots.latent_weights(model, plot)
        print(f"The figure is in {plot}", file=sys.stderr)
