"""Mistakes made of the samples of PyTorch's op database: what torch refuses must be refused, in words of our own.

Each sample is changed in one place: a dim out of range, an index out of range, a tensor one row too long or of another dtype, a negative
size, `out=` of another dtype or in memory that overlaps, an in-place op on an expanded tensor. From the top folder:

    python -m tests.parity.op_database_mistakes NAME...       what is wrong in these entries (all without names)
    python -m tests.parity.op_database_mistakes --write       writes op_database_mistakes_known.txt anew

What torch merely has not (a dtype, mixed dtypes, a padding of another rank) is no mistake: there we may be wider.
"""

from __future__ import annotations

import atexit
import inspect
import math
import os
import re
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import dynograd
from tests.parity.op_database import ENTRIES, REFUSALS, _text, described, dtypes_of, is_random, samples_of
from tests.parity.op_database_twins import Missing, converted, twin

__all__ = ["KNOWN", "calls_of", "mistakes", "wrong_in"]

Call = tuple[Any, tuple, dict]
KNOWN_FILE = Path(__file__).with_name("op_database_mistakes_known.txt")
WIDER = re.compile(
    "not implemented for|mixed dtype|expected scalar type|not yet implemented|not supported for|only supports?|Supported combinations|"
    "std::vector|does not support|bool tensor|dtype|datatype|complex|Unsupported input type|Overloaded torch operator|[Bb]oolean|floating.point|Double|Float|Long"
)
DIMS = ("dim", "dims", "dim0", "dim1", "dim2", "axis")
SIZES = (
    "size",
    "shape",
    "sizes",
    "steps",
    "n",
    "m",
    "end",
    "kernel_size",
    "output_size",
    "k",
    "chunks",
    "bins",
    "repeats",
    "num_classes",
)
FAR = 1_000_000


def mistakes(ours: Any, sample: Any) -> Iterator[tuple[str, Call]]:
    """What was changed, and the changed arguments, in torch's tensors."""
    yield from _wrong_numbers(ours, sample)
    leaves = [sample.input, *sample.args, *sample.kwargs.values()]
    may_be_none = _may_be_none(ours, len(sample.args) + 1)
    for number, element in enumerate(leaves):
        if not isinstance(element, torch.Tensor) or element.layout is not torch.strided:
            continue
        where = f"tensor {number}"
        if element.dtype in (torch.int64, torch.int32):
            yield f"{where}: indices out of range", _replaced(sample, number, element + FAR)
            yield f"{where}: negative indices", _replaced(sample, number, element - FAR)
        for dtype in (torch.bool, torch.int64, torch.float64, torch.complex64):
            if element.dtype is not dtype:
                yield f"{where}: {dtype}", _replaced(sample, number, element.detach().to(dtype))
        if element.ndim:
            yield f"{where}: one row more", _replaced(sample, number, torch.cat([element, element[:1]]).detach())
            yield (
                f"{where}: one column more",
                _replaced(sample, number, torch.cat([element, element[..., :1]], -1).detach()),
            )
        yield f"{where}: one dim more", _replaced(sample, number, element.detach()[None, None, None])
        yield f"{where}: a number", _replaced(sample, number, 2.5)
        yield f"{where}: a string", _replaced(sample, number, "x")
        if number not in may_be_none:
            yield f"{where}: None", _replaced(sample, number, None)


def _may_be_none(ours: Any, count: int) -> set[int]:
    """Which of so many arguments are None when left out, or anything."""
    try:
        taken = list(inspect.signature(ours).parameters.values())
    except (TypeError, ValueError):
        return set()
    anything = [number for number, element in enumerate(taken) if element.kind is element.VAR_POSITIONAL]
    result = {number for number, element in enumerate(taken) if element.default is None}
    return result | set(range(anything[0] if anything else count, count))


