"""Builds the page of results from the results of `run.py` alone.

    python examples/paper/report.py

It writes `results/paper/README.md` and the figures beside it: the paper's
tables with the paper's numbers and ours, "not run" where nothing ran.
"""

import argparse
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from examples.paper import claims, figures
from examples.paper.results import (
    DECIMALS,
    MACHINE,
    Cell,
    ResultError,
    Run,
    find,
    load,
    shown_sizes,
)
from examples.paper.schemes import SCHEMES
from examples.paper.tables import TABLES, Table
from examples.records import write_text


class Footnotes:
    """Numbers the notes, each different one once."""

    def __init__(self):
        self.texts = []

    def mark(self, text: str) -> str:
        """The mark of a note; nothing if there is nothing to note."""
        if not text:
            return ""
        if text not in self.texts:
            self.texts.append(text)
        return f" <sup>{self.texts.index(text) + 1}</sup>"

    def lines(self) -> list[str]:
        return [f"{n}. {text}" for n, text in enumerate(self.texts, start=1)]


def note(cell: Cell) -> str:
    """What of a cell is not as in the paper."""
    of_runs = [_departures(run, cell) for run in cell.runs]
    parts = [text for text in of_runs[0] if all(text in of for of in of_runs)]
    for run, of_run in zip(cell.runs, of_runs):
        own = [text for text in of_run if text not in parts]
        parts += [f"seed {run.seed}: {', '.join(own)}"] if own else []
    if cell.left_out:
        runs = "run" if cell.left_out == 1 else "runs"
        parts.append(f"{cell.left_out} more {runs} with fewer epochs left out")
    return "; ".join(parts)


def _departures(run, cell):
    """What of a run of a cell is not as in the paper."""
    recipe, epochs = run.recipe, cell.epochs
    parts = run.departures(cell.column)
    if epochs < recipe.epochs:
        text = f"{epochs} of the paper's {recipe.epochs} epochs"
        if recipe.decay(epochs) == 1:
            text += ", all before the learning rate first falls"
        parts.append(text)
    if run.unfinished_at(epochs):
        parts.append(f"not finished: {run.epochs_planned} epochs are planned")
    values = run.history[f"validation_{run.measure}"][:epochs]
    diverged = sum(value is None for value in values)
    if 0 < diverged < epochs:
        parts.append(f"diverged in {diverged} of its epochs")
    return parts + ([run.note] if "note" in run.content else [])


def format_cell(cell: Cell | None, notes: Footnotes) -> str:
    """Mean ± spread, number of runs, and the mark of a note."""
    if cell is None:
        return "not run"
    if not cell.values:
        return "diverged" + notes.mark(note(cell))
    decimals = cell.decimals
    text = f"**{cell.mean:.{decimals}f}**"
    if len(cell.values) > 1:
        text += f" ± {cell.spread:.{decimals}f}"
    runs = f"{len(cell.runs)} run" + ("s" if len(cell.runs) > 1 else "")
    text += f" ({runs}, {cell.epochs} epochs)"
    if len(cell.values) < len(cell.runs):
        text += f", {len(cell.runs) - len(cell.values)} diverged"
    return text + notes.mark(note(cell))


def format_table(runs: list[Run], table: Table) -> list[str]:
    """A table as Markdown: for each column the paper's number and ours."""
    notes = Footnotes()
    heads = ["scheme"]
    for column in table.columns:
        heads += [f"{column.title}, paper"] if column.paper else []
        heads += [f"{column.title}, ours"]
    lines = [_row(heads), _row(["---"] * len(heads))]
    sizes = shown_sizes(runs, table)
    for scheme in table.schemes:
        row = [SCHEMES[scheme].title]
        for column, size in zip(table.columns, sizes):
            cell = find(runs, column, scheme, size)
            row += [column.paper[scheme]] if column.paper else []
            row += [format_cell(cell, notes)]
        lines.append(_row(row))
    return [f"## {table.title}", "", *lines, "", *notes.lines(), ""]


def format_runs(runs: list[Run]) -> list[str]:
    """Every run there is, a line each."""
    heads = (
        *("experiment", "scheme", "seed", "epochs", "best epoch"),
        *("validation", "test", "s an epoch", "commit"),
    )
    lines = [_row(heads), _row(["---"] * len(heads))]
    for run in runs:
        decimals = DECIMALS[run.measure]
        chosen = run.selected()
        numbers = ["–", "diverged", "diverged"]
        if chosen:
            numbers = [str(chosen["epoch"])] + [
                f"{chosen[f'{part}_{run.measure}']:.{decimals}f}"
                for part in ("validation", "test")
            ]
        seconds = statistics.median(run.history["seconds"])
        lines.append(
            _row(
                [
                    run.experiment,
                    SCHEMES[run.scheme].title,
                    str(run.seed),
                    f"{run.epochs_done} of {run.epochs_planned}",
                    *numbers,
                    f"{seconds:.0f}",
                    ", ".join(dict.fromkeys(map(_commit, run.sessions))),
                ]
            )
        )
    return lines


def _commit(session):
    return session["commit"] or "unknown"


