"""The page that reads a drawn digit, in Node and in Chromium."""

import json
import os
import re
import shutil
import subprocess
import threading
import urllib.request

import numpy as np
import pytest

from examples.web import model, serve

# A drawing of each digit, other than the examples of the page. "27" is the
# point x = .2, y = .7.
LINES = {
    0: ["51322426375766645351"],
    1: ["5158"],
    2: ["2332516263542777"],
    3: ["225162635445566768582837"],
    4: ["312474", "5158"],
    5: ["713234445667685837"],
    6: ["61423437486867655537"],
    7: ["217148"],
    8: ["73614132334566675837364463"],
    9: ["62413233445463626358"],
}
READY = "#answer:not(:text('Loading'))"


def points(line):
    return [(int(x) / 10, int(y) / 10) for x, y in re.findall("(.)(.)", line)]


def pixels(strokes):
    """The pixels of `pixels.js`, from Node."""
    node = shutil.which("node") or pytest.skip("`node` is not installed")
    script = (
        f"import {{ toPixels }} from '{(serve.WEB / 'pixels.js').as_uri()}';"
        f"console.log(JSON.stringify([...toPixels({json.dumps(strokes)})]))"
    )
    command = [node, "--input-type=module", "-e", script]
    output = subprocess.run(command, capture_output=True, check=True).stdout
    return np.array(json.loads(output)).reshape(28, 28)


def test_a_drawing_is_scaled_and_centred_as_mnist():
    """A box of 20×20 pixels, its centre of mass in the middle of 28×28."""
    corner = [[[0.1, 0.1], [0.1, 0.3], [0.2, 0.3]]]
    large = [[[0.2, 0.1], [0.2, 0.9], [0.6, 0.9]]]
    found = pixels(corner)
    rows, columns = np.nonzero(found > 0.1)
    assert np.ptp(rows) + 1 in (19, 20, 21)
    assert 9 <= np.ptp(columns) + 1 <= 13
    centre = [np.average(axis, weights=found) for axis in np.indices((28, 28))]
    np.testing.assert_allclose(centre, 13.5, atol=0.2)
    np.testing.assert_allclose(found, pixels(large), atol=1e-5)
    assert found.min() == 0 and found.max() == 1


def test_an_empty_drawing_is_black_and_a_dot_stays_small():
    assert not pixels([]).any()
    assert 4 < pixels([[[0.5, 0.5]]]).sum() < 12


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the page, with networks that were trained briefly."""
    if not os.environ.get("KERAS_LAB_DATA"):
        pytest.skip("MNIST is not in the folder KERAS_LAB_DATA")
    if not (serve.PACKAGES.is_dir() or shutil.which("npm")):
        pytest.skip("`npm` is not installed")
    folder = tmp_path_factory.mktemp("web")
    try:
        serve.build(folder)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"npm cannot install LiteRT.js: {error}")
    output = str(folder / "models")
    model.main(["--digits", "20000", "--epochs", "2", "--output", output])
    with serve.server(0, folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", folder
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("`chromium` is not installed")
    with playwright.sync_playwright() as started:
        # As root, Chromium has no sandbox.
        arguments = ["--no-sandbox", "--disable-gpu"]
        with started.chromium.launch(
            executable_path=path, args=arguments
        ) as browser:
            yield browser


@pytest.fixture
def page(site, browser):
    page = browser.new_page(viewport={"width": 360, "height": 740})
    page.requests, errors = [], []
    page.on("request", lambda request: page.requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(error))
    page.goto(site[0])
    page.wait_for_selector(READY)
    yield page
    page.close()
    assert not errors


def draw(page, lines):
    box = page.locator("#canvas").bounding_box()
    for line in lines:
        (x, y), *others = [
            (box["x"] + x * box["width"], box["y"] + y * box["height"])
            for x, y in points(line)
        ]
        page.mouse.move(x, y)
        page.mouse.down()
        for x, y in others:
            page.mouse.move(x, y, steps=4)
        page.mouse.up()


def answer(page):
    """The digit, once the stroke has been read to its end."""
    page.wait_for_timeout(300)
    assert page.get_attribute("#answer", "aria-busy") == "false"
    return page.inner_text("#answer")


def cell(page, row, file="digits.tflz"):
    return page.inner_text(f"[id='{row} {file}']")


@pytest.mark.slow
def test_drawn_digits_and_examples_are_read(page):
    drawn, shown = [], []
    for digit, lines in LINES.items():
        page.click("#clear")
        draw(page, lines)
        drawn.append(answer(page))
        page.get_by_role("button", name=f"Draw a {digit}").click()
        shown.append(answer(page))
    for read in (drawn, shown):
        assert sum(text == str(i) for i, text in enumerate(read)) >= 9, read


@pytest.mark.slow
def test_a_digit_is_drawn_and_removed_by_keyboard(page):
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "canvas":
            break
    for _ in range(12):
        page.keyboard.press("ArrowUp")
    page.keyboard.press("Space")
    assert page.inner_text("#pen") == "Pen down"
    assert page.get_attribute("#answer", "aria-busy") == "true"
    for _ in range(24):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert answer(page) == "1"
    page.keyboard.press("Backspace")
    assert answer(page) == "Draw a digit from 0 to 9."
    page.keyboard.press("Space")
    page.keyboard.press("Backspace")
    assert page.inner_text("#pen") == "Pen up"
    page.hover("#canvas")
    page.mouse.down()
    page.keyboard.press("Delete")
    page.mouse.move(0, 0)
    assert answer(page) == "Draw a digit from 0 to 9."


@pytest.mark.slow
def test_the_table_shows_bytes_and_times_and_nothing_is_cut_off(page, site):
    draw(page, LINES[7])
    assert answer(page) == "7"
    for name in model.MODELS:
        size = (site[1] / "models" / name).stat().st_size
        assert cell(page, "bytes", name) == f"{size / 1000:,.0f} kB"
        assert cell(page, "answer", name).startswith("7 (")
        assert 0 < float(cell(page, "run", name).split()[0]) < 100
        assert float(cell(page, "accuracy", name)[:-1]) > 90
    assert 0 < float(cell(page, "expanded").split()[0]) < 1000
    # Nothing comes from elsewhere.
    assert all(url.startswith((site[0], "data:")) for url in page.requests)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]


@pytest.mark.slow
def test_a_damaged_file_is_an_error_on_the_page(site, browser):
    page = browser.new_page()
    content = bytearray((site[1] / "models/digits.tflz").read_bytes())
    content[-1] ^= 1
    page.route("**/digits.tflz", lambda r: r.fulfill(body=bytes(content)))
    page.goto(site[0])
    page.wait_for_selector("#answer.error")
    assert "Damaged container" in page.inner_text("#answer")
    page.close()


def test_only_this_machine_reaches_the_server_and_timers_are_precise(tmp_path):
    (tmp_path / "app.js").write_text("1")
    with serve.server(0, tmp_path) as server:
        assert server.server_address[0] == "127.0.0.1"
        threading.Thread(target=server.handle_request, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/app.js"
        with urllib.request.urlopen(address, timeout=10) as response:
            headers = response.headers
    assert headers["Content-Type"] == "text/javascript"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"


def test_a_missing_npm_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(serve, "PACKAGES", tmp_path / "absent")
    monkeypatch.setattr(serve.shutil, "which", lambda name: None)
    assert serve.main(["--port", "0"]) == 1
    assert "npm must be installed" in capsys.readouterr().err
