"""Pages of source: the files that pages of the site link to, each line with an anchor (`source/dynograd/nn/layers/linear.py.html#L12`)."""

from __future__ import annotations

import html
import os
import posixpath
from pathlib import Path

from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, String

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title><link rel="icon" href="{icon}"><link rel="stylesheet" href="{style}"></head>
<body><main><h1>{name}</h1><p><a href="{home}">dynograd</a></p><pre>
{code}
</pre></main></body></html>
"""
STYLE = """:root { color-scheme: light dark; }
body { font-family: system-ui, sans-serif; margin: 1rem; }
h1 { font-size: 1.1rem; }
pre { overflow-x: auto; line-height: 1.4; counter-reset: line; }
pre b { font-weight: inherit; }
pre b::before { counter-increment: line; content: counter(line); display: inline-block; width: 3.5em; margin-right: 1em; text-align: right; opacity: .5; }
pre b:target { background: light-dark(#fff3b0, #4a4420); }
i { font-style: normal; } .c { color: light-dark(#5f6b6b, #9aa5a5); } .s { color: light-dark(#3a6e3a, #98c379); } .k { color: light-dark(#7a2f8f, #d19be8); }
"""
KINDS = ((Comment, "c"), (String, "s"), (Keyword, "k"))


class SourcePages:
    """Collects which files of the project are linked to, and writes a page for each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: set[str] = set()

    def address(self, file: str, line: int | None = None) -> str:
        """The address, from the site's top, of the page of a file given relative to the project; it will be written."""
        self.files.add(file)
        return f"source/{file}.html" + (f"#L{line}" if line else "")

    def write(self, site: Path) -> None:
        (site / "source").mkdir(parents=True, exist_ok=True)
        (site / "source" / "source.css").write_text(STYLE, encoding="utf-8")
        for file in sorted(self.files):
            path = site / "source" / f"{file}.html"
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (self.root / file).read_text(encoding="utf-8")
            here = posixpath.dirname(f"source/{file}")
            page = PAGE.format(
                name=html.escape(file),
                icon=os.path.relpath("_static/icon.svg", here),
                style=os.path.relpath("source/source.css", here),
                home=os.path.relpath("index.html", here),
                code=_lines(text, file.endswith(".py")),
            )
            path.write_text(page, encoding="utf-8")


def _lines(text: str, python: bool) -> str:
    """The text with its comments, strings and keywords marked, each line an element with the anchor L<number>."""
    if not python:
        marked = html.escape(text, quote=False).split("\n")
    else:
        marked = "".join(_marked(kind, word) for kind, word in PythonLexer(stripnl=False).get_tokens(text)).split("\n")
    return "\n".join(f"<b id=L{number}>{line}</b>" for number, line in enumerate(marked[:-1] or marked, start=1))


def _marked(kind: object, word: str) -> str:
    name = next((name for parent, name in KINDS if kind in parent), None)
    escaped = html.escape(word, quote=False)
    if name is None or not word.strip():
        return escaped
    return "\n".join(f"<i class={name}>{line}</i>" if line else "" for line in escaped.split("\n"))
