"""Runs small networks in each format in each runtime, and writes the table.

    python -m benchmarks.runtimes                      # what has not run yet
    python -m benchmarks.runtimes --list               # the runtimes
    python -m benchmarks.runtimes tensorflow a53       # those with such a name
    python -m benchmarks.runtimes litert --again       # some, once more
    python -m benchmarks.runtimes --report             # only the table

Each runtime is installed in an environment of its own. After an interrupt the
same command continues.
"""

import argparse
import re
import shutil
import sys
import time
from pathlib import Path

import filelock

from benchmarks import harness
from benchmarks.networks import SEED
from benchmarks.runtimes import environments, networks, report
from benchmarks.worker import Cannot, Worker


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.runtimes",
        description=__doc__.split("\n\n")[0],
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="a part of a runtime's name")
    add("--list", action="store_true", help="list the runtimes and end")
    add("--again", action="store_true", help="run what has run before")
    add("--clean", action="store_true", help="delete environments after use")
    add("--report", action="store_true", help="run nothing, write the table")
    add("--results", type=Path, metavar="DIR", help="the folder of results")
    arguments = parser.parse_args(argv)
    arguments.runtimes = chosen(arguments.names)
    if not arguments.runtimes:
        parser.error(f"no runtime has such a name. Received: {arguments.names}")
    arguments.results = (arguments.results or harness.RESULTS).resolve()
    return arguments


def chosen(names):
    """Returns the runtimes whose name has one of the parts, or all."""
    every = environments.RUNTIMES
    return [r for r in every if not names or any(n in r.name for n in names)]


def files() -> Path:
    """Returns the folder of the exported files, which is made if needed."""
    folder = environments.place(environments.RUNTIMES[0]).parent
    folder /= f"files-{networks.sources()}"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with Worker("benchmarks.runtimes.networks") as worker:
            for name in networks.NETWORKS:
                print(f"exporting {name}", flush=True)
                worker.call("write", folder=str(folder), name=name)
        (folder / "complete").touch()
    return folder


def run(arguments):
    """Runs the files in the chosen runtimes that have not run them."""
    folder = files()
    arguments.results.mkdir(parents=True, exist_ok=True)
    path = output = arguments.results / "runtimes.json"
    again = arguments.again
    if again and not arguments.names:
        # All of them, in a file that replaces the old one at the end.
        output, again = path.with_suffix(".again.json"), False
    configuration = {
        "seed": SEED,
        "networks": list(networks.NETWORKS),
        "formats": list(networks.FORMATS),
        "files": networks.content(folder),
    }
    journal = harness.Journal(output, "runtimes", configuration)
    for number, runtime in enumerate(arguments.runtimes, start=1):
        cell = {"runtime": runtime.name}
        head = f"[{number}/{len(arguments.runtimes)}] {runtime.name}"
        if not (again or journal.misses(cell)):
            print(f"{head}: finished before")
            continue
        print(f"{head}:", flush=True)
        begin = time.monotonic()
        try:
            rows = measure(runtime, folder, journal)
        except Cannot as error:
            detail = without_folders(error.detail)
            print(f"  {error.words}. {detail}", flush=True)
            rows = [Cannot(error.words, detail).to_json()]
        journal.add(cell, rows)
        seconds = time.monotonic() - begin
        for format in networks.FORMATS:
            text = report.cell([r for r in rows if r.get("format") == format])
            print(f"  {format:<14}{text}")
        print(f"  {seconds:.0f} s", flush=True)
        if arguments.clean:
            shutil.rmtree(environments.place(runtime), ignore_errors=True)
    sort(journal)
    output.replace(path)


def sort(journal):
    """Puts the rows in the order of the runtimes, whenever they were run."""
    order = [runtime.name for runtime in environments.RUNTIMES]
    content = journal.content
    content["rows"].sort(key=lambda row: order.index(row["runtime"]))
    done = {row["runtime"] for row in content["rows"] if "cannot" not in row}
    content["finished"] = done >= set(order)
    journal.write()


def measure(runtime, folder, journal):
    """Returns a row for each file in a runtime."""
    rows, worker = [], environments.start(runtime)
    journal.content["versions"][runtime.name] = worker.versions
    try:
        for row in runtime.cases():
            path = networks.model_path(
                folder, row["network"], row["format"], runtime.batch
            )
            data = folder / f"{row['network']}.npz"
            try:
                found = worker.call(
                    "run",
                    package=runtime.package,
                    path=str(path),
                    data=str(data),
                    xnnpack=row["xnnpack"],
                )
            except Cannot as error:
                detail = without_folders(error.detail)
                found = {"fails": error.words, "detail": detail}
                if worker.process.poll() is not None:
                    worker.close()
                    worker = environments.start(runtime)
            rows.append(row | found)
    finally:
        worker.close()
    return rows


def without_folders(text):
    """Returns the beginning of a message, without folders of this machine."""
    return re.sub(r"(?<![:/\w])(/[\w.+@=-]+)+/", "", text)[:400]


def main(argv=None) -> int:
    arguments = parse(argv)
    if arguments.list:
        print("\n".join(runtime.name for runtime in arguments.runtimes))
        return 0
    try:
        if not arguments.report:
            # Its own lock: it measures no time, but writes one file.
            lock = arguments.results / ".runtimes.lock"
            arguments.results.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(lock, timeout=0):
                run(arguments)
        for path in report.write(arguments.results):
            print(f"wrote {path}")
    except KeyboardInterrupt:
        print("\nInterrupted. The same command continues.")
        return 130
    except (Cannot, harness.ResultError, OSError) as error:
        detail = getattr(error, "detail", "")
        print(f"error: {error} {detail}".rstrip(), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
