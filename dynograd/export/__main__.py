"""`python -m dynograd.export show model.dg`: what is in a program."""

from __future__ import annotations

import argparse
import os

from dynograd.errors import ProgramError
from dynograd.export.files import load_program

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; 1 for a file that holds no program."""
    parser = argparse.ArgumentParser(prog="python -m dynograd.export", description="Looks at exported programs.")
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("show", help="list inputs, outputs, weights and calls")
    show.add_argument("file")
    show.add_argument("--code", action="store_true", help="print the calls as Python instead")
    options = parser.parse_args(arguments)
    try:
        program = load_program(options.file)
    except (OSError, ProgramError) as error:
        print(f"dynograd.export show: {error}")
        return 1
    if options.code:
        print(program.code)
        return 0
    print(f"{options.file}: {os.path.getsize(options.file):,} bytes")
    print(program)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
