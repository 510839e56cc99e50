"""Prepares the written pages: copies them, turns links into those of the site, and says in which order they are listed."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from tools.site.sources import SourcePages

SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("getting-started", "coming-from-pytorch", "coming-from-jax", "coming-from-dynet", "coming-from-keras"),
    "Tutorials": ("tutorials/*",),
    "How to": ("how-to/*",),
    "Guides": (
        "ragged",
        "ragged-layers",
        "autobatch",
        "printing",
        "data",
        "modules",
        "autograd",
        "transforms",
        "optim",
        "runs",
        "debugging",
        "gpu",
        "performance",
        "compile",
        "distributed",
        "array-api",
        "pytorch-packages",
        "examples",
    ),
    "Reference": ("api/index", "support", "packages"),
    "Project": (
        "what-works",
        "architecture",
        "benchmarks",
        "reliability",
        "changelog",
        "citing",
        "contributing",
        "security",
    ),
}
"""What the side bar lists, in this order; `folder/*` is every page of the folder, in the order in which its index or docs/index.md links to them."""

OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "examples/data/README.md": "more/examples-data.md",
    "benchmarks/README.md": "more/benchmarks-readme.md",
    "dynograd/ops/README.md": "more/ops.md",
    "dynograd/kernels/README.md": "more/kernels.md",
    "dynograd/ragged/README.md": "more/ragged.md",
    "dynograd/interpreter/README.md": "more/interpreter.md",
    "dynograd/transforms/autobatch/README.md": "more/autobatch.md",
}
"""Pages that lie outside of docs/: where they are on the site. Those under more/ are reached by links alone."""

FENCE = re.compile(r"^ *(```+|~~~+)")
LINK = re.compile(r"(?<!!)\[((?:[^\[\]`]|`[^`]*`)+)\]\(([^()\s]+)\)")
FIGURE = re.compile(r"^<!-- figure ([\w./-]+\.svg): (.+) -->$", re.MULTILINE)
"""A picture that is drawn when the site is built; in tutorials and how-to pages run_pages.py sets it."""
ADDRESS = re.compile(r"^(?:[a-z]+:|#)")


class PageError(Exception):
    """A page that cannot be put on the site; the message says which and why."""


def prepare(root: Path, prepared: Path, sources: SourcePages) -> None:
    """Copies all pages and pictures to `prepared`, with the links of the site, and appends the lists of pages to the first."""
    places = page_places(root)
    for file, place in places.items():
        text = (root / file).read_text(encoding="utf-8")
        text = with_links(text, file, places, root, sources)
        if not place.startswith(("tutorials/", "how-to/")):
            text = FIGURE.sub(r"![\2](\1)", text)
        if place.startswith("more/"):
            text = f"---\norphan: true\n---\n\n{text}"
        target = prepared / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for picture in (root / "docs").rglob("*.svg"):
        target = prepared / picture.relative_to(root / "docs")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(picture.read_bytes())
    with (prepared / "index.md").open("a", encoding="utf-8") as index:
        index.write("\n" + "\n".join(toctrees(root)))


def page_places(root: Path) -> dict[str, str]:
    """From each file that is a page, relative to the project, to its place on the site."""
    docs = {f"docs/{path.relative_to(root / 'docs')}" for path in (root / "docs").rglob("*.md")}
    return {file: file.removeprefix("docs/") for file in sorted(docs)} | OUTSIDE


def listed(root: Path) -> dict[str, list[str]]:
    """The pages of each section of the side bar, as they are on the site, without ending."""
    return {
        title: [page for entry in entries for page in _pages_of(root, entry)] for title, entries in SECTIONS.items()
    }


def _pages_of(root: Path, entry: str) -> list[str]:
    if not entry.endswith("/*"):
        return [entry]
    folder = entry.removesuffix("/*")
    names = {path.stem for path in (root / "docs" / folder).glob("*.md")}
    order = [name for name in _names_linked(root, folder) if name in names]
    return [f"{folder}/{name}" for name in [*dict.fromkeys(order), *sorted(names - {*order})]]


def _names_linked(root: Path, folder: str) -> Iterator[str]:
    """Names of the folder's pages in the order in which its index, or else the first page, links to them."""
    if (root / "docs" / folder / "index.md").exists():
        yield "index"
        text, prefix = (root / "docs" / folder / "index.md").read_text(encoding="utf-8"), ""
    else:
        text, prefix = (root / "docs" / "index.md").read_text(encoding="utf-8"), f"{folder}/"
    yield from re.findall(rf"\]\({prefix}([\w-]+)\.md\)", text)


def toctrees(root: Path) -> Iterator[str]:
    """Sphinx's lists of pages, hidden: they make the side bar."""
    for title, names in listed(root).items():
        yield f"```{{toctree}}\n:hidden:\n:caption: {title}\n"
        yield from names
        yield "```\n"


def with_links(text: str, file: str, places: dict[str, str], root: Path, sources: SourcePages) -> str:
    """The page's text with links between files turned into links between pages; a file that is no page gets a page of source."""
    here = posixpath.dirname(places[file])

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        if ADDRESS.match(target):
            return match[0]
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        if path in places:
            address = os.path.relpath(places[path], here or ".")
            return f"[{words}]({address}{'#' * bool(anchor)}{anchor})"
        if not (root / path).is_file():
            raise PageError(f"{file} links to {target}, but there is no file {path}.")
        return f'<a href="{os.path.relpath(sources.address(path), here or ".")}">{words}</a>'

    lines, fence = [], None
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if mark and (fence is None or mark[1].startswith(fence)):
            fence = mark[1] if fence is None else None
        lines.append(line)
        if mark or fence is not None:
            lines[-1] = "\0" + line  # stays as it is
    prose = re.split(r"((?:^\0.*\n?)+)", "\n".join(lines), flags=re.MULTILINE)
    return "".join(part.replace("\0", "") if part.startswith("\0") else LINK.sub(link, part) for part in prose)
