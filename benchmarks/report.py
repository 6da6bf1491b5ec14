"""Writes the tables from the JSON files alone.

    python -m benchmarks --report

A document says where a table goes with two comments:

    <!-- benchmarks: resnet8 -->
    <!-- benchmarks: end -->

Everything else in it is written by hand. The name is that of a JSON file, which
says which benchmark makes its table. With `_machine` after it, it is what the
benchmark was measured with; `headline` is the table of the README.
"""

from pathlib import Path

from benchmarks import harness
from benchmarks.headline import headline
from examples.environment import write_text
from examples.pages import fill

ROOT = harness.RESULTS.parents[1]
DOCUMENTS = ("results/benchmarks/README.md", "README.md", "docs/**/*.md")


def load(folder: Path) -> dict:
    """Returns the contents of the JSON files of a folder, by name."""
    return {p.stem: harness.read_result(p) for p in folder.glob("*.json")}


def make_tables(results: dict) -> dict[str, str]:
    """Returns the tables of some results, by name."""
    tables = {"headline": headline(results)}
    for name, content in results.items():
        tables[name] = harness.part(content["benchmark"]).table(content)
        tables[f"{name}_machine"] = machine(content)
    return tables


def machine(content):
    """The machine, the versions and the settings of a part."""
    about = {"keras_lab": "before 0.1.0", **content["environment"]}
    first = about.pop("date")
    dates = [row.get("date", first) for row in content.get("rows", [])]
    dates = sorted({min(dates, default=first), max(dates, default=first)})
    where = [f"{about.pop('cores')} cores", about.pop("machine")]
    where += [about.pop("cpu", ""), " ".join(about.pop("cpu_features", []))]
    for more in content.get("versions", {}).values():
        about = {**about, **more, **about}
    settings = {
        key.replace("_", " "): "; ".join(map(str, value))
        if isinstance(value, list)
        else value
        for key, value in content["configuration"].items()
        if value
    }
    versions, chosen = (
        ", ".join(f"{name} {value}" for name, value in pairs.items())
        for pairs in (about, settings)
    )
    return (
        f"Measured on {', '.join(filter(None, where))}, {' to '.join(dates)}. "
        f"{versions}. Settings: {chosen}."
    )


def insert(text: str, tables: dict[str, str]) -> str:
    """Returns a document with the tables between its markers made again."""
    return fill(text, "benchmarks", lambda name: tables.get(name, "Not run."))


def write(folder: Path) -> list[Path]:
    """Writes the tables of a folder of results, and returns the files.

    Published results are in all documents, others in a file beside them.
    """
    tables = make_tables(load(folder))
    if folder != harness.RESULTS:
        page = folder / "tables.md"
        write_text(page, "\n\n".join(tables.values()) + "\n")
        return [page]
    for path in documents():
        write_text(path, insert(path.read_text(), tables))
    return documents()


def documents() -> list[Path]:
    """Returns the documents of the repository that have tables."""
    found = [p for glob in DOCUMENTS for p in sorted(ROOT.glob(glob))]
    return [p for p in found if "<!-- benchmarks: " in p.read_text()]
