"""The data folder, and downloads into it from a local web server."""

import functools
import hashlib
import http.server
import io
import tarfile
import threading

import pytest

from examples.paper.data import DataError, data_folder, files


def test_the_folder_is_the_argument_then_the_environment_then_keras_home(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KERAS_LAB_DATA", raising=False)
    assert data_folder() == tmp_path / "home" / "datasets"
    monkeypatch.setenv("KERAS_LAB_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    with pytest.raises(DataError, match="no_such_folder"):
        data_folder(tmp_path / "no_such_folder")


@pytest.fixture
def server(tmp_path):
    """A web server for `tmp_path/web`: gives the folder and the address."""
    web = tmp_path / "web"
    web.mkdir()
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=str(web)
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever).start()
        yield web, f"http://127.0.0.1:{httpd.server_port}/"
        httpd.shutdown()


def sha256(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def all_files(folder):
    return [p.name for p in sorted(folder.rglob("*")) if p.is_file()]


@pytest.mark.parametrize("check", [sha256(b"content"), "bytes:7"])
def test_a_missing_file_is_downloaded_from_the_first_good_address(
    server, tmp_path, check
):
    web, address = server
    (web / "moved").write_bytes(b"<html>We have moved</html>")
    (web / "mirror").write_bytes(b"content")
    urls = tuple(address + name for name in ("absent", "moved", "mirror"))
    source = files.Source("set/file", urls, check)
    folder = tmp_path / "data"
    assert files.locate(source, folder, optional=True) is None
    assert files.locate(source, folder).read_bytes() == b"content"
    (web / "mirror").unlink()
    assert files.locate(source, folder).read_bytes() == b"content"
    assert all_files(folder) == ["file"]


def test_a_wrong_download_is_not_kept(server, tmp_path):
    web, address = server
    (web / "file").write_bytes(b"wrong one")
    urls = (address + "file", address + "no")
    source = files.Source("file", urls, sha256(b"right"))
    with pytest.raises(DataError, match="could not be downloaded") as caught:
        files.locate(source, tmp_path / "data")
    for text in (*urls, "404", "KERAS_LAB_DATA"):
        assert text in str(caught.value)
    assert all_files(tmp_path / "data") == []


@pytest.mark.parametrize("top", ["set", "other", "../set"])
def test_an_archive_gives_the_files_that_are_missing(server, tmp_path, top):
    web, address = server
    with tarfile.open(web / "set.tar.gz", "w:gz") as archive:
        for name in ("one", "two"):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size = 3
            archive.addfile(entry, io.BytesIO(b"abc"))
    check = sha256((web / "set.tar.gz").read_bytes())
    source = files.Source("set/two", (address + "set.tar.gz",), check, True)
    folder = tmp_path / "data" / "set"
    folder.mkdir(parents=True)
    (folder / "one").write_bytes(b"the user's")
    if top == "set":
        assert files.locate(source, tmp_path / "data").read_bytes() == b"abc"
        assert all_files(tmp_path / "data") == ["one", "two"]
    else:
        with pytest.raises(DataError, match=r"set\.tar\.gz"):
            files.locate(source, tmp_path / "data")
        assert all_files(tmp_path / "data") == ["one"]
    assert (folder / "one").read_bytes() == b"the user's"
