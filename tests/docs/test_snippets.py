"""Every Python snippet of the README and the documentation runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
PAGES = {
    path.relative_to(ROOT).as_posix(): SNIPPET.findall(path.read_text())
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
}
# The page that a new user sees runs by default, the others with the slow tests.
PARAMETERS = [
    pytest.param(page, marks=[] if page == "README.md" else pytest.mark.slow)
    for page in PAGES
    if PAGES[page]
]


@pytest.mark.parametrize("page", PARAMETERS)
def test_the_snippets_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for number, snippet in enumerate(PAGES[page], start=1):
        code = compile(snippet, f"{page}, snippet {number}", "exec")
        exec(code, namespace)