def _wrong_numbers(ours: Any, sample: Any) -> Iterator[tuple[str, Call]]:
    try:
        names = list(inspect.signature(ours).parameters)
    except (TypeError, ValueError):
        names = []
    for number, value in enumerate(sample.args, 1):
        name = names[number] if number < len(names) else ""
        for text, wrong in _wrong_values(name, value):
            args = (*sample.args[: number - 1], wrong, *sample.args[number:])
            yield text, (sample.input, args, sample.kwargs)
    for name, value in sample.kwargs.items():
        for text, wrong in _wrong_values(name, value):
            yield text, (sample.input, sample.args, sample.kwargs | {name: wrong})


def _wrong_values(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    value = tuple(value) if isinstance(value, torch.Size) else value
    if isinstance(value, bool) or not isinstance(value, (int, float, tuple, list, torch.dtype, str)):
        return
    if isinstance(value, str):
        yield f"{name}='nonsense'", "nonsense"
    elif name in DIMS:
        for wrong in (FAR, -FAR, "x", 1.5):
            yield f"{name}={wrong!r}", wrong if isinstance(value, int) else type(value)([wrong, *value[1:]])
        if not isinstance(value, int) and value:
            yield f"{name} twice", type(value)([*value, value[0]])
    elif isinstance(value, int):
        for wrong in (-FAR, 2**62, "x", 1.5):
            yield f"{name}={wrong!r}", wrong
    elif isinstance(value, float):
        yield f"{name}='x'", "x"
    elif isinstance(value, (tuple, list)) and value and all(type(element) is int for element in value):
        for wrong in (-FAR, 2**40, "x", 1.5):
            yield f"{name}[0]={wrong!r}", type(value)([wrong, *value[1:]])
        yield f"{name} longer", type(value)([*value, *value])


def _replaced(sample: Any, number: int, value: Any) -> Call:
    if number == 0:
        return value, sample.args, sample.kwargs
    if number <= len(sample.args):
        return sample.input, (*sample.args[: number - 1], value, *sample.args[number:]), sample.kwargs
    name = list(sample.kwargs)[number - 1 - len(sample.args)]
    return sample.input, sample.args, sample.kwargs | {name: value}


class _Shared:
    """The input and `out=` in one memory, one element apart."""

    def __init__(self, sample: Any, value: torch.Tensor, created: torch.Tensor) -> None:
        self.sample, self.shapes = sample, (tuple(value.shape), tuple(created.shape))
        self.room = torch.zeros(value.numel() + created.numel(), dtype=created.dtype)
        self.room[: value.numel()] = value.detach().reshape(-1)

    def call(self, room: Any, args: tuple, kwargs: dict) -> Call:
        (first, second), size = self.shapes, room.numel()
        count, created = math.prod(first), math.prod(second)
        assert size == count + created
        return room[:count].reshape(first), args, kwargs | {"out": room[1 : 1 + created].reshape(second)}


def _outs(entry: Any, sample: Any) -> Iterator[tuple[str, Any]]:
    """`out=` of another dtype, of elements that share memory, in the memory of the input, and partly in it."""
    try:
        created = entry.op(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        return
    if not isinstance(created, torch.Tensor) or created.layout is not torch.strided or not created.numel():
        return

    def with_out(out: Any, value: Any = sample.input) -> Call:
        return value, sample.args, sample.kwargs | {"out": out}

    for dtype in (torch.float64, torch.int64, torch.bool, torch.complex64):
        if dtype is not created.dtype:
            yield f"out of {dtype}", with_out(torch.zeros_like(created, dtype=dtype))
    if created.numel() > 1:
        shared = torch.zeros(1, dtype=created.dtype).expand(created.shape)
        yield "out whose elements share memory", with_out(shared)
    value = sample.input
    if isinstance(value, torch.Tensor) and value.dtype is created.dtype:
        if value.shape == created.shape:
            kept = value.detach().clone()
            yield "out is the input", with_out(kept, kept)
        if value.numel() > 1:
            yield "out partly in the input", _Shared(sample, value, created)


def calls_of(name: str, most: int = 4) -> Iterator[tuple[str, Any, Any, Any]]:
    """What was changed, torch's function, ours, and the changed call; the same change of arguments of the same kinds comes once."""
    entry = ENTRIES[name]
    ours = twin(entry.op, entry.name)
    dtype = next(iter(dtypes_of(entry, (torch.float32,))), None)
    if dtype is None:  # nothing runs on a CPU
        return
    seen: set[Any] = set()
    for sample in samples_of(entry, dtype, most=most):
        every = list(mistakes(ours, sample))
        if entry.supports_out and not is_random(entry):
            every += _outs(entry, sample)
        alike = _kind(sample.input), _kind(sample.args), _kind(sample.kwargs)
        for text, call in every:
            if (text, alike) not in seen:
                seen.add((text, alike))
                yield text, entry.op, ours, call
    if entry.inplace_variant is not None:
        for sample in samples_of(entry, dtype, most=2):
            value = sample.input
            if isinstance(value, torch.Tensor) and value.ndim and not sample.broadcasts_input and value.shape[-1] > 1:
                expanded = value.detach()[..., :1].expand(value.shape)
                call = expanded, sample.args, sample.kwargs
                yield "in place on an expanded tensor", entry.inplace_variant, twin(entry.inplace_variant), call
                break


def _kind(value: Any) -> Any:
    """What two samples must share for a mistake in one to tell nothing that it does not tell in the other."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.ndim, value.layout, value.numel() > 0
    if isinstance(value, dict):
        return tuple((key, _kind(element)) for key, element in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_kind, value))
    return value if isinstance(value, (bool, str)) else type(value)


def _shown(call: Any) -> str:
    if isinstance(call, _Shared):
        return described(call.sample)
    return f"({', '.join(map(_text, (call[0], *call[1])))}, { ({name: _text(element) for name, element in call[2].items()}) })"


def _compared(theirs: Any, ours: Any, call: Any, tell: Callable[[str], Any]) -> str:
    met: dict[int, Any] = {}
    shared = call if isinstance(call, _Shared) else None
    if shared is not None:
        call = shared.room, shared.sample.args, shared.sample.kwargs
    try:
        own = converted(call[0], met), converted(tuple(call[1]), met), converted(dict(call[2]), met)
    except Exception:
        return ""
    if shared is not None:
        call, own = shared.call(*call), shared.call(*own)
    tell("torch")
    try:
        theirs(call[0], *call[1], **call[2])
        return ""
    except Exception as error:
        expected = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    tell("dynograd")
    try:
        ours(own[0], *own[1], **own[2])
    except AttributeError as error:
        return "" if "descriptor" in expected or "AttributeError" in expected else _judged(error, expected)
    except Exception as error:
        return _judged(error, expected)
    return "" if WIDER.search(expected) else f"not refused; torch: {expected}"


def _judged(error: Exception, expected: str) -> str:
    """What is wrong with a refusal: raised underneath (NumPy, Numba, an assertion), or of a type that says so."""
    shown = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    if isinstance(error, MemoryError):
        return ""
    last = traceback.extract_tb(error.__traceback__)[-1]
    if "/torch/" in last.filename:  # an op of torch.ops or torch.cuda, which stands for itself
        return ""
    if not isinstance(error, REFUSALS):
        return f"{shown} instead of {expected}"
    if "raise " not in (last.line or "") and "/functions/" not in last.filename:
        if not isinstance(error, TypeError) or "argument" not in str(error):
            return f"raised underneath, {last.filename[-50:]}:{last.lineno}: {shown}; torch: {expected}"
    return ""


HEADER = """\
# Mistakes of which some are not refused yet, or refused with an error from underneath: entry | how many. Numbers only go down.
"""
KNOWN = {
    name: int(count)
    for name, _, count in (
        line.rpartition(" | ")
        for line in (KNOWN_FILE.read_text().splitlines() if KNOWN_FILE.exists() else ())
        if "#" not in line
    )
}


class _Worker:
    """A process that tries the mistakes of entries, for it may die or hang; a new one goes on behind the call that ended the last.

    They are forked by a process of their own that computes nothing: a fork of one whose ops have started threads could wait for those.
    """

    SECONDS = 5  # of processor time for one call
    PATIENCE = 60  # of any time, if it sleeps

    def __init__(self) -> None:
        expected, self.ask = os.pipe()
        answers, told = os.pipe()
        command = [sys.executable, "-m", "tests.parity.op_database_mistakes", "--serve", str(expected), str(told)]
        search = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            command, pass_fds=(expected, told), env=os.environ | {"PYTHONPATH": search}, stderr=subprocess.DEVNULL
        )
        os.close(expected)
        os.close(told)
        self.answers = os.fdopen(answers)

    @staticmethod
    def serve(wanted: int, told: int) -> None:
        """Forks one process after the other that answers, until nobody asks any more."""
        while True:
            child = os.fork()
            if not child:
                _Worker._answer(os.fdopen(wanted), os.fdopen(told, "w", buffering=1))
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            if not status:
                return
            os.write(told, f"ended {status & 127}\n".encode())

    @staticmethod
    def _answer(wanted: Any, told: Any) -> None:
        for line in wanted:
            name, first, last = line.split()
            try:
                for number, (text, theirs, ours, call) in enumerate(calls_of(name)):
                    if not int(first) <= number <= int(last):
                        continue
                    signal.setitimer(signal.ITIMER_PROF, _Worker.SECONDS)
                    signal.alarm(_Worker.PATIENCE)
                    wrong = _compared(theirs, ours, call, lambda who: print("at", number, who, text, file=told))  # noqa: B023
                    if wrong:
                        print("found", f"{text}: {_shown(call)}: {wrong}".replace("\n", " "), file=told)
            except Missing:
                pass
            except Exception as error:
                print("found", "the check failed:", type(error).__name__, " ".join(str(error).split()), file=told)
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
            print("done", file=told)

    def tried(self, name: str, first: int, last: int = 2**31) -> tuple[list[str], int | None]:
        """What was found from call `first` to `last`, and the number of the call at which the process ended, if it did."""
        os.write(self.ask, f"{name} {first} {last}\n".encode())
        result, at = [], ["0", "", ""]
        for line in self.answers:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "done":
                return result, None
            if word == "found":
                result.append(rest)
            elif word == "at":
                at = rest.split(" ", 2)
            else:
                number = int(at[0])
                # Of a call that ends torch, nothing is asked; torch may also have spoilt memory before: our call must end a new process alone.
                if at[1] == "dynograd" and (first == last or self.tried(name, number, number)[1] is not None):
                    result.append(f"{at[2]}: the process ended with signal {rest}")
                return result, number
        raise RuntimeError(f"the process that tries mistakes has ended with status {self.process.wait()}")

    def close(self) -> None:
        """Lets the process end."""
        os.close(self.ask)
        self.answers.close()
        self.process.wait()


_workers: list[_Worker] = []
atexit.register(lambda: [worker.close() for worker in _workers])


def wrong_in(name: str) -> list[str]:
    """What torch refuses and we do not, or refuse with an error from underneath; the same change of several samples counts once."""
    result: dict[str, str] = {}
    first: int | None = 0
    while first is not None:
        if not _workers:
            _workers.append(_Worker())
        lines, ended = _workers[0].tried(name, first)
        for line in lines:
            result.setdefault(line.partition(": (")[0], line)
        first = None
        if ended is not None:
            first = ended + 1
    return list(result.values())


def main() -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dynograd.set_num_threads(1)
    dynograd.manual_seed(0)
    if "--serve" in sys.argv:
        _Worker.serve(*map(int, sys.argv[-2:]))
        return 0
    writing = "--write" in sys.argv
    chosen = [element for element in sys.argv[1:] if element != "--write"] or list(ENTRIES)
    clean, lines = 0, []
    for name in chosen:
        results = wrong_in(name)
        clean += not results
        if results:
            lines.append(f"{name} | {len(results)}")
        for text in results:
            print(f"{name} | {text}", flush=True)
    if writing:
        KNOWN_FILE.write_text(HEADER + "\n".join(lines) + "\n")
    print(f"{clean} of {len(chosen)} entries refuse what torch refuses")
    return 0


if __name__ == "__main__":
    sys.exit(main())
