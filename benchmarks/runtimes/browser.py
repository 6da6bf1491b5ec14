"""Runs files with LiteRT.js in Chromium, without a network."""

import base64
import functools
import importlib.metadata
import json
import mimetypes
import os
import shutil
from pathlib import Path

import numpy as np

from benchmarks.runtimes.interpreter import difference
from benchmarks.worker import Cannot

# No server: the requests of the page are answered from the folder of npm.
ADDRESS = "http://127.0.0.1:1/"
PACKAGES = Path(os.environ.get("LITERT_JS", ""))
PAGE = """<!doctype html><body><script type="importmap">{"imports": {
  "@litertjs/core": "/core/dist/index.js",
  "@litertjs/wasm-utils": "/wasm-utils/dist/index.js"}}</script>"""
SCRIPT = """async ([model, samples, shape]) => {
  const { loadLiteRt, loadAndCompile, Tensor } = await import("@litertjs/core");
  await loadLiteRt("/core/wasm/");
  const bytes = Uint8Array.from(atob(model), (letter) => letter.charCodeAt(0));
  const compiled = await loadAndCompile(bytes, { accelerator: "wasm" });
  const outputs = [];
  for (const sample of samples) {
    const input = new Tensor(Float32Array.from(sample), shape);
    const [output] = await compiled.run([input]);
    outputs.push(Array.from(output.toTypedArray()));
  }
  return outputs;
}"""


@functools.cache
def browser():
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    if path is None:
        raise Cannot("Chromium not installed", "apt install chromium")
    options = ["--no-sandbox", "--disable-gpu"]
    chromium = sync_playwright().start().chromium
    return chromium.launch(executable_path=path, args=options)


def versions(package):
    """Starts Chromium and returns the versions."""
    installed = json.loads((PACKAGES / "core" / "package.json").read_text())
    return {
        package: installed["version"],
        "chromium": browser().version,
        "playwright": importlib.metadata.version("playwright"),
    }


def run(package, path, data, xnnpack):
    """Returns how far the outputs of a file are from those of Keras."""
    with np.load(data) as arrays:
        x, expected = arrays["x"], arrays["y"]
    model = base64.b64encode(Path(path).read_bytes()).decode()
    samples = x.reshape(len(x), -1).tolist()
    # A new page: what is broken must not change the next file.
    with browser().new_page() as page:
        page.route("**/*", answer)
        page.goto(ADDRESS)
        outputs = page.evaluate(SCRIPT, [model, samples, [1, *x.shape[1:]]])
    return difference(np.array(outputs, float), expected)


def answer(route):
    """Answers a request of the page."""
    name = route.request.url.removeprefix(ADDRESS)
    path = PACKAGES / name
    if not name:
        route.fulfill(body=PAGE, content_type="text/html")
    elif path.is_file():
        kind = mimetypes.guess_type(name)[0]
        route.fulfill(body=path.read_bytes(), content_type=kind)
    else:
        route.fulfill(status=404)
