"""Every example runs: `>>>` lines of docstrings, and the Python blocks of README.md and docs/*.md.

A docstring's example sees what `from dynograd import *` gives, the names of its module, and `dynograd`, `torch` (the same),
`tensor` and `xp` (`dynograd.array_api`). A Markdown file is typed in from top to bottom: its blocks share one namespace that
starts empty, so that a reader can do the same. A block is left out when the line above it is `<!-- not run: reason -->`.
"""

import builtins
import doctest
import importlib
import inspect
import linecache
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dynograd"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+) *(?P<language>[\w+-]*)")


CHANGES_ITS_PROCESS = "dynograd.as_torch"
"""What shows this import runs in a process of its own: from then on `import torch` means dynograd there."""
ALONE = (f"import {CHANGES_ITS_PROCESS}", "from dynograd.ops.op import")
"""Pages with one of these run in a process of their own: the second adds ops to the table, which other tests read."""


def module_names():
    names = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if "__pycache__" not in parts and parts[-1] != "__main__":
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def markdown_files():
    return [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if path.exists()]


@pytest.fixture
def in_an_empty_folder(tmp_path, monkeypatch):
    """Examples may write files, and find the project's `examples` folder beside them."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    # For each example doctest's debugger looks whether any file that was ever shown has changed; none does meanwhile.
    monkeypatch.setattr(linecache, "checkcache", lambda filename=None: None)


@pytest.mark.parametrize("name", module_names())
def test_docstring_examples(name, in_an_empty_folder):
    if name.startswith("dynograd.onnx."):
        pytest.importorskip("onnx", reason="needs the extra onnx")
    if name.startswith(CHANGES_ITS_PROCESS):
        alone("docstring_failures", name) if ".site." not in name else None
        return
    failures = docstring_failures(name)
    assert not failures, "\n".join(failures)


OF_EXTRAS = {"dynograd.tools.web.http": "starlette", "dynograd.tools.web.metrics": "prometheus_client"}


def docstring_failures(name):
    if name in OF_EXTRAS:
        pytest.importorskip(OF_EXTRAS[name], reason="the extra serve is not installed")
    module = importlib.import_module(name)
    examples = [(owner, text, line) for owner, text, line in docstrings(module) if ">>>" in text]
    if not examples:
        return []
    names = public_names() | vars(module) | aliases() | {"__name__": "__main__"}  # as typed in by a user
    failures = []
    for owner, text, line in examples:
        failures += run_examples(text, dict(names), owner, module.__file__, line)
    return failures


@pytest.mark.parametrize("path", markdown_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_markdown_examples(path, in_an_empty_folder):
    if any(words in path.read_text() for words in ALONE):
        return alone("markdown_failures", str(path))
    failures = markdown_failures(path)
    assert not failures, "\n".join(failures)


def markdown_failures(path):
    return run_markdown(Path(path).read_text(), Path(path).name)[0]


def alone(function, argument):
    """Calls a function of this file in a process of its own; it gives what failed."""
    program = f"from tests import test_docs\nfailures = test_docs.{function}({argument!r})\nassert not failures, '\\n'.join(failures)"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def public_names():
    """What `from dynograd import *` gives. Python's own names stay what they are (`float`), except for functions (`sum`)."""
    import dynograd

    return {
        name: value
        for name, value in vars(dynograd).items()
        if not name.startswith("_")
        and name != "range"  # Python's, which examples count with
        and (not hasattr(builtins, name) or isinstance(value, types.FunctionType))
    }


def aliases():
    import dynograd

    return {"dynograd": dynograd, "torch": dynograd, "tensor": dynograd.tensor, "xp": dynograd.array_api}


def docstrings(module):
    """(name, docstring, line) of the module and all that it defines; the line, which is slow to find, only where there are examples."""
    if module.__doc__:
        yield module.__name__, module.__doc__, 1
    for name, value in list(vars(module).items()):
        if hasattr(value, "op") and module.__name__ == "dynograd":
            continue  # the form of an op with out=; its examples are those of the op
        if getattr(value, "__module__", None) == module.__name__:
            yield from docstrings_of(f"{module.__name__}.{name}", value)


