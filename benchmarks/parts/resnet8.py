"""The file of the fine-tuned ResNet-8 against those of tfmot's clusters.

The ResNet-8 of MLPerf Tiny, all but the first convolution and the dense layer
with one bit per weight or with a few values per kernel. Training changes the
size of a file by a few bytes at most, so the networks are not fine-tuned here.
tfmot's files are compressed with gzip. The pretrained network is in the folder
`KERAS_LAB_DATA`.
"""

import tempfile
from pathlib import Path

from benchmarks.peers import environments
from examples.pages import markdown_table

OPTIONS = {"clusters": [2, 3, 4, 16]}
QUICK = {"clusters": [2]}
FILE = "pretrained/cifar10_resnet8_mlperf_tiny.h5"


def cells(options):
    ours = [{"peer": "keras_lab", "values": 2}]
    return ours + [{"peer": "tfmot", "values": n} for n in options.clusters]


def measure(cell, _, content):
    """Returns a row for each kind of other weights."""
    from examples.paper.data import data_folder

    rows, source = [], str(data_folder() / FILE)
    with (
        tempfile.TemporaryDirectory() as folder,
        environments.start(cell["peer"], content["versions"]) as worker,
    ):
        for weights in ("float32", "int8"):
            size = worker.call(
                "export_resnet8",
                source=source,
                values=cell["values"],
                weights=weights,
                path=str(Path(folder) / f"{weights}.tflz"),
            )
            rows.append({"weights": weights, "file_bytes": size})
    return rows


def table(content):
    lines = []
    for row in content["rows"]:
        name = f"tfmot, {row['values']} clusters, gzip"
        if row["peer"] == "keras_lab":
            name = "**keras_lab**, `.tflz`"
        size = f"{row['file_bytes']:,}"
        lines.append([name, row["weights"], size])
    return markdown_table(["file", "other weights", "bytes"], lines)
