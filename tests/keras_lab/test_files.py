"""Files are written whole or not at all, where and as the user has them."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import keras_lab.files
from keras_lab.files import check_target, replacing

# As long as most file systems allow.
LONGEST = 255


def write(path, text="new"):
    with replacing(path) as partial:
        partial.write_text(text)


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as partial:
        partial.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_link_stays_a_link_and_a_file_keeps_its_permissions(tmp_path):
    target = tmp_path / "there" / ("b" * (LONGEST - 4) + ".txt")
    link = tmp_path / "a.txt"
    link.symlink_to(target)
    with pytest.raises(ValueError, match="directory that does not exist"):
        check_target("path", link)
    target.parent.mkdir()
    write(check_target("path", link), "first")
    target.chmod(0o640)
    write(link, "second")
    assert link.is_symlink() and target.read_text() == "second"
    assert target.stat().st_mode & 0o777 == 0o640


# Root may write everywhere, so in a process of its own it becomes another user.
CHILD = """
import os, pathlib, sys
sys.path.insert(0, sys.argv[1])  # Without the package, which loads Keras.
from files import target_problem
if os.geteuid() == 0:
    os.setuid(65534)
print(target_problem(pathlib.Path(sys.argv[2])))
"""


@pytest.mark.parametrize(
    ("mode", "of_folder", "problem"),
    [(0o440, 0o777, "a file without"), (0o666, 0o555, "a directory without")],
)
def test_a_place_without_write_access_is_refused(mode, of_folder, problem):
    # Not pytest's folder, which only its user may enter.
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.txt"
        path.write_text("old")
        path.chmod(mode)
        path.parent.chmod(of_folder)
        folder = str(Path(keras_lab.files.__file__).parent)
        command = [sys.executable, "-c", CHILD, folder, str(path)]
        found = subprocess.check_output(command, text=True)
        path.parent.chmod(0o755)
    assert problem in found


@pytest.mark.parametrize("name", ["a" * (LONGEST + 1), "a\0b"])
def test_a_name_that_cannot_be_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="`path` is not a valid path"):
        check_target("path", tmp_path / name)