def docstrings_of(name, value):
    text = getattr(value, "__doc__", None)
    if isinstance(text, str) and (isinstance(value, type) or text is not type(value).__doc__):
        yield name, inspect.cleandoc(text), line_of(value) if ">>>" in text else 1
    if isinstance(value, type):
        for attribute, member in list(vars(value).items()):
            if isinstance(member, (types.FunctionType, property, classmethod, staticmethod)):
                yield from docstrings_of(f"{name}.{attribute}", member)


def line_of(value):
    try:
        return inspect.getsourcelines(inspect.unwrap(getattr(value, "fget", None) or value))[1]
    except (OSError, TypeError):
        return 1


def run_examples(text, names, owner, file, line):
    """What went wrong when the `>>>` lines of `text` were typed in, as doctest tells it."""
    example = doctest.DocTestParser().get_doctest(text, names, owner, file, line - 1)
    example.globs = names  # not a copy: what is typed in stays
    said = []
    doctest.DocTestRunner(optionflags=FLAGS).run(example, out=said.append, clear_globs=False)
    return said


def run_markdown(text, file):
    """Runs a file's blocks in order; (failures, number of blocks that ran)."""
    names = {"__name__": "__main__"}
    failures, count = [], 0
    for line, block in python_blocks(text, file):
        count += 1
        if ">>>" in block:
            failures += run_examples(block, names, file, file, line)
        else:
            exec(compile("\n" * (line - 1) + block, file, "exec"), names)
    return failures, count


def python_blocks(text, file):
    """(first line, text) of the fenced blocks that are Python, or that hold `>>>` lines whatever they are called."""
    lines = text.splitlines()
    position = 0
    while position < len(lines):
        opening = FENCE.match(lines[position])
        start = position + 1
        position = start
        if not opening:
            continue
        while position < len(lines) and lines[position].strip() != opening["fence"]:
            position += 1
        if position == len(lines):
            raise ValueError(f"{file}:{start}: this block has no end")
        block = [line.removeprefix(opening["indent"]) for line in lines[start:position]]
        position += 1
        prompt = any(line.startswith(">>> ") for line in block)
        left_out = start >= 2 and re.match(r" *<!-- not run: .+ -->", lines[start - 2])
        if (prompt or opening["language"] in ("python", "py")) and not left_out:
            yield start + 1, "\n".join(block) + "\n"


# ---------------------------------------------------------------- the runner itself


PAGE = """
# A page
```sh
make demo
```
```python
x = 2
```
Then
```
>>> y = x + 1
>>> y
{answer}
```
```py
assert y == 3
```
<!-- not run: it would take an hour -->
```python
raise RuntimeError
```
"""


def test_markdown_blocks_share_their_names():
    assert run_markdown(PAGE.format(answer=3), "page.md") == ([], 3)


def test_a_wrong_answer_is_told_with_its_line():
    (failure,), _ = run_markdown(PAGE.format(answer=4), "page.md")
    assert 'File "page.md", line 12' in failure
    assert "Expected:\n    4\nGot:\n    3" in failure


def test_a_block_that_raises_fails():
    with pytest.raises(ZeroDivisionError):
        run_markdown("```python\n1 / 0\n```\n", "page.md")


def test_a_block_without_end_is_an_error():
    with pytest.raises(ValueError, match=r"page\.md:2: this block has no end"):
        run_markdown("text\n```python\nx = 1\n", "page.md")


def test_docstrings_of_methods_and_properties_are_found():
    module = types.ModuleType("shed")
    module.__doc__ = "about the shed"
    exec(
        'class Tool:\n    "a tool"\n    def use(self):\n        "uses it"\n'
        '    @property\n    def age(self):\n        "its age"\n',
        vars(module),
    )
    module.Tool.__module__ = "shed"
    assert [text for _, text, _ in docstrings(module)] == ["about the shed", "a tool", "uses it", "its age"]
