"""Checks a built site: `python -m tools.site.check build/site`. Links and anchors, texts of pictures, headings, size, nothing from the network.

tests/site/test_browser.py looks at the same pages with a browser.
"""

from __future__ import annotations

import re
import sys
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

LARGEST = 60 * 2**20
LINE_OF_SOURCE = re.compile(r"^<b id=(L\d+)>.*</b>$", re.MULTILINE)
"""A line of tools/site/sources.py: nothing but an anchor, and too many for the parser."""
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


@dataclass
class Page:
    """What the checks need of a page."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    headings: list[int] = field(default_factory=list)
    without_alt: list[str] = field(default_factory=list)
    language: str | None = None
    title: str = ""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self.in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        page = self.page
        if name := values.get("id") or (values.get("name") if tag == "a" else None):
            page.anchors.add(name)
        if tag == "a" and (address := values.get("href")):
            page.links.append(address)
        if tag == "html":
            page.language = values.get("lang")
        if tag == "title":
            self.in_title = True
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            page.headings.append(int(tag[1]))
        if tag == "img" and not (values.get("alt") or "").strip():
            page.without_alt.append(values.get("src") or "")
        if (attribute := LOADED.get(tag)) and (address := values.get(attribute)):
            page.loaded.append(address)

    def handle_endtag(self, tag: str) -> None:
        self.in_title = self.in_title and tag != "title"

    def handle_data(self, data: str) -> None:
        if self.in_title:
            self.page.title += data


def read(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    reader = _Reader()
    reader.feed(LINE_OF_SOURCE.sub("", text))
    reader.page.anchors.update(match[1] for match in LINE_OF_SOURCE.finditer(text))
    return reader.page


def problems(site: Path) -> Iterator[str]:
    """Everything that is wrong with the site, one line each."""
    pages = {path.resolve(): read(path) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site}: no page"
    for path, page in pages.items():
        name = path.relative_to(site.resolve()).as_posix()
        yield from (f"{name}: {what}" for what in _of_page(page, name))
        for address in [*page.links, *page.loaded]:
            if what := _of_link(address, path, pages):
                yield f"{name}: {what}"
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    if size > LARGEST:
        yield f"the site has {size / 2**20:.0f} MiB, more than {LARGEST / 2**20:.0f}"


def _of_page(page: Page, name: str) -> Iterator[str]:
    if not page.language:
        yield "<html> has no lang"
    if not page.title.strip():
        yield "no title"
    yield from (f"the picture {source} has no alt text" for source in page.without_alt)
    yield from (f"{address} comes from the network" for address in page.loaded if _is_external(address))
    if page.headings.count(1) != 1 and name not in ("genindex.html", "search.html"):
        yield f"{page.headings.count(1)} headings h1, not one"
    for above, below in zip(page.headings, page.headings[1:], strict=False):
        if below > above + 1:
            yield f"a heading h{below} follows an h{above}"
            break


def _is_external(address: str) -> bool:
    return address.startswith(("http:", "https:", "//"))


def _of_link(address: str, path: Path, pages: dict[Path, Page]) -> str | None:
    parts = urllib.parse.urlsplit(address)
    if parts.scheme in ("http", "https", "mailto", "data") or address == "#":
        return None
    target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return f"the link {address} leads nowhere"
    if not parts.fragment or target not in pages:
        return None
    if urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
        return f"the link {address} names no place of that page"
    return None


def main(arguments: list[str]) -> int:
    site = Path(arguments[0])
    said = list(problems(site))
    for line in said[:100]:
        print(line, file=sys.stderr)
    count = len(list(site.rglob("*.html")))
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 2**20
    print(f"site: {count} pages, {size:.1f} MiB, {len(said)} problems")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
