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
WORKS, WRONG = "works", "wrong"


def outcome(row) -> str:
    """Returns `WORKS`, `WRONG`, or the error in three words."""
    if "error" in row:
        tolerance = TOLERANCES[row["format"].split(",")[0]]
        right = row["finite"] and row["error"] <= tolerance
        return WORKS if right else WRONG
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
    networks = {}
    for row in rows:
        networks.setdefault(outcome(row), []).append(row["network"])
    right = networks.pop(WORKS, [])
    if right and not networks:
        return WORKS
    parts = [f"{len(right)} of {len(rows)}"] if right else []
    if wrong := networks.pop(WRONG, None):
        parts.append(f"**{WRONG}**: {', '.join(wrong)}")
    return "; ".join([*parts, *networks])


def table(content) -> str:
    """Returns the table as Markdown."""
    lines = []
    for name in (runtime.name for runtime in RUNTIMES):
        rows = [row for row in content["rows"] if row["runtime"] == name]
        texts = [
            cell([r for r in rows if r.get("format") == f]) for f in FORMATS
        ]
        if rows and "cannot" in rows[0]:
            texts = [f"not run: {rows[0]['cannot']}"]
            texts += ["–"] * (len(FORMATS) - 1)
        lines.append([name, *texts])
    return tables.table(["runtime", *(f"`{f}`" for f in FORMATS)], lines)
