"""The containers of the paper's networks, over the least that they can take.

The limit is one bit per binary weight, and for every other parameter 4, 2 or 1
bytes: what `other_weights` says.
"""

import tempfile

from benchmarks import networks
from benchmarks.tables import grid, lines_of, megabytes

BYTES = {"float32": 4, "float16": 2, "int8": 1}
OPTIONS = {"networks": list(networks.NETWORKS), "width": None}
QUICK = {"networks": ["mnist"], "width": 16}


def cells(options):
    return [{"network": name} for name in options.networks]


def measure(cell, options, _):
    """Returns a row per kind of other weights."""
    from benchmarks.peers import keras_lab as ours
    from benchmarks.peers import shared
    from tflite_export import export_tflite

    count = ours.count(cell["network"], options.width)
    model = ours.paper_network(cell["network"], options.width)
    shared.as_if_trained(model)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, size in BYTES.items():
            report = export_tflite(
                model, f"{folder}/m.tflz", other_weights=kind
            )
            limit = count["binary_weights"] / 8
            limit += size * count["float_parameters"]
            row = {
                "other_weights": kind,
                "format": report.format,
                "file_bytes": report.file_bytes,
                "expanded_bytes": report.expanded_bytes,
                "file_over_limit": report.file_bytes / limit,
                "relative_error": report.agreement.relative_error,
            }
            rows.append(count | row)
    return rows


def table(content):
    def text(row):
        return f"{megabytes(row['file_bytes'])} ({row['file_over_limit']:.2f})"

    columns = {kind: ({"other_weights": kind}, text) for kind in BYTES}
    return grid(content, "network", lines_of(content, "network"), columns)
