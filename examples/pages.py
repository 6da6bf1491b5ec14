"""How numbers become tables on a page that people write."""

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from examples.environment import write_text


def mean_and_spread(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation over runs, if they differ."""
    mean = f"{statistics.fmean(values):.{digits}f}"
    if len(set(values)) == 1:
        return mean
    return f"{mean} ± {statistics.stdev(values):.{digits}f}"


def markdown_table(heads: Sequence[str], lines: Iterable[Sequence]) -> str:
    """Returns a Markdown table, for the heads of its columns and its lines."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def fill(page: str, kind: str, make: Callable[[str], str]) -> str:
    """Returns a page with new text between its markers.

        <!-- kind: name -->
        the result of `make(name)`
        <!-- kind: end -->

    Raises ValueError if a marker has no end.
    """
    marker = f"<!-- {kind}: {{}} -->"
    names = re.findall(marker.format(r"(\w+)"), page)
    if {*names[1::2]} - {"end"} or 2 * names.count("end") != len(names):
        end = marker.format("end")
        raise ValueError(f"Each marker needs an `{end}`. Received: {names}")

    def block(match):
        name = match[1]
        lines = marker.format(name), make(name), marker.format("end")
        return "\n".join(lines)

    start, end = marker.format(r"(\w+)"), marker.format("end")
    return re.sub(f"{start}\n.*?{end}", block, page, flags=re.DOTALL)


def show_table(folder: Path, text: str) -> None:
    """Prints a table, and puts it into the README of its folder, if any."""
    print("\n" + text)
    page = folder / "README.md"
    if page.exists():
        write_text(page, fill(page.read_text(), "table", lambda _: text))
