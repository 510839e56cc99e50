"""`python -m dynograd COMMAND ...`: the commands, one a row, and programs for PyTorch: `python -m dynograd SCRIPT ...`.

A command is the `main(arguments)` of a module of this folder, which is imported when the command is called. `dynograd ...` is the same.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

from dynograd.tools import running
from dynograd.utils import programs

__all__ = ["COMMANDS", "Command", "main"]


class Command(NamedTuple):
    """A row of the table."""

    module: str
    about: str


COMMANDS = {
    "info": Command("information", "versions, processor, caches and GPUs: what a report of a fault should hold"),
    "warmup": Command("warming", "compile the kernels of common programs ahead of time"),
    "serve": Command("serve", "answer requests over HTTP with the models of a file"),
    "pack": Command("packing", "make a pack of compiled kernels, for this machine or for others of its level"),
    "cache": Command("cache", "where compiled kernels lie and how large they are; delete them"),
    "port": Command("port", "which torch names a program uses, and which of them dynograd lacks"),
    "convert": Command("convert", "make safetensors files of checkpoints"),
    "make-torch-shim": Command(
        "torch_shim", "write a distribution `torch` that is dynograd, for tools that look at files"
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; its status. Without one, the list of commands; 2 for one that does not exist."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] not in COMMANDS and running.is_program(words[0]):
        try:
            return running.main(words)
        except programs.UsageError as error:
            print(f"dynograd: error: {error}", file=sys.stderr)
            return 2
    return programs.run(lambda: _run(words), "dynograd")


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_list())
        return 0
    if words[0] in ("-V", "--version"):
        names, _, own = sys.modules["dynograd"].__version__.partition("+dynograd.")
        print(f"dynograd {own} (names of PyTorch {names})")
        return 0
    command = COMMANDS.get(words[0])
    if command is None:
        raise programs.UsageError(_unknown(words[0]))
    return importlib.import_module(f"dynograd.tools.{command.module}").main(words[1:])


def _list() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:{width}}  {command.about}" for name, command in COMMANDS.items())
    return (
        "usage: python -m dynograd COMMAND ...\n"
        "       python -m dynograd [--report] SCRIPT ... | -m MODULE ... | -c TEXT ...\n\n"
        "The second form runs a program for PyTorch with `torch` meaning dynograd.\n\n"
        f"commands:\n{rows}\n\n"
        "`python -m dynograd COMMAND --help` says more of one; `--version` prints the version."
    )


def _unknown(word: str) -> str:
    kind = "option" if word.startswith("-") else "command"
    near = difflib.get_close_matches(word, [*COMMANDS, "--help", "--version"], 1, 0.5)
    meant = f" Did you mean {near[0]}?" if near else f" Commands: {', '.join(COMMANDS)}."
    return f"there is no {kind} {word!r}.{meant} `python -m dynograd` lists them."


if __name__ == "__main__":
    sys.exit(main())
