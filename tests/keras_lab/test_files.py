"""Files are written whole or not at all, where and as the user has them."""

import os

import pytest

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


@pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0,
    reason="root may write everywhere",
)
def test_a_file_without_write_access_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o440)
    with pytest.raises(ValueError, match="without write access"):
        check_target("path", path)


def test_the_longest_name_is_written(tmp_path):
    path = tmp_path / ("a" * (LONGEST - 4) + ".txt")
    write(check_target("path", path))
    assert path.read_text() == "new"


@pytest.mark.parametrize("name", ["a" * (LONGEST + 1), "a\0b"])
def test_a_name_that_cannot_be_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="`path` is not a valid path"):
        check_target("path", tmp_path / name)
