"""`python -m dynograd SCRIPT ...`, `-m MODULE ...`, `-c TEXT ...`: a program for PyTorch, run with `torch` meaning dynograd.

The program is `__main__`, sees its own arguments and its own folder, and ends with its own status, as if Python had been called. What it
starts (workers, launchers) goes through the same door.
"""

from __future__ import annotations

import importlib
import io
import os
import runpy
import sys
from types import ModuleType, TracebackType

from dynograd.utils import programs

__all__ = ["is_program", "main"]

_USAGE = "`python -m dynograd [--report] SCRIPT ...`, `-m MODULE ...` or `-c TEXT ...` runs a program with `torch` meaning dynograd."
_OWN = (__file__, os.path.join(os.path.dirname(__file__), "__main__.py"), programs.__file__)


def is_program(word: str) -> bool:
    """Whether the first word of a command line starts a program."""
    return word in ("-m", "-c", "--report") or word.endswith((".py", ".pyz", ".zip")) or os.path.exists(word)


def main(words: list[str]) -> int:
    """Runs the program; its status. With `--report` first, what it asked of torch in vain goes to stderr at the end.

    Raises:
        UsageError: there is no program, or no such file.
    """
    says_report = words[:1] == ["--report"]
    words = words[says_report:]
    if not words or (words[0] in ("-m", "-c") and len(words) < 2):
        raise programs.UsageError(f"expected a program, got {' '.join(words) or 'none'!r}. {_USAGE}")
    if words[0] not in ("-m", "-c") and not os.path.exists(words[0]):
        raise programs.UsageError(f"there is no file {words[0]!r}. {_USAGE}")
    door = importlib.import_module("dynograd.as_torch")
    try:
        return _status_of(words)
    finally:
        sys.stdout.flush()
        if says_report:
            print(door.report(), file=sys.stderr)


def _status_of(words: list[str]) -> int:
    try:
        _run(words)
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            return ending.code or 0
        print(ending.code, file=sys.stderr)
        return 1
    except BaseException as error:  # as the interpreter shows it, without the frames of this file
        error = error.with_traceback(_of_the_program(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _run(words: list[str]) -> None:
    kind, arguments = words[0], words[1:]
    if kind == "-m":
        sys.argv = arguments
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    if kind == "-c":
        sys.argv = ["-c", *arguments[1:]]
        sys.path[0] = ""
        _as_main(arguments[0], "<string>", None)
        return
    sys.argv = words
    if os.path.isdir(kind) or not kind.endswith(".py"):
        sys.path[0] = kind
        runpy.run_path(kind, run_name="__main__")
        return
    sys.path[0] = os.path.dirname(os.path.realpath(kind))
    with io.open_code(os.path.abspath(kind)) as file:
        _as_main(file.read(), kind, kind)


def _as_main(text: str | bytes, file: str, shown: str | None) -> None:
    """Runs a text as the module `__main__`, which stays: classes are pickled by it, and threads go on after its end."""
    own = ModuleType("__main__")
    if shown is not None:
        own.__file__ = shown
    own.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = own
    exec(compile(text, file, "exec", dont_inherit=True), own.__dict__)


def _of_the_program(traceback: TracebackType | None) -> TracebackType | None:
    place = traceback
    while place is not None and place.tb_frame.f_code.co_filename in (*_OWN, "<frozen runpy>"):
        place = place.tb_next
    return place
