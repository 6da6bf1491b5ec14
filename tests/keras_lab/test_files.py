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


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "b.txt", tmp_path / "a.txt"
    link.symlink_to(target)
    for text in ("first", "second"):
        write(link, text)
        assert link.is_symlink()
        assert target.read_text() == text


def test_a_link_into_a_missing_folder_is_refused(tmp_path):
    link = tmp_path / "a.txt"
    link.symlink_to(tmp_path / "missing" / "b.txt")
    with pytest.raises(ValueError, match="directory that does not exist"):
        check_target("path", link)


def test_a_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o640)
    write(path)
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


# A process of its own may give up rights and room. Root may write everywhere,
# so root becomes another user.
CHILD = """
import os, pathlib, resource, signal, sys
sys.path.insert(0, sys.argv[3])  # Without the package, which loads Keras.
from files import check_target, replacing
path, what = pathlib.Path(sys.argv[1]), sys.argv[2]
if what == "other user" and os.geteuid() == 0:
    os.setuid(65534)
if what == "full disk":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    with replacing(check_target("path", path)) as partial:
        partial.write_bytes(bytes(2000))
except (OSError, ValueError) as error:
    print(f"{type(error).__name__}: {error}")
"""


def in_a_process(path, what):
    folder = Path(keras_lab.files.__file__).parent
    command = [sys.executable, "-c", CHILD, str(path), what, str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return result.stdout


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
        found = in_a_process(path, "other user")
        path.parent.chmod(0o755)
    assert found.startswith("ValueError: `path` is ") and problem in found


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    assert in_a_process(path, "full disk").startswith("OSError")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_the_longest_name_is_written(tmp_path):
    path = tmp_path / ("a" * (LONGEST - 4) + ".txt")
    write(check_target("path", path))
    assert path.read_text() == "new"


@pytest.mark.parametrize("name", ["a" * (LONGEST + 1), "a\0b"])
def test_a_name_that_cannot_be_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="`path` is not a valid path"):
        check_target("path", tmp_path / name)
