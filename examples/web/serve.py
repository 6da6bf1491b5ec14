"""Builds the page once and serves it on this machine.

    python examples/web/serve.py

The first start installs LiteRT.js with npm and trains the networks, which takes
a few minutes. Everything that the page needs is then in `examples/web/dist`, a
folder for any web server.
"""

import argparse
import functools
import http.server
import shutil
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).resolve().parent
DIST = WEB / "dist"
PAGE = ("index.html", "style.css", "*.js")
EXPANDER = WEB.parents[1] / "tflite_export" / "expanders" / "tflz.js"
PACKAGES = WEB / "node_modules" / "@litertjs"
# The runtime with SIMD instructions of any kind; it chooses one of the two.
WASM = ("litert_wasm_internal.*", "litert_wasm_compat_internal.*")


def build(output=DIST):
    """Copies the page and the runtime to a folder."""
    if not PACKAGES.is_dir():
        npm = shutil.which("npm")
        if npm is None:
            raise FileNotFoundError("npm must be installed: see nodejs.org.")
        subprocess.run(
            [npm, "ci", "--no-audit", "--no-fund"], cwd=WEB, check=True
        )
    wasm = output / "litert" / "wasm"
    wasm.mkdir(parents=True, exist_ok=True)
    for path in (p for pattern in PAGE for p in WEB.glob(pattern)):
        shutil.copyfile(path, output / path.name)
    shutil.copyfile(EXPANDER, output / EXPANDER.name)
    for name in ("core", "wasm-utils"):
        source = PACKAGES / name / "dist" / "index.js"
        shutil.copyfile(source, output / "litert" / f"{name}.js")
    for pattern in WASM:
        for path in (PACKAGES / "core" / "wasm").glob(pattern):
            shutil.copyfile(path, wasm / path.name)


def train(output=DIST):
    """Trains the networks, unless they are there."""
    if not (output / "models" / "models.json").exists():
        print("Training the networks. This takes a few minutes.", flush=True)
        command = [sys.executable, WEB / "model.py", "--output"]
        subprocess.run([*command, output / "models"], check=True)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, with headers that give the page precise timers."""

    extensions_map = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".js": "text/javascript",
        ".wasm": "application/wasm",
    }

    def end_headers(self):
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format, *arguments):
        pass


def server(port, folder=DIST):
    """Returns a server of a folder that only this machine can reach."""
    handler = functools.partial(Handler, directory=folder)
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--build", action="store_true", help="do not serve")
    arguments = parser.parse_args(argv)
    try:
        # A port that is taken is an error before the training.
        with server(arguments.port) as running:
            build()
            train()
            if not arguments.build:
                host, port = running.server_address
                print(f"Open http://{host}:{port} (Ctrl+C ends)", flush=True)
                running.serve_forever()
    except KeyboardInterrupt:
        print()
    except (OSError, OverflowError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
