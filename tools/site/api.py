"""The API reference: a page for each public function and class, written from its docstring and signature when the site is built."""

from __future__ import annotations

import builtins
import inspect
import json
import keyword
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.site import constants
from tools.site.docstrings import as_markdown, summary
from tools.site.name_table import TABLE
from tools.site.public_names import MODULES, Entry, entries, members, module_of, op_of, public, written
from tools.site.signatures import signature_of
from tools.site.sources import SourcePages

ROOT = Path(__file__).resolve().parents[2]
FIRST = frozenset(
    "Tensor RaggedTensor tensor ragged_tensor ragged_from_padded zeros ones full arange rand randn from_numpy no_grad "
    "autobatch cell batched Run save_run load_run save load manual_seed use_batch_invariant summary visualize set_printoptions cat stack where".split()
)
"""What the page of `dynograd` lists before its families of functions."""
OLDER = re.compile(r"\w+(?:Storage|Type)|(?!Ragged)\w+Tensor")
ORDER = {"What most programs use": 0, "Classes": 1, "Other functions": 3, "Older names": 4}
ORPHAN = "---\norphan: true\n---\n\n"


class Reference:
    """The public objects with their pages."""

    def __init__(self, sources: SourcePages) -> None:
        self.sources = sources
        self.by_identity = entries()
        self.pages: dict[str, str] = {}
        taken: set[str] = {f"api/{page_of_module(path)}".lower() for path in MODULES} | {"api/index", constants.PAGE}
        for entry in self.by_identity.values():
            page = f"api/{entry.name}"
            while page.lower() in taken:  # some file systems do not tell Tensor.html from tensor.html
                page += "_"
            taken.add(page.lower())
            self.pages[entry.name] = page
        ops = [entry.name for entry in self.by_identity.values() if op_of(entry.value) is not None]
        self.functions = {name: self.pages[name] for name in ops}

    def page(self, value: Any) -> str | None:
        entry = self.by_identity.get(id(value))
        return self.pages[entry.name] if entry else None

    def described_base(self, value: type, name: str) -> Entry | None:
        """The class with a page of its own from which `value` has the member `name`; None where it has it from nowhere else."""
        if name in vars(value):
            return None
        bases = (base for base in value.__mro__[1:] if id(base) in self.by_identity and hasattr(base, name))
        base = next(bases, None)
        return None if base is None else self.by_identity[id(base)]

    def source(self, value: Any) -> str | None:
        """The address of the line where the object is written, seen from the folder api/."""
        try:
            target = written(value)
            file = inspect.getsourcefile(target)
            line = inspect.getsourcelines(target)[1]
        except (OSError, TypeError):
            return None
        if file is None or not Path(file).is_relative_to(ROOT):
            return None
        return "../" + self.sources.address(os.path.relpath(file, ROOT), line or 1)


def write_pages(prepared: Path, sources: SourcePages) -> None:
    """Writes api/*.md and the table of names that texts may link to."""
    reference = Reference(sources)
    (prepared / "api").mkdir(exist_ok=True)
    for entry in reference.by_identity.values():
        text = "\n".join(page_of_entry(entry, reference))
        (prepared / f"{reference.pages[entry.name]}.md").write_text(text, encoding="utf-8")
    for path in MODULES:
        text = "\n".join(module_page(path, reference))
        (prepared / "api" / f"{page_of_module(path)}.md").write_text(text, encoding="utf-8")
    (prepared / f"{constants.PAGE}.md").write_text("\n".join(constants.page()), encoding="utf-8")
    (prepared / "api" / "index.md").write_text("\n".join(index_page()), encoding="utf-8")
    (prepared / TABLE).write_text(json.dumps(names_table(reference)), encoding="utf-8")


def page_of_module(path: str) -> str:
    return f"module-{path}" if path else "module-dynograd"


def names_table(reference: Reference) -> dict[str, str]:
    """What a text may call each object. A short name counts where it is a class's and only one object has it."""
    table: dict[str, str] = {}
    short: dict[str, set[str]] = {}
    for entry in reference.by_identity.values():
        page = reference.pages[entry.name]
        for name in entry.names:
            last = name.rpartition(".")[2]
            short.setdefault(last, set()).add(page)
            if "." in name:
                table.setdefault(name, page)
                if name.startswith("nn.functional."):
                    table.setdefault(f"F.{last}", page)
            elif len(name) > 3 and not keyword.iskeyword(name) and not hasattr(builtins, name):
                table.setdefault(name, page)
    for name, pages in short.items():
        if len(pages) == 1 and name[0].isupper() and len(name) > 2:
            table.setdefault(name, next(iter(pages)))
    for path in filter(None, MODULES):
        names = [path] if "." in path or path in ("nn", "optim") else []
        for name in [*names, f"dynograd.{path}", f"torch.{path}"]:  # `data` alone is mostly an argument
            table.setdefault(name, f"api/{page_of_module(path)}")
    for name in constants.names():
        plain = [name] if name[-1].isdigit() or "_" in name else []  # `float` alone is Python's
        for full in (f"dynograd.{name}", f"torch.{name}", *plain):
            table.setdefault(full, constants.PAGE)
    return table


def index_page() -> Iterator[str]:
    yield "# API reference\n"
    yield "A page for each public function and class, written from its docstring. Examples show what they give; the tests run them.\n"
    yield "| module | what is in it |\n| --- | --- |"
    for path, what in MODULES.items():
        yield f"| [`dynograd{'.' * bool(path)}{path}`]({page_of_module(path)}.md) | {what} |"
    yield "| [dtypes and constants](constants.md) | `dynograd.float32`, `dynograd.pi` and their like |"
    yield "\nWhat each op can do (gradients of which order, `vmap`, ragged tensors, GPU) is in the table [What is supported](../support.md).\n"
    yield "```{toctree}\n:hidden:\n"
    for path in MODULES:
        yield f"dynograd{'.' * bool(path)}{path} <{page_of_module(path)}>"
    yield "constants"
    yield "```\n"


