"""The numbers of `keras_lab.summary` as a text table."""

import io
import shutil

from rich.console import Console
from rich.table import Table
from rich.text import Text

from keras_lab.analysis.summary_columns import COLUMNS, number

__all__ = ["render"]

SHOWN = [column for column in COLUMNS if column.header is not None]
# These are text. Narrower than this, they are hard to read.
TEXTS, NARROW = ("name", "output_shape"), 16
# The largest width if there is no terminal.
WIDTH = 200


def render(title: str, content: dict) -> str:
    """The table as text, in the style of `model.summary()`."""
    totals, rows = content["totals"], content["layers"]
    lines = [f'Model: "{title}"']
    if rows:
        lines.append(_table(rows, totals))
        if totals["exported_bytes"] is not None:
            lines.append(_compression(totals["compression"]))
        if totals["xnor_macs"]:
            lines.append(
                f"{totals['xnor_macs']:,} of the 1-bit MACs are XNORs: their "
                "inputs are signs."
            )
    return "\n".join(lines + content["notes"])


def _table(rows, totals):
    lines = [_cells(row) for row in rows]
    if totals["exported_bytes"] is not None:
        kernels = sum(row["exported_bytes"] for row in rows)
        rest = number(totals["exported_bytes"] - kernels)
        lines.append({"name": "scales, biases, graph", "exported_bytes": rest})
    lines.append({**_cells(totals), "name": "total"})
    table = Table()
    for column in SHOWN:
        cells = [column.header, *(line.get(column.key, "") for line in lines)]
        width = max(len(x) for cell in cells for x in cell.split("\n"))
        # Names and shapes may wrap, numbers may not.
        is_text = column.key in TEXTS
        table.add_column(
            column.header,
            min_width=min(width, NARROW) if is_text else width,
            justify="left" if is_text else "right",
            overflow="fold",
        )
    for line in lines:
        if line is lines[-1]:
            table.add_section()
        table.add_row(*(Text(line.get(column.key, "")) for column in SHOWN))
    return _printed(table)


def _cells(row):
    """The texts of a row, by the keys of the columns."""
    return {
        column.key: column.text(row[column.key], row)
        for column in SHOWN
        if column.key in row
    }


def _printed(table):
    console = Console(file=io.StringIO(), color_system=None)
    terminal = shutil.get_terminal_size((WIDTH, 0)).columns
    console.width = WIDTH
    console.width = max(terminal, console.measure(table).minimum)
    console.print(table)
    return console.file.getvalue().rstrip()


def _compression(factor):
    if factor < 1:
        return (
            f"The exported file is {1 / factor:.1f} times as large as the "
            "weights: in a network this small, the graph takes most of it."
        )
    return f"Compression: {factor:.1f} (bytes now / bytes of the exported file)"
