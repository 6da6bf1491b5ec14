"""What the examples on texts share: the options that choose the text."""

import argparse
from pathlib import Path

from examples.paper import data as datasets


def make_parser(description: str) -> argparse.ArgumentParser:
    """Returns a parser that has the options `--text` and `--data-dir`."""
    parser = argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--text", type=_file, help="a text file; default: War and Peace"
    )
    parser.add_argument(
        "--data-dir", help="where the data sets are; see examples.paper.data"
    )
    return parser


def load_text(options, steps: int, batch: int, length: int | None = None):
    """Reads the chosen text, or its first `length` bytes, as sequences."""
    if options.text:
        return datasets.text_file(options.text, steps, batch, length)
    return datasets.war_and_peace(options.data_dir, steps, batch, length)


def _file(path):
    if not Path(path).is_file():
        raise argparse.ArgumentTypeError(f"no such file. Received: {path}")
    return path