def module_page(path: str, reference: Reference) -> Iterator[str]:
    """The public names of a module in tables, functions of ops by family."""
    yield f"# dynograd{'.' * bool(path)}{path}\n"
    yield f"{MODULES[path]}\n"
    if not path:
        yield "dtypes, layouts, memory formats and numbers have [a page of their own](constants.md).\n"
    groups: dict[str, list[tuple[str, Any]]] = {}
    module = module_of(path)
    for name in public(path):
        value = getattr(module, name)
        groups.setdefault(_group(name, value, path), []).append((name, value))
    ordered = sorted(groups, key=lambda title: (ORDER.get(title, 2), title))
    for title in ordered:
        yield f"## {title}\n"
        yield "| name | what it is |\n| --- | --- |"
        for name, value in groups[title]:
            page = reference.page(value)
            link = os.path.relpath(f"{page}.md", "api")
            yield f"| [`{name}`]({link}) | {summary(inspect.getdoc(value))} |"
        yield ""


def _group(name: str, value: Any, path: str) -> str:
    if not path and name in FIRST:
        return "What most programs use"
    if isinstance(value, type):
        return "Older names" if OLDER.fullmatch(name) else "Classes"
    op = op_of(value)
    if path:
        return "Functions"
    if op is None:
        return "Other functions"
    family = op.forward.__module__.rpartition(".")[2]
    return family.replace("_", " ").capitalize()


def page_of_entry(entry: Entry, reference: Reference) -> Iterator[str]:
    """The page of a function or class."""
    value = entry.value
    path = entry.name.rpartition(".")[0]
    yield ORPHAN + f"# {entry.name}\n"
    yield " · ".join(_whereabouts(entry, path, reference)) + "\n"
    kind = "class" if isinstance(value, type) else "function"
    yield f"::::{{py:{kind}}} dynograd.{entry.name}{signature_of(value)}\n"
    doc = _docstring(value)
    if doc:
        yield as_markdown(doc)
    yield ""
    yield "::::\n"
    if isinstance(value, type):
        yield from _members(entry, reference)


def _whereabouts(entry: Entry, path: str, reference: Reference) -> Iterator[str]:
    yield f"In [dynograd{'.' * bool(path)}{path}]({page_of_module(path)}.md)"
    if source := reference.source(entry.value):
        yield f'<a href="{source}">source</a>'
    if len(entry.names) > 1:
        yield "also " + ", ".join(f"`{name}`" for name in entry.names[1:])


def _docstring(value: Any) -> str | None:
    doc = inspect.getdoc(value)
    if isinstance(value, type) and doc and not vars(value).get("__doc__") and value.__bases__ != (object,):
        return None if doc == inspect.getdoc(value.__bases__[0]) else doc
    return doc


def _members(entry: Entry, reference: Reference) -> Iterator[str]:
    """Methods and properties: in a table where they are functions with pages of their own, else with their docstrings."""
    value = entry.value
    own: list[tuple[str, Any]] = []
    linked: list[tuple[str, str, str]] = []
    in_place: list[str] = []
    inherited: dict[str, str] = {}
    for name, member in members(value):
        function = getattr(value, name, None)
        described = reference.described_base(value, name)
        op = op_of(function)
        page = reference.functions.get(name) if op is not None else None
        origin = reference.functions.get(name.removesuffix("_")) if name.endswith("_") and page is None else None
        if described is not None:
            inherited.setdefault(described.name, reference.pages[described.name])
        elif origin:
            in_place.append(f"[`{name}`]({os.path.relpath(f'{origin}.md', 'api')})")
        elif page:
            linked.append((name, page, summary(inspect.getdoc(function))))
        elif inspect.getdoc(member if isinstance(member, property) else function):
            own.append((name, member))
    if own:
        yield "## Methods and properties\n"
        for name, member in sorted(own):
            yield from _member(entry, name, member, reference)
    if linked:
        yield "## Functions that are methods too\n"
        yield "| method | what it does |\n| --- | --- |"
        for name, page, what in sorted(linked):
            yield f"| [`{name}`]({os.path.relpath(f'{page}.md', 'api')}) | {what} |"
        yield ""
    if in_place:
        yield f"## In place\n\nThese write their result into the tensor itself: {', '.join(sorted(in_place))}.\n"
    if inherited:
        links = ", ".join(f"[`{name}`]({os.path.relpath(f'{page}.md', 'api')})" for name, page in inherited.items())
        yield f"Methods and properties of {links} are there, too.\n"


def _member(entry: Entry, name: str, member: Any, reference: Reference) -> Iterator[str]:
    full = f"dynograd.{entry.name}.{name}"
    if isinstance(member, property):
        yield f"::::{{py:property}} {full}\n"
        doc, target = inspect.getdoc(member), member.fget
    else:
        kind = {classmethod: "classmethod", staticmethod: "staticmethod"}.get(type(member), "method")
        target = getattr(member, "__func__", member)
        yield f"::::{{py:{kind}}} {full}{signature_of(target, method=kind != 'staticmethod')}\n"
        doc = inspect.getdoc(getattr(entry.value, name))
    if source := reference.source(target):
        yield f'<a class="to-source" href="{source}">source</a>\n'
    yield as_markdown(doc or "")
    yield ""
    yield "::::\n"
