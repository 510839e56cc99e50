"""Programs by chance give compiled, bit for bit, what they give as they are written: values, gradients, states, what was kept.

`python -m tests.plans.test_random_programs 1000` runs so many, and shortens those that differ; a second number says where to begin, a word
(`exact`, `bound`) which kernels, with `wider-` before it, that they have more kinds of lines.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import pytest

from tests.plans.gradient_programs import GradientMaker
from tests.plans.random_programs import STEPS, Maker, compare, program_of, shortened
from tests.plans.twins import in_python_form
from tests.plans.wider_programs import SIZES as WIDER_SIZES
from tests.plans.wider_programs import WiderMaker

TOGETHER = 20
REPLAYED_STEPS = 16
WIDER_STEPS = 20


@pytest.mark.parametrize("first", range(0, 200, TOGETHER))
def test_programs_give_the_same_bits(first: int) -> None:
    with in_python_form():
        for seed in range(first, first + TOGETHER):
            result = compare(program_of(seed).text())
            assert not result.difference, (
                f"seed {seed}, {result.difference}\n{result.report}\n{program_of(seed).text()}"
            )


@pytest.mark.parametrize("first", range(200, 300, TOGETHER))
def test_the_exact_mode_gives_the_same_bits(first: int) -> None:
    for seed in range(first, first + TOGETHER):
        result = compare(program_of(seed).text(), 0.0, True)
        assert not result.difference, f"seed {seed}, {result.difference}\n{result.report}\n{program_of(seed).text()}"


@pytest.mark.parametrize("exact", [False, True])
def test_programs_that_write_in_place_give_the_same_bits(exact: bool) -> None:
    walked = 0
    with contextlib.nullcontext() if exact else in_python_form():
        for seed in (*range(1000, 1040), 34075):  # the last one: what NumPy has was written when the next step began
            program = program_of(seed, True)
            result = compare(program.text(), 0.0, exact)
            assert not result.difference, f"seed {seed}, {result.difference}\n{result.report}\n{program.text()}"
            walked += result.walked
    assert walked > 100


def test_programs_that_write_into_new_tensors_give_the_same_bits() -> None:
    walked = 0
    for seed in range(40000, 40020):
        program = program_of(seed, True, True)
        result = compare(program.text(), 0.0, True)
        assert not result.difference, f"seed {seed}, {result.difference}\n{result.report}\n{program.text()}"
        walked += result.walked
    assert walked > 40


def test_wider_programs_give_the_same_bits() -> None:
    """Layers, ragged rows, computed indices, averages of weights, several compiled functions that share parameters: see `wider_programs`."""
    walked = 0
    with in_python_form():
        for seed in range(20000, 20024):
            text = program_of(seed, make=WiderMaker).text()
            result = compare(text, 0.0, False, WIDER_STEPS, sizes_of(seed))
            assert not result.difference, f"seed {seed}, {result.difference}\n{result.report}\n{text}"
            walked += result.walked
    assert walked > 60


@pytest.mark.parametrize("exact", [False, True])
def test_programs_that_change_gradients_give_the_same_bits(exact: bool) -> None:
    walked = 0
    with contextlib.nullcontext() if exact else in_python_form():
        for seed in range(50000 + 20 * exact, 50020 + 20 * exact):
            text = program_of(seed, make=GradientMaker).text()
            result = compare(text, 0.0, exact)
            assert not result.difference, f"seed {seed}, {result.difference}\n{result.report}\n{text}"
            walked += result.walked
    assert walked > 40


SIZES = [5, 5, 12, 8, 9, 7, 6, 11, 10, 9, 6, 8, 7, 10, 11, 12, 5, 8, 9, 6, 7, 13, 11, 10]


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_programs_of_many_sizes_give_the_same(exact: bool, writes: bool) -> None:
    """Most of their steps are walked by formulas; they decide on values, write in place, and keep what they gave."""
    for seed in range(2000, 2012):
        program = program_of(seed, writes)
        result = compare(program.text(), 0.0 if exact else 1e-3, exact, 36, SIZES)
        assert not result.difference, f"seed {seed}, {result.difference}\n{result.report}\n{program.text()}"


def sizes_of(seed: int) -> list[int]:
    """The batches of a wider program."""
    return WIDER_SIZES[seed % len(WIDER_SIZES)]


def failure(text: str, *options: Any) -> str:
    try:
        result = compare(text, *options)
    except (NameError, KeyError):  # shortened too far
        return ""
    return result.difference and f"{result.difference}\n{result.report}"


def main(count: int, first: int = 0, way: str = "python") -> int:
    """`way` is "python" (all calls in their Python form), "exact" (the mode), or "bound" (compared up to rounding), "replay" (the mode, with exact kernels); behind it "-writes": in place, "-creates": into new tensors, too. "wider-" before it: of more kinds of lines."""
    make = WiderMaker if way.startswith("wider-") else Maker
    walked = calls = never = failed = replayed = 0
    way, _, writes = way.removeprefix("wider-").partition("-")
    options: tuple[Any, ...] = {
        "python": (0.0, False, STEPS, ()),
        "exact": (0.0, True, STEPS, ()),
        "bound": (1e-3, False, STEPS, ()),
        "replay": (0.0, True, REPLAYED_STEPS, (), True),
    }[way]
    with in_python_form() if way == "python" else contextlib.nullcontext():
        for seed in range(first, first + count):
            program = program_of(seed, bool(writes), writes == "creates", make)
            own = (*options[:2], WIDER_STEPS, sizes_of(seed), *options[4:]) if make is WiderMaker else options
            try:
                result = compare(program.text(), *own)
                walked, calls, never = walked + result.walked, calls + result.calls, never + (not result.walked)
                replayed += result.replayed
                if not result.difference:
                    continue
            except Exception as error:
                print(f"seed {seed}: {type(error).__name__}: {error}")
                raise
            failed += 1
            print(f"--- seed {seed} differs: {result.difference[:500]}", flush=True)
            short = shortened(program, lambda text, own=own: bool(failure(text, *own)))  # type: ignore[misc]
            print(f"--- seed {seed}: {failure(short.text(), *own)[:1500]}\n{short.text()}", flush=True)
    print(
        f"{count} programs, {failed} failed; {walked} of {calls} calls along the record, {replayed} replayed, {never} programs never"
    )
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*[int(word) if word.isdigit() else word for word in sys.argv[1:]]))  # type: ignore[arg-type]
