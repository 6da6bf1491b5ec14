"""`examples/char_transformer.py`: from a float network to one bit."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from examples import char_transformer


@pytest.mark.slow
def test_the_quick_run_has_every_stage_and_format(tmp_path):
    text = tmp_path / "text.txt"
    words = np.random.default_rng(0).integers(97, 123, 20000).astype("uint8")
    text.write_bytes(words.tobytes())
    arguments = ["--quick", "--text", str(text), "--scheme", "lab"]
    arguments += ["--output", str(tmp_path / "out")]
    char_transformer.main(arguments)
    path = tmp_path / "out" / "lab-1.json"
    result = json.loads(path.read_text())
    assert list(result["validation_nats"]) == [
        "float",
        "binarized",
        "fine-tuned",
    ]
    for file in result["files"].values():
        assert file["nats"] == pytest.approx(file["nats_of_keras"], rel=0.02)
        assert not file["not_packed"]
    before = path.stat().st_mtime_ns
    char_transformer.main(arguments)  # It is finished.
    assert path.stat().st_mtime_ns == before


def test_the_page_has_the_tables_of_its_files(tmp_path):
    folder = Path(char_transformer.__file__).parents[1] / "results"
    shutil.copytree(folder / "char_transformer", tmp_path / "copy")
    page = tmp_path / "copy" / "README.md"
    before = page.read_text()
    char_transformer.report(tmp_path / "copy")
    assert page.read_text() == before
    assert "| LAB | 3 |" in before
