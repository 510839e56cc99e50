"""The built site in a real browser: search leads to the page of RaggedTensor, nothing is wider than a phone, the console stays empty.

Needs `make site`, and Chromium with the package playwright (`pip install playwright`); a browser of the system is used when there is one.
DYNOGRAD_SITE_PICTURES=FOLDER also writes screenshots of the main pages: light, dark and as wide as a phone.
"""

import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "build" / "site"
PAGES = """index getting-started ragged ragged-layers coming-from-keras how-to/profiling tutorials/graphs autobatch benchmarks support packages changelog architecture coming-from-pytorch
    api/index api/module-dynograd api/module-nn api/nn.Linear api/RaggedTensor api/Tensor api/optim.AdamW tutorials/index
    tutorials/sentences tutorials/trees how-to/index more/ops""".split()
PHONE = {"width": 380, "height": 800}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site is not built: make site"),
]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(SITE)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    with api.sync_playwright() as playwright:
        system = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        try:
            browser = playwright.chromium.launch(executable_path=system, args=["--no-sandbox"])
        except api.Error as error:
            pytest.skip(f"no Chromium starts here: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A page whose errors, and whose requests beyond this machine, fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints = []
    page.on(
        "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: None if _is_local(request.url) else complaints.append(request.url))
    yield page
    context.close()
    assert complaints == []


def _is_local(url):
    return url.startswith(("http://127.0.0.1:", "data:", "blob:", "file://"))


@pytest.mark.parametrize("opened", ["http", "file"])
def test_search_leads_to_the_ragged_tensor(page, address, opened):
    page.goto(f"{address}/index.html" if opened == "http" else f"{SITE.as_uri()}/index.html")
    page.fill("input[name=q]", "ragged")
    page.press("input[name=q]", "Enter")
    link = page.locator("#search-results a", has_text="RaggedTensor").first
    link.wait_for()
    page.wait_for_function("() => /found|matching/.test(document.querySelector('#search-results').innerText)")
    link.click()
    page.wait_for_url("**/api/RaggedTensor.html*")
    assert page.locator("h1").inner_text().startswith("RaggedTensor")
    assert page.locator("dl.py.class").count() == 1


def test_nothing_is_wider_than_a_phone(page, address):
    page.set_viewport_size(PHONE)
    wide = {}
    for name in PAGES:
        page.goto(f"{address}/{name}.html")
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > PHONE["width"]:
            wide[name] = width
    assert wide == {}


def test_links_of_a_page_of_the_reference(page, address):
    page.goto(f"{address}/api/nn.Linear.html")
    page.get_by_role("link", name="source").first.click()
    page.wait_for_url("**/source/dynograd/nn/layers/linear.py.html#L*")
    assert "class Linear" in page.locator("b:target").inner_text()
    page.go_back()
    page.get_by_role("link", name="dynograd.nn", exact=True).first.click()
    page.wait_for_url("**/api/module-nn.html")


@pytest.mark.skipif(
    "DYNOGRAD_SITE_PICTURES" not in os.environ, reason="DYNOGRAD_SITE_PICTURES names no folder for screenshots"
)
def test_pictures(browser, address):
    folder = Path(os.environ["DYNOGRAD_SITE_PICTURES"])
    for scheme, size in (("light", (1280, 1400)), ("dark", (1280, 1400)), ("phone", (380, 1200))):
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if scheme == "dark" else "light"
        )
        page = context.new_page()
        for name in PAGES:
            page.goto(f"{address}/{name}.html")
            page.screenshot(path=str(folder / f"{name.replace('/', '-')}-{scheme}.png"))
        context.close()
