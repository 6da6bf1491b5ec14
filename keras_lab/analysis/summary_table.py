"""The numbers of `keras_lab.summary` as a text table."""

import io
import shutil

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
# The first two columns are text. Narrower than this, they are hard to read.
TEXT_COLUMNS, NARROW = 2, 16
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
    lines = [_line(row) for row in rows]
    if totals["exported_bytes"] is not None:
        kernels = sum(row["exported_bytes"] for row in rows)
        rest = totals["exported_bytes"] - kernels
        lines.append(("scales, biases, graph", *[""] * 5, f"{rest:,}", "", ""))
    lines.append(("total", "", *_cells(totals)))
    table = Table()
    for number, column in enumerate(zip(HEADER, *lines)):
        # Names and shapes may wrap, numbers may not.
        is_text = number < TEXT_COLUMNS
        width = max(len(x) for cell in column for x in cell.split("\n"))
        table.add_column(
            column[0],
            min_width=min(width, NARROW) if is_text else width,
            justify="left" if is_text else "right",
            overflow="fold",
        )
    for line in lines[:-1]:
        table.add_row(*map(Text, line))
    table.add_section()
    table.add_row(*map(Text, lines[-1]))
    return _printed(table)


def _line(row):
    name = f"{row['name']} ({row['type']})"
    if row["calls"] > 1:
        name += f" × {row['calls']}"
    return name, str(row["output_shape"] or UNKNOWN), *_cells(row)


def _printed(table):
    console = Console(file=io.StringIO(), color_system=None)
    terminal = shutil.get_terminal_size((WIDTH, 0)).columns
    console.width = WIDTH
    console.width = max(terminal, console.measure(table).minimum)
    console.print(table)
    return console.file.getvalue().rstrip()


def _cells(row):
    mark = "*" if row["open"] else ""
    if not row.get("complete", True):
        mark += f" + {UNKNOWN}"
    exported = "–"
    if row["exported_bytes"] is not None:
        in_float = "!" if row.get("stored_as_float") else ""
        exported = _number(row["exported_bytes"]) + in_float
    return (
        _number(row["binary_params"]),
        _number(row["float_params"]),
        _alpha(row.get("alpha")),
        _number(row["bytes"]),
        exported,
        _number(row["binary_macs"]) + mark,
        _number(row["float_macs"]) + mark,
    )


def _number(count):
    return UNKNOWN if count is None else f"{count:,}"


def _alpha(alpha):
    if alpha is None:
        return ""
    low, high = min(alpha), max(alpha)
    return f"{low:.4f}" if low == high else f"{low:.4f}–{high:.4f}"


def _compression(factor):
    if factor < 1:
        return (
            f"The exported file is {1 / factor:.1f} times as large as the "
            "weights: in a network this small, the graph takes most of it."
        )
    return f"Compression: {factor:.1f} (bytes now / bytes of the exported file)"
