"""Program text that is written while the program runs: tracebacks, debuggers and `inspect` find its lines.

Every such text goes through `run_source`. Its file is called `<dynograd TITLE>`; another text of the same title has its checksum there too.
`written_later` makes a function whose text is written at its first call. A debugger that steps into that call goes on in the text, as it
does at later calls, and passes by what writes it.
"""

from __future__ import annotations

import linecache
import sys
import types
import zlib
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["is_unwritten", "run_source", "written_later"]


def run_source(source: str, title: str, names: dict[str, Any], into: dict[str, Any] | None = None) -> dict[str, Any]:
    """Runs the text with the globals `names`; returns what it has defined: `into`, or else `names` themselves."""
    lines = source.splitlines(True)
    file = _file_of(title)
    entry: Any = linecache.cache.get(file)
    if entry is not None and entry[2] != lines and type(entry[2]) is not _Promise:
        file = _file_of(f"{title} {zlib.crc32(source.encode()):08x}")
        if file not in linecache.cache:
            files = _further_files.setdefault(title, [])
            files.append(file)
            if len(files) > 1000:  # as many as there are kept of a loop's launches, the only texts without end
                linecache.cache.pop(files.pop(0), None)
    # Lines of a file without a time of change stay (`linecache.checkcache`).
    linecache.cache[file] = (len(source), None, lines, file)
    defined = names if into is None else into
    exec(compile(source, file, "exec"), names, defined)
    return defined


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
    linecache.cache[file] = (0, None, _Promise(file, write), file)  # type: ignore[assignment]

    def chosen(kwargs: dict[str, Any], paused: Any) -> Any:
        try:
            return choose(kwargs)
        finally:
            if paused:
                sys.settrace(paused[1])

    names.update(unwritten_chosen=chosen, unwritten_gettrace=sys.gettrace, unwritten_settrace=sys.settrace)
    return types.FunctionType(_UNWRITTEN.replace(co_name=name, co_filename=file), names, name)


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


def _file_of(title: str) -> str:
    return f"<dynograd {title}>"


class _Promise(Sequence):
    """Stands in `linecache` for the lines of a text that is written when somebody looks at them."""

    def __init__(self, file: str, write: Callable[[], None]) -> None:
        self._file, self._write = file, write

    def _lines(self) -> Sequence[str]:
        self._write()
        entry: Any = linecache.cache[self._file]
        return entry[2] if entry[2] is not self else []  # it could not be written yet

    def __len__(self) -> int:
        return len(self._lines())

    def __getitem__(self, place: Any) -> Any:
        return self._lines()[place]
