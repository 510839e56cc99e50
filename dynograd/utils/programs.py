"""Command lines: arguments in their ranges, mistakes answered in one line, Ctrl-C.

What somebody typed wrong ends with status 2 and a line on stderr, as `argparse` does it; Ctrl-C ends with 130, as shells say it. An error of
the program itself keeps its traceback.

    from dynograd.utils import programs

    parser.add_argument("--steps", type=programs.whole_number(1))
    ...
    if __name__ == "__main__":
        sys.exit(programs.run(lambda: main(**vars(parser.parse_args()))))
"""

from __future__ import annotations

import math
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dynograd import distributed
from dynograd.base.dtypes import float64
from dynograd.distributed import starting
from dynograd.errors import CheckpointError, DataFileError, DeviceError, OutOfMemoryError, StateDictError
from dynograd.tensor import creation

__all__ = [
    "UsageError",
    "checkpoint_of",
    "device",
    "file_to_write",
    "number",
    "ranks",
    "run",
    "run_alone",
    "seed",
    "sum_of_ranks",
    "whole_number",
]


class UsageError(ValueError):
    """What a program was asked for cannot be done; `run` shows the message alone."""


_MISTAKES: tuple[type[Exception], ...] = (
    UsageError,
    CheckpointError,
    DataFileError,
    DeviceError,
    OutOfMemoryError,
    StateDictError,
    OSError,
)


def run(program: Callable[[], Any], name: str | None = None, mistakes: tuple[type[Exception], ...] = ()) -> int:
    """The status of a program: 0, or the whole number that it gives; 2 after a mistake of its user, 130 after Ctrl-C.

    Args:
        name: what the line on stderr begins with (the name of the file that was started).
        mistakes: further errors that are mistakes of the user, beside UsageError and those of files, checkpoints, devices and memory.

    >>> from dynograd.utils.programs import run
    >>> run(lambda: print("done"))
    done
    0
    """
    name = os.path.basename(sys.argv[0]) if name is None else name
    expected = (*_MISTAKES, *mistakes)
    try:
        status = program()
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _ended(130, f"{name}: interrupted")
    except BrokenPipeError:  # `program | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except expected as error:
        return _ended(2, f"{name}: error: {_message(error)}")
    return status if type(status) is int else 0


def run_alone(program: Callable[[], Any], about: str | None) -> int:
    """`run` of a program without arguments: what is given nevertheless is a mistake. `about` is its docstring, for `--help`."""
    ArgumentParser(description=(about or "").partition("\n")[0]).parse_args()
    return run(program)


def _ended(status: int, line: str) -> int:
    sys.stdout.flush()
    print(line, file=sys.stderr)
    return status


def _message(error: Exception) -> str:
    """The error in one line; of a file its name and what is wrong with it."""
    if type(error).__str__ is OSError.__str__ and isinstance(error, OSError) and error.filename is not None:
        text = f"{os.fspath(error.filename)!r}: {error.strerror}"
    else:
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(text.split()) or type(error).__name__


@contextmanager
def checkpoint_of(program: str, path: Any) -> Iterator[None]:
    """Says that a file was not written by `program`, where what is read from it inside lacks something or does not fit."""
    try:
        yield
    except (CheckpointError, OSError):
        raise
    except (LookupError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        reason = f"{type(error).__name__}: {_message(error)}"
        raise UsageError(f"{os.fspath(path)!r} was not written by {program} ({reason[:200]})") from error


# --- arguments, for `type=` of `add_argument` ---------------------------------------------------------------------------------------


def whole_number(least: int | None = None, most: int | None = None, multiple: int = 1) -> Callable[[str], int]:
    """Whole numbers from `least` to `most`, each a multiple of `multiple`.

    >>> from dynograd.utils.programs import whole_number
    >>> whole_number(1)("3")
    3
    """

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ArgumentTypeError(f"expected a whole number{_range(least, most)}, got {text!r}") from None
        if (least is not None and value < least) or (most is not None and value > most):
            raise ArgumentTypeError(f"expected a whole number{_range(least, most)}, got {text}")
        if value % multiple:
            raise ArgumentTypeError(f"expected a multiple of {multiple}, got {text}")
        return value

    return read


def number(least: float | None = None, most: float | None = None, above: float | None = None) -> Callable[[str], float]:
    """Finite numbers from `least` (or above `above`) to `most`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        small = (least is not None and value < least) or (above is not None and value <= above)
        if not math.isfinite(value) or small or (most is not None and value > most):
            limits = f" above {above}" if above is not None else _range(least, most)
            raise ArgumentTypeError(f"expected a number{limits}, got {text!r}")
        return value

    return read


seed = whole_number(-(2**63), 2**64 - 1)  # of random numbers


def _range(least: Any, most: Any) -> str:
    if least is None and most is None:
        return ""
    if most is None:
        return f" of at least {least}"
    return f" of at most {most}" if least is None else f" from {least} to {most}"


def device(text: str) -> str:
    """The name of a device that is there."""
    try:
        creation.empty(0, device=text)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ArgumentTypeError(" ".join(str(error).split())) from None
    return text


def file_to_write(text: str) -> Path:
    """The path of a file that can be written: no folder, and in none that is a file."""
    path = Path(text)
    if not text or path.is_dir():
        raise ArgumentTypeError(f"expected the name of a file, got {'a folder: ' if text else ''}{text!r}")
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    if not parent.is_dir() or not os.access(path if path.exists() else parent, os.W_OK):
        raise ArgumentTypeError(f"{text!r} cannot be written")
    return path


def ranks() -> tuple[int, int]:
    """(the place of this process, how many there are) where `python -m dynograd.run` has started several, whose group is made; (0, 1) alone.

    Returns:
        Two numbers.

    >>> from dynograd.utils import programs
    >>> programs.ranks()
    (0, 1)
    """
    told = starting.launched()
    if not distributed.is_initialized():
        if told is None or told.size == 1 or starting.BOARD not in os.environ:
            return 0, 1
        distributed.init_process_group()
    return distributed.get_rank(), distributed.get_world_size()


def sum_of_ranks(*numbers: float) -> list[float]:
    """The sums of numbers over all processes.

    Args:
        numbers: of this process.
    Returns:
        A list.

    >>> from dynograd.utils import programs
    >>> programs.sum_of_ranks(1, 2.5)
    [1.0, 2.5]
    """
    total = creation.tensor([float(number) for number in numbers], dtype=float64)
    if ranks()[1] > 1:
        distributed.all_reduce(total)
    return [float(number) for number in total.tolist()]
