"""The files of a data set: where they lie, and where they come from.

A file that is in the data folder is not downloaded again. One that is not is
downloaded, checked against its hash, and only then given its name.
"""

import dataclasses
import hashlib
import os
import shutil
import sys
import tarfile
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path

__all__ = [
    "DataError",
    "Source",
    "data_folder",
    "digests",
    "is_official",
    "locate",
]

CHUNK = 1 << 20


class DataError(Exception):
    """A file of a data set is missing, damaged, or not what it should be."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A file of a data set.

    Args:
        path: Where it lies, below the data folder.
        urls: Its addresses, the official one first.
        check: What a download must be: `"sha256:<digest>"`, `"md5:<digest>"`,
            or `"bytes:<size>"` where no digest is published.
        archive: Whether the address gives a `.tar.gz` whose top folder is the
            folder of `path`.
    """

    path: str
    urls: tuple[str, ...]
    check: str
    archive: bool = False


def data_folder(folder: str | os.PathLike | None = None) -> Path:
    """The folder of all data sets.

    It is the argument, or else the environment variable `KERAS_LAB_DATA`, or
    else `datasets` in the Keras home.
    """
    folder = folder or os.environ.get("KERAS_LAB_DATA")
    if not folder:
        home = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
        return Path(home) / "datasets"
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise DataError(
            "The data folder does not exist. Make it, or name another by "
            f"--data-dir or KERAS_LAB_DATA. Received: {folder}"
        )
    return folder


def locate(source: Source, folder: Path, optional: bool = False) -> Path | None:
    """The path of a file, which is downloaded where it is missing.

    Args:
        source: The file.
        folder: The data folder.
        optional: Whether to return `None` for a missing file instead of
            downloading it.
    """
    path = folder / source.path
    if path.is_file():
        return path
    if optional:
        return None
    failures = []
    for url in source.urls:
        try:
            _download(source, url, path)
            return path
        except (OSError, HTTPException, tarfile.TarError, DataError) as error:
            failures.append(f"  {url}: {error}")
    raise DataError(
        f"{path} is missing and could not be downloaded:\n"
        + "\n".join(failures)
        + "\nPut the file there by hand, or name a folder that has it by "
        "--data-dir or KERAS_LAB_DATA."
    )


def digests(paths: list[Path]) -> dict[str, str]:
    """The SHA-256 of each file, by the file's name."""
    return {path.name: _digest(path, "sha256") for path in paths}


def _digest(path, algorithm):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _download(source, url, path):
    target = path.parent.with_suffix(".tar.gz") if source.archive else path
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            with open(partial, "wb") as file:
                _copy(response, file, f"downloading {url}")
        _check_download(source, partial)
        if source.archive:
            _unpack(partial, path.parent)
        else:
            os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _copy(response, file, what):
    """Copies with a line of progress every few seconds."""
    size = int(response.headers.get("Content-Length") or 0)
    done, began = 0, time.monotonic()
    shown = began
    while chunk := response.read(CHUNK):
        file.write(chunk)
        done += len(chunk)
        now = time.monotonic()
        if now - shown > 5:
            shown = now
            line = f"{what}: {done / 1e6:.0f} MB"
            if size > done:
                left = (now - began) * (size / done - 1)
                line += f" of {size / 1e6:.0f} MB, {left:.0f} s left"
            print(line, file=sys.stderr, flush=True)


def is_official(source: Source, path: Path) -> bool:
    """Whether a file is the one that the official address gives."""
    return _received(source, path) == source.check


def _received(source, path):
    """What `source.check` would be for a file."""
    kind = source.check.partition(":")[0]
    found = path.stat().st_size if kind == "bytes" else _digest(path, kind)
    return f"{kind}:{found}"


def _check_download(source, path):
    received = _received(source, path)
    if received != source.check:
        raise DataError(
            f"what it sent is not the expected file and was not kept: expected "
            f"{source.check}, received {received}"
        )


def _unpack(archive, folder):
    """Gives `folder` the files of an archive's top folder that it lacks."""
    scratch = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        with tarfile.open(archive) as file:
            file.extractall(scratch, filter="data")
        if not (scratch / folder.name).is_dir():
            raise tarfile.TarError(f"no folder '{folder.name}' in the archive")
        folder.mkdir(exist_ok=True)
        for path in (scratch / folder.name).iterdir():
            if not (folder / path.name).exists():
                os.replace(path, folder / path.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
