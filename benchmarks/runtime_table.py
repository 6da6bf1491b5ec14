"""The table runtime × format, from the JSON file of `runtime_support.py`."""

import re

from benchmarks import tables
from benchmarks.runtimes.environments import RUNTIMES
from benchmarks.runtimes.networks import FORMATS

# The largest ‖y' − y‖ / ‖y‖ that counts as right, as in `export_tflite`.
TOLERANCES = {"float": 1e-3, "packed_float": 1e-3, "packed": 0.1, "fast": 0.1}
# The messages of runtimes, in three words.
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
        tolerance = TOLERANCES[row["format"].split(",")[0]]
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
    known = {row.get("format") for row in content["rows"]}
    formats = [format for format in FORMATS if format in known]
    lines = []
    for name in (runtime.name for runtime in RUNTIMES):
        found = [row for row in content["rows"] if row["runtime"] == name]
        if found and "cannot" in found[0]:
            dashes = ["–"] * (len(formats) - 1)
            lines.append([name, f"not run: {found[0]['cannot']}", *dashes])
            continue
        cells = [
            cell([row for row in found if row["format"] == format])
            for format in formats
        ]
        lines.append([name, *cells])
    heads = [f"`{format}`" for format in formats]
    return tables.table(["runtime", *heads], lines)
