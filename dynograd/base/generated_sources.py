"""Program text that is written while the program runs: tracebacks, debuggers and `inspect` find its lines.

Every such text goes through `run_source` or `run_written`. What the library writes of its own ops is the same in every process:
`run_written` leaves it, with its bytecode, in a file of the user's cache, where the next process finds it and where it can be opened. Other
texts have a file that is called `<dynograd TITLE>`; another one of the same title has its checksum there too.

`written_later` makes a function whose text is written at its first call. A debugger that steps into that call goes on in the text, as it
does at later calls, and passes by what writes it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import linecache
import marshal
import os
import shutil
import sys
import types
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy

from dynograd.base import cache_files

__all__ = ["file_of", "is_generated", "is_unwritten", "passing_on", "run_source", "run_written", "written_later"]

PACKAGE = Path(__file__).resolve().parent.parent
_MAGIC = b"dynograd function 2\n"
_GENERATIONS = 8  # versions of the library (or states of its files, for those who change it) whose texts are kept


def run_source(
    source: str, title: str, names: dict[str, Any], into: dict[str, Any] | None = None, users: bool = False
) -> dict[str, Any]:
    """Runs the text with the globals `names`; returns what it has defined: `into`, or else `names` themselves.

    `users` says that the text is the user's program, so that tracebacks of mistakes show its lines.
    """
    lines = source.splitlines(True)
    name = (lambda words: f"<{words}>") if users else _file_of
    file = name(title)
    entry: Any = linecache.cache.get(file)
    if entry is not None and entry[2] != lines and type(entry[2]) is not _Promise:
        file = name(f"{title} {zlib.crc32(source.encode()):08x}")
        if file not in linecache.cache:
            files = _further_files.setdefault(title, [])
            files.append(file)
            if len(files) > 1000:  # as many as there are kept of a loop's launches, the only texts without end
                linecache.cache.pop(files.pop(0), None)
    # Lines of a file without a time of change stay (`linecache.checkcache`).
    linecache.cache[file] = (len(source), None, lines, file)
    return _run(compile(source, file, "exec"), names, into)


def _run(code: types.CodeType, names: dict[str, Any], into: dict[str, Any] | None) -> dict[str, Any]:
    defined = names if into is None else into
    exec(code, names, defined)
    return defined


def run_written(
    title: str,
    parts: Mapping[str, Callable[[], str]],
    part: str,
    names: dict[str, Any],
    into: dict[str, Any] | None = None,
    kept: bool = True,
) -> dict[str, Any]:
    """`run_source` of one part of the texts that `parts` give, or that an earlier process has left in the cache under this title.

    Args:
        title: a path for the file, in which the parts stand one after the other ("op/relu"). No other texts of the library have it, and
            the texts depend on nothing but the files of the library and the versions of Python and NumPy.
        kept: whether that is so; the text of an op that a program adds is not left for other programs.
    """
    folder = _folder_of_texts() if kept else None
    if folder is None:
        return run_source(parts[part](), title if part == next(iter(parts)) else f"{title} {part}", names, into)
    codes = _codes.get(title)
    if codes is None:
        path = _files[title] = f"{folder}/{title}.py"
        codes = _codes[title] = _left_by_another(title, path) or _written(
            title, path, {part: write() for part, write in parts.items()}
        )
    return _run(codes[part], names, into)


def _written(title: str, path: str, texts: dict[str, str]) -> dict[str, types.CodeType]:
    """The code of texts that stand one after the other in a new file."""
    codes, lines = {}, 0
    for part, text in texts.items():
        codes[part] = compile("\n" * lines + text, path, "exec")
        lines += text.count("\n") + 2
    source = "\n\n".join(texts.values())
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    cache_files.write_text(path, source)
    cache_files.write(_bytecode_of(path), _MAGIC, title, marshal.dumps(codes))
    if not os.path.exists(path):  # a full disk
        linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    return codes


_codes: dict[str, dict[str, types.CodeType]] = {}  # title -> the code of each part
_files: dict[str, str] = {}  # title -> file


def file_of(title: str) -> str | None:
    """The file that holds the text of this title; None where it is not run yet, or not kept."""
    return _files.get(title)


def _left_by_another(title: str, path: str) -> dict[str, types.CodeType] | None:
    payload, _ = cache_files.read(_bytecode_of(path), _MAGIC, title)
    return marshal.loads(payload) if payload is not None and os.path.exists(path) else None


def _bytecode_of(path: str) -> str:
    return path.removesuffix("py") + "code"


@cache
def _folder_of_texts() -> Path | None:
    """The folder for texts of this library in this state, and for this Python."""
    above = cache_files.folder("functions")
    if above is None:
        return None
    folder = above / _state_of_the_library()
    if not folder.is_dir():
        with contextlib.suppress(OSError):  # another process clears up too, or the disk is full
            older = sorted(above.iterdir(), key=lambda path: path.stat().st_mtime)
            for path in older[: max(len(older) - _GENERATIONS + 1, 0)]:
                shutil.rmtree(path, ignore_errors=True)
            folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _state_of_the_library() -> str:
    """A word that differs where a file of the library, Python or NumPy does."""
    parts = [str(importlib.util.MAGIC_NUMBER), numpy.__version__, str(PACKAGE)]
    folders = [str(PACKAGE)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    parts.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
                elif entry.name != "__pycache__" and entry.is_dir():
                    folders.append(entry.path)
    digest = cache_files.digest("\n".join(sorted(parts)).encode())
    return f"{sys.implementation.cache_tag}-{digest.hex()[:16]}"


_further_files: dict[str, list[str]] = {}  # of a title: those whose name has the checksum


def written_later(
    name: str, title: str, names: dict[str, Any], write: Callable[[], None], choose: Callable[[dict[str, Any]], Any]
) -> Any:
    """A function with the globals `names` that has no text of its own yet. Names in there that begin with `unwritten_` are used.

    Args:
        title: what `write` runs the text under; no other function has it.
        write: writes the text and gives its code to the function; called when somebody looks at the text before the first call.
        choose: gives what a call with these keyword arguments, which it may change, goes on to; it sees to it that the text is written.
    """
    file = _file_of(title)
    linecache.cache[file] = (0, None, _Promise(title, write), file)  # type: ignore[assignment]

    def chosen(kwargs: dict[str, Any], paused: Any) -> Any:
        try:
            return choose(kwargs)
        finally:
            if paused:
                sys.settrace(paused[1])

    names.update(unwritten_chosen=chosen, unwritten_gettrace=sys.gettrace, unwritten_settrace=sys.settrace)
    return types.FunctionType(_UNWRITTEN.replace(co_name=name, co_filename=file), names, name)


def passing_on(name: str, title: str, renames: bool) -> types.CodeType:
    """Code that goes on to the global `passed_on`, for a function of `written_later`; `renames`: with `dim` for the keyword `axis`."""
    code = _PASSING_ON_RENAMED if renames else _PASSING_ON
    return code.replace(co_name=name, co_filename=_file_of(title))


def is_generated(code: types.CodeType) -> bool:
    """Whether it is the code of a text that this module runs."""
    file = code.co_filename
    return file.startswith("<dynograd ") or file in _files.values()


def is_unwritten(code: types.CodeType) -> bool:
    """Whether it is the code of a function before its text is written."""
    return code.co_qualname == _UNWRITTEN.co_qualname


# On one line, that of the `def` in the text to come, and without a call of a Python function before the debugger pauses.
_UNWRITTEN = compile(
    "def unwritten(*args, **kwargs): tracer = unwritten_gettrace(); return unwritten_chosen(kwargs, "
    "hasattr(getattr(tracer, '__self__', None), 'set_step') and (unwritten_settrace(None), tracer))(*args, **kwargs)\n",
    "<dynograd first call>",
    "exec",
).co_consts[0]

_PASSING_ON, _PASSING_ON_RENAMED = [
    compile(
        f"def passing_on(*args, **kwargs): {first}return passed_on(*args, **kwargs)\n", "<dynograd>", "exec"
    ).co_consts[0]
    for first in ("", "'axis' in kwargs and kwargs.__setitem__('dim', kwargs.pop('axis')); ")
]


def _file_of(title: str) -> str:
    return f"<dynograd {title}>"


class _Promise(Sequence):
    """Stands in `linecache` for the lines of a text that is written when somebody looks at them."""

    def __init__(self, title: str, write: Callable[[], None]) -> None:
        self._title, self._file, self._write = title, _file_of(title), write

    def _lines(self) -> Sequence[str]:
        self._write()
        path = _files.get(self._title)
        if path is not None:
            return linecache.getlines(path)
        entry: Any = linecache.cache[self._file]
        return entry[2] if entry[2] is not self else []  # it could not be written yet

    def __len__(self) -> int:
        return len(self._lines())

    def __getitem__(self, place: Any) -> Any:
        return self._lines()[place]
