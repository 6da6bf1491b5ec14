"""The table runtime × format, from the JSON file alone.

A document says where it goes with two comments:

    <!-- runtimes -->
    <!-- runtimes: end -->
"""

import re
from pathlib import Path

from benchmarks import harness, tables
from benchmarks.runtimes.networks import FORMATS

DOCUMENT = harness.RESULTS.parents[1] / "docs" / "runtimes.md"
MARKERS = "<!-- runtimes -->\n{}<!-- runtimes: end -->"
# The largest ‖y' − y‖ / ‖y‖ that counts as right, as in `export_tflite`.
TOLERANCES = {"float": 1e-3, "packed_float": 1e-3, "packed": 0.1, "fast": 0.1}
# What stands for a message of a runtime, in three words.
REASONS = (
    (r"builtin opcode '(\w+)' version '(\d+)'", "no {} {}"),
    (r"tensor type \w+\[-1,", "open batch refused"),
    (r"signal (\w+)", "ends by {}"),
    (r"\((\w+)\) failed to (prepare|invoke)", "{} cannot {}"),
)
WRONG = "wrong"


def outcome(row) -> str | None:
    """Returns `None` if a file works, `WRONG`, or the error in three words."""
    if "error" in row:
        tolerance = TOLERANCES[FORMATS[row["format"]]["format"]]
        right = row["finite"] and row["error"] <= tolerance
        return None if right else WRONG
    for pattern, words in REASONS:
        if found := re.search(pattern, row["detail"]):
            return words.format(*found.groups())
    return row["fails"]


def cell(rows) -> str:
    """Returns what a table says about a format in a runtime."""
    if not rows:
        return "not run"
    text = _sentence([row for row in rows if row["xnnpack"]])
    without = _sentence([row for row in rows if not row["xnnpack"]])
    if without not in ("", text):
        text += f"; without XNNPACK {without}"
    return text


def _sentence(rows):
    problems = {}
    for row in rows:
        if problem := outcome(row):
            problems.setdefault(problem, []).append(row["network"])
    if rows and not problems:
        return "works"
    if WRONG in problems:
        names = ", ".join(problems.pop(WRONG))
        problems = {f"**{WRONG}**: {names}": [], **problems}
    right = sum(outcome(row) is None for row in rows)
    parts = [f"{right} of {len(rows)}"] if right else []
    return "; ".join([*parts, *problems])


def table(content) -> str:
    """Returns the table as Markdown."""
    names = dict.fromkeys(row["runtime"] for row in content["rows"])
    lines = []
    for name in names:
        found = [row for row in content["rows"] if row["runtime"] == name]
        if "cannot" in found[0]:
            dashes = ["–"] * (len(FORMATS) - 1)
            lines.append([name, f"not run: {found[0]['cannot']}", *dashes])
            continue
        cells = [
            cell([row for row in found if row["format"] == format])
            for format in FORMATS
        ]
        lines.append([name, *cells])
    return tables.table(["runtime", *map(title, FORMATS)], lines)


def title(name) -> str:
    """Returns the title of a column: the format, and its other options."""
    first, *others = FORMATS[name].items()
    texts = [f'`"{first[1]}"`', *(f'`{k}="{v}"`' for k, v in others)]
    return ", ".join(texts)


def insert(text: str, content) -> str:
    """Returns a document with what is between its markers made again."""
    made = f"{table(content)}\n{tables.machine(content)}"
    made = MARKERS.format(made).replace("\\", r"\\")
    return re.sub(MARKERS.format(".*?"), made, text, flags=re.S)


def write(results: Path) -> list[Path]:
    """Writes the table of a folder of results, and returns the file.

    The published results are in the documentation, others in a page of theirs.
    """
    content = harness.read_result(results / "runtimes.json")
    page = DOCUMENT if results == harness.RESULTS else results / "runtimes.md"
    if not page.exists():
        page.write_text("# Runtimes\n\n" + MARKERS.format("") + "\n")
    harness.write_text(page, insert(page.read_text(), content))
    return [page]
