"""Docstrings as Markdown: paragraphs, formulas, tables of arguments, examples with their outputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import dedent

SECTION = re.compile(
    r"^(Args|Arguments|Attributes|Inputs|Outputs|Returns|Yields|Raises|Saves|Source|Shapes?|Notes?|Examples?|See also|Warnings?):(?: (.*))?$"
)
TITLES = {"Args": "Arguments", "Saves": "Kept for backward", "Shapes": "Shape"}
OF_NAMES = {"Args", "Arguments", "Attributes", "Raises", "Inputs", "Outputs"}
CODE = re.compile(r"(`+[^`]*`+)")
SPECIAL = re.compile(r"([\\<>*_\[\]{}~$#|^&])")
ITEM = re.compile(r"^(?:[-*]|\d+\.) ")
BOLD = re.compile(r"^\*\*([^*]+)\*\*")


def as_markdown(docstring: str) -> str:
    """The docstring as Markdown for MyST; `docstring` is cleaned, as `inspect.getdoc` gives it."""
    parts = [_section(title, lines) for title, lines in _sections(docstring.split("\n"))]
    return "\n\n".join(part for part in parts if part)


def summary(docstring: str | None) -> str:
    """The first sentence, for tables, as Markdown."""
    paragraph = (docstring or "").strip().split("\n\n")[0]
    sentence = re.split(r"(?<=\.)\s+(?=[A-Z`])", " ".join(paragraph.split()))[0]
    return inline(sentence)


def inline(text: str) -> str:
    """Prose with everything that Markdown would read as markup escaped, except for `code` and a first **phrase**."""
    bold = BOLD.match(text)
    if bold:
        return f"**{inline(bold[1])}** {inline(text[bold.end() :].lstrip())}"
    pieces = CODE.split(" ".join(text.split()))
    escaped = [piece if position % 2 else SPECIAL.sub(r"\\\1", piece) for position, piece in enumerate(pieces)]
    text = "".join(escaped)
    return "\\" + text if re.match(r"[-+=]", text) else re.sub(r"^(\d+)([.)])", r"\1\\\2", text)


def _sections(lines: list[str]) -> Iterator[tuple[str | None, list[str]]]:
    """(title, lines) of the docstring's sections; the text around them has no title. A section ends where a line is not indented."""
    title: str | None = None
    body: list[str] = []
    for line in lines:
        match = SECTION.match(line)
        if match or (title and line and not line.startswith(" ")):
            yield title, body
            title, body = (match[1], [match[2]] if match[2] else []) if match else (None, [line])
        else:
            body.append(line)
    yield title, body


def _section(title: str | None, lines: list[str]) -> str:
    if title is None:
        return _blocks(lines)
    first = [lines[0]] if lines and not lines[0].startswith(" ") else []
    body = [*first, *dedent("\n".join(lines[len(first) :])).split("\n")]
    inside = _entries(body) if title in OF_NAMES else _blocks(body)
    return f":::{{rubric}} {TITLES.get(title, title)}\n:::\n\n{inside}" if inside else ""


def _entries(lines: list[str]) -> str:
    """`name (shape): text` lines as a list of definitions; what is indented below a name goes on with its text."""
    entries: list[tuple[str, list[str]]] = []
    for line in lines:
        if line and not line.startswith(" "):
            name, text = _split_name(line)
            entries.append((name, [text]))
        elif entries:
            entries[-1][1].append(line)
    return "\n".join(_definition(name, text) for name, text in entries)


def _split_name(line: str) -> tuple[str, str]:
    match = re.match(r"((?:[^:(]|\([^)]*\))+):(?: |$)(.*)", line)
    return (match[1], match[2]) if match else ("", line)


def _definition(name: str, lines: list[str]) -> str:
    inside = _blocks([lines[0], *dedent("\n".join(lines[1:])).split("\n")])
    if not name:
        return inside + "\n"
    word, bracket, shape = name.partition(" (")
    term = ", ".join(f"`{part.strip()}`" for part in word.split(",")) + (" " + inline(f"({shape}") if bracket else "")
    body = "\n".join(f"  {line}" if line else "" for line in inside.split("\n"))
    return f"{term}\n: {body.strip() or '–'}\n"


def _blocks(lines: list[str]) -> str:
    """Paragraphs, lists, indented formulas, fenced blocks and examples."""
    blocks: list[str] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        start = position
        if not line.strip():
            position += 1
        elif line.lstrip().startswith(">>> "):
            while position < len(lines) and lines[position].strip():
                position += 1
            blocks.append(_fenced("pycon", lines[start:position]))
        elif line.lstrip().startswith("```"):
            position = next((i for i in range(start + 1, len(lines)) if lines[i].strip() == "```"), len(lines)) + 1
            blocks.append(_fenced("python" if "py" in line else "text", lines[start + 1 : position - 1]))
        elif line.startswith("  "):
            while position < len(lines) and (lines[position].startswith("  ") or not lines[position].strip()):
                position += 1
            blocks.append(_fenced("text", lines[start:position]))
        elif ITEM.match(line):
            position += 1
            while position < len(lines) and lines[position].startswith(" "):
                position += 1
            mark, text = line.split(" ", 1)
            blocks.append(f"{mark} {inline(' '.join([text, *lines[start + 1 : position]]))}")
        else:
            position += 1
            while position < len(lines) and _goes_on(lines[position]):
                position += 1
            blocks.append(inline(" ".join(lines[start:position])))
    return "\n\n".join(blocks)


def _goes_on(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("  ") and not line.startswith(">>> ") and not ITEM.match(line)


def _fenced(language: str, lines: list[str]) -> str:
    return f"````{language}\n" + dedent("\n".join(lines)).strip("\n") + "\n````"
