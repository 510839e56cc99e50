"""Runs the Python blocks of tutorials and how-to pages, and puts what each printed and drew below it.

A page is typed in from top to bottom, in a process and a folder of its own that has `examples` in it, as tests/test_docs.py does.
A picture is a file `NAME.svg` that a block writes; the line below the block says what it shows:
`<!-- figure NAME.svg: text for who cannot see it -->`. There the picture stands on the site.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

FOLDERS = ("tutorials", "how-to")
OPENING = re.compile(r"^(```+)(python|py|pycon)?\s*$")
FIGURE = re.compile(r"^<!-- figure ([\w.-]+\.svg): (.+) -->$")
LEFT_OUT = re.compile(r"^<!-- not run: .+ -->$")
LONGEST_OUTPUT = 60
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
STYLE = {
    "figure.figsize": (7.0, 3.0),
    "figure.facecolor": "white",
    "savefig.bbox": "tight",
    "svg.fonttype": "path",
    "svg.hashsalt": "dynograd",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass
class Block:
    """A block of Python on a page, with what its run gave."""

    first: int  # index of the first line of the program
    end: int  # index of the closing fence
    program: str
    output: str = ""
    figures: list[str] = field(default_factory=list)


def run_all(root: Path, prepared: Path, run: bool = True) -> None:
    """Runs every page of the folders, two at a time, and writes them anew with their results; `run=False` only draws nothing."""
    paths = [path for folder in FOLDERS for path in sorted((prepared / folder).glob("*.md"))]
    if not run:
        for path in paths:
            text = path.read_text(encoding="utf-8")
            path.write_text("\n".join(line for line in text.split("\n") if not FIGURE.match(line)), encoding="utf-8")
        return
    with ThreadPoolExecutor(2) as pool:
        problems = [problem for problem in pool.map(lambda path: _run_in_process(root, path), paths) if problem]
    if problems:
        raise SystemExit("\n\n".join(problems))


def _run_in_process(root: Path, path: Path) -> str | None:
    environment = os.environ | {"PYTHONPATH": str(root), "MPLBACKEND": "Agg", "DYNOGRAD_QUIET": "1"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").symlink_to(root / "examples")
        command = [sys.executable, "-m", "tools.site.run_pages", str(path)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            return f"site: {path.parent.name}/{path.name} does not run:\n{done.stderr[-3000:]}"
        blocks = [Block(**row) for row in json.loads((Path(folder) / "blocks.json").read_text(encoding="utf-8"))]
        text, problems = with_results(path.read_text(encoding="utf-8"), blocks, f"{path.parent.name}/{path.name}")
        for name in {name for block in blocks for name in block.figures}:
            shutil.copy(Path(folder) / name, path.parent / name)
    path.write_text(text, encoding="utf-8")
    return "\n".join(problems) or None


def blocks_of(text: str) -> list[Block]:
    """The blocks of Python in a page's text, without those that are not run."""
    lines, blocks, position = text.split("\n"), [], 0
    while position < len(lines):
        opening = OPENING.match(lines[position])
        if not (opening or lines[position].startswith("```")):
            position += 1
            continue
        fence = re.match("`+", lines[position])[0]
        end = next(index for index in range(position + 1, len(lines)) if lines[index].strip() == fence)
        program = "\n".join(lines[position + 1 : end]) + "\n"
        left_out = position > 0 and LEFT_OUT.match(lines[position - 1])
        if not left_out and opening and (opening[2] or program.startswith(">>> ")):
            blocks.append(Block(position + 1, end, program))
        position = end + 1
    return blocks


def run_blocks(blocks: list[Block], name: str) -> None:
    """Runs the blocks in one namespace and notes what each printed and which pictures it wrote."""
    names = {"__name__": "__main__"}
    for block in blocks:
        before = _pictures()
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            if ">>>" in block.program:
                example = doctest.DocTestParser().get_doctest(block.program, names, name, name, block.first)
                example.globs = names
                runner = doctest.DocTestRunner(optionflags=FLAGS)
                problems: list[str] = []
                if runner.run(example, out=problems.append, clear_globs=False).failed:
                    raise SystemExit("".join(problems))
            else:
                exec(compile("\n" * block.first + block.program, name, "exec", dont_inherit=True), names)
        block.output = said.getvalue()
        block.figures = sorted(file for file, age in _pictures().items() if before.get(file) != age)


def _pictures() -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in Path.cwd().glob("*.svg")}


def with_results(text: str, blocks: list[Block], name: str) -> tuple[str, list[str]]:
    """The page's text with outputs and pictures below the blocks; and what is wrong with its pictures."""
    lines, problems = text.split("\n"), []
    drawn = {figure for block in blocks for figure in block.figures}
    described = set()
    for index, line in enumerate(lines):
        if match := FIGURE.match(line.strip()):
            described.add(match[1])
            lines[index] = f"\n![{match[2]}]({match[1]})\n"
            if match[1] not in drawn:
                problems.append(f"site: {name}: no block writes {match[1]}, which a line describes.")
    for missing in sorted(drawn - described):
        problems.append(
            f"site: {name}: {missing} needs a line `<!-- figure {missing}: what it shows -->` below its block."
        )
    for block in reversed(blocks):
        if block.output.strip():
            lines[block.end] += "\n\n" + _as_output(block.output)
    return "\n".join(lines), problems


def _as_output(text: str) -> str:
    rows = text.rstrip().split("\n")
    if len(rows) > LONGEST_OUTPUT:
        rows = [*rows[: LONGEST_OUTPUT - 10], "...", *rows[-9:]]
    return ":::{container} output\n````text\n" + "\n".join(rows) + "\n````\n:::\n"


def main(path: str) -> None:
    import matplotlib

    matplotlib.rcParams.update(STYLE)
    blocks = blocks_of(Path(path).read_text(encoding="utf-8"))
    run_blocks(blocks, Path(path).name)
    Path("blocks.json").write_text(json.dumps([asdict(block) for block in blocks]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