def _row(cells):
    return "| " + " | ".join(cells) + " |"


def build_page(runs: list[Run], drawn: dict[str, str]) -> str:
    """The page, given the results and the names of the figures."""
    lines = [INTRODUCTION]
    for name, table in TABLES.items():
        lines += format_table(runs, table)
        for figure in figures.OF_TABLE.get(name, ()):
            lines += _embed(figure, drawn)
    lines += ["## What agrees with the paper, what does not", ""]
    lines += claims.format_claims(runs)
    lines += ["", claims.WHY, "", CHOICES, "## All runs", ""]
    lines += format_runs(runs) if runs else ["Nothing has run."]
    lines += ["", *_machines(runs)]
    return "\n".join(lines).rstrip() + "\n"


INTRODUCTION = """\
# The paper's tables and figures, run again

Made by `python examples/paper/report.py` from the results in this folder, which
`python examples/paper/run.py` wrote; not by hand. The paper is Hou, Yao, Kwok:
*Loss-aware Binarization of Deep Networks*, ICLR 2017. Its numbers are single
runs.

How to read a cell: the **test** error or cross-entropy at the epoch that was
best on the validation part (of equal ones the later), as the authors do. Over
several seeds it is the mean ± the standard deviation. "Not run" means just
that. A raised number points to what is not as in the paper. Figures 1 and 2
show the first seed of each network; in Figure 1 an error of zero is a gap.
"""

CHOICES = """\
## What the paper leaves open, and what was done

- The learning rate of full precision: that of the networks with binary weights.
- Batch norm: momentum 0.9, epsilon 1e-5 inside the root; pooling comes before
  it. `--follow code` has the authors' own (epsilon 1e-4 added to the standard
  deviation), their initial weights of binary networks (half of Glorot's limit),
  their learning rate for CIFAR-10 (0.02, not 0.03) and their local contrast
  normalization of SVHN (first channel only).
- MNIST: pixels in [0, 1] minus the mean image of the 50,000 training images.
  (In the authors' code it is that of all 60,000, and for the test images their
  own; `--follow code` does not do this.)
- CIFAR-10: global contrast normalization to the norm 55; ZCA with 0.1 added to
  the variances, fitted on all 50,000 training images, those of the validation
  part (the last 5,000) among them, as with the authors.
- SVHN: global contrast normalization to the norm 1; local with a Gaussian
  window of 7x7 and σ = 2. The validation part are the first 400 images of each
  class of `train`, and the first 200 of `extra` where that is there.
- MNIST without batch norm: layers have biases instead, and a tenth of the
  learning rate, as at the whole all schemes train unsteadily.
- A last batch that is not full is left out of training, not out of evaluation;
  the authors leave it out of both.
- In the feedforward networks latent weights are clipped to [−1, 1] after each
  update and full-precision weights are not. For the texts the paper says that
  all weights are clipped, so all kernels are; with `--follow code`, binary ones
  only.
- War and Peace by schedule: ten epochs with the learning rate times 0.65 after
  each; that of the last is 2% of the first, as in the paper's 200th.
- The texts' gradients are clipped to [−5, 5] entry by entry, as the paper says;
  the authors' code clips what flows into the gates at each time step instead,
  which `--follow code` does not do.
- The texts' parts are the first 80, the next 10 and the last 10 percent (Linux
  Kernel: 90, 5, 5), in whole batches. Forget gates start with a bias of 1.
- The state of the LSTM is zero at the start of each sequence, in training and
  in evaluation, as in the authors' code: cross-entropies are not comparable to
  those of networks that carry it on. In Table 4 longer sequences have more to
  go by in evaluation, too, so not all that they gain is learnt; and the parts,
  which are whole batches, move a little with the number of steps.
- BNN, XNOR and LAB2 of the LSTM: the hidden state is binarized where it enters
  the recurrent product. In the authors' code it is h = σ(o)·sign(c), which is
  not binary. That is `--follow code`; there the softmax layer also starts from
  a normal distribution of deviation 0.01.
"""


def _embed(figure, drawn):
    if figure.name in drawn:
        return [f"![{figure.title}]({drawn[figure.name]})", ""]
    return [f"{figure.title}: not run.", ""]


def _machines(runs):
    kinds = {
        "{}, {} cores, Python {}, Keras {}, TensorFlow {}, NumPy {}".format(
            *(session[name] for name in MACHINE)
        )
        for run in runs
        for session in run.sessions
    }
    return [f"Run on: {kind}." for kind in sorted(kinds)]


def main(arguments=None) -> int:
    """Runs the command line and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--results-dir",
        type=Path,
        metavar="DIR",
        default=ROOT / "results" / "paper",
    )
    folder = parser.parse_args(arguments).results_dir
    if not folder.is_dir():
        parser.error(f"--results-dir is not a folder. Received: {folder}")
    try:
        runs = load(folder)
    except ResultError as error:
        print(f"report.py: error: {error}", file=sys.stderr)
        return 1
    drawn = figures.draw_all(runs, folder / "figures")
    write_text(folder / "README.md", build_page(runs, drawn))
    print(f"{len(runs)} results, {len(drawn)} figures: {folder / 'README.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
