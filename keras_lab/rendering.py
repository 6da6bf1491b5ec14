"""The numbers of `keras_lab.summary` as a table of text."""

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["render"]

HEADER = (
    "Layer (type)",
    "Output shape",
    "1-bit\nparams",
    "32-bit\nparams",
    "α",
    "Bytes\nnow",
    "Bytes\nexported",
    "1-bit\nMACs",
    "32-bit\nMACs",
)
UNKNOWN = "?"
WIDTH = 200  # At most: a table is as wide as it needs to be.
NUMBERS = (
    "binary_params",
    "float_params",
    "bytes",
    "binary_macs",
    "float_macs",
)


def render(title: str, content: dict) -> str:
    """The table as text, in the manner of Keras' own."""
    totals, rows = content["totals"], content["layers"]
    lines = [f'Model: "{title}"']
    if rows:
        lines.append(_table(rows, totals))
        lines += _total_lines(totals)
    return "\n".join(lines + content["notes"])


def _table(rows, totals):
    table = Table()
    for number, title in enumerate(HEADER):
        table.add_column(title, justify="left" if number < 2 else "right")
    for row in rows:
        name = f"{row['name']} ({row['type']})"
        if row["calls"] > 1:
            name += f" × {row['calls']}"
        table.add_row(
            Text(name),
            Text(UNKNOWN if row["output_shape"] is None else _shape(row)),
            *_cells(row),
        )
    if totals["exported_bytes"] is not None:
        kernels = sum(row["exported_bytes"] for row in rows)
        rest = totals["exported_bytes"] - kernels
        table.add_row("scales, biases, graph", *[""] * 5, f"{rest:,}", "", "")
    table.add_section()
    table.add_row("total", "", *_cells({**totals, "alpha": None}))
    console = Console(file=io.StringIO(), width=WIDTH, color_system=None)
    console.print(table)
    return console.file.getvalue().rstrip()


def _shape(row):
    return str(row["output_shape"])


def _cells(row):
    numbers = {
        name: UNKNOWN if row[name] is None else f"{row[name]:,}"
        for name in NUMBERS
    }
    exported = row["exported_bytes"]
    mark = "*" if row.get("open") else ""
    return (
        numbers["binary_params"],
        numbers["float_params"],
        _alpha(row["alpha"]),
        numbers["bytes"],
        "–" if exported is None else f"{exported:,}",
        numbers["binary_macs"] + mark,
        numbers["float_macs"] + mark,
    )


def _alpha(alpha):
    if alpha is None:
        return ""
    low, high = min(alpha), max(alpha)
    return f"{low:.4f}" if low == high else f"{low:.4f}–{high:.4f}"


def _total_lines(totals):
    lines = []
    if totals["exported_bytes"] is not None:
        lines.append(
            f"Compression: {totals['compression']:.1f}, the bytes now over "
            "those of the exported file."
        )
    if totals["xnor_macs"]:
        lines.append(
            f"{totals['xnor_macs']:,} of the 1-bit MACs have sign inputs: "
            "they are XNORs."
        )
    return lines
