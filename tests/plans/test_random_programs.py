"""Programs by chance give compiled, bit for bit, what they give as they are written: values, gradients, states, what was kept.

`python -m tests.plans.test_random_programs 1000` runs so many, and shortens those that differ; a second number says where to begin.
"""

from __future__ import annotations

import sys

import pytest

from tests.plans.random_programs import compare, program_of, shortened
from tests.plans.twins import in_python_form

TOGETHER = 20


@pytest.mark.parametrize("first", range(0, 200, TOGETHER))
def test_programs_give_the_same_bits(first: int) -> None:
    with in_python_form():
        for seed in range(first, first + TOGETHER):
            result = compare(program_of(seed).text())
            assert not result.difference, (
                f"seed {seed}, {result.difference}\n{result.report}\n{program_of(seed).text()}"
            )


def failure(text: str) -> str:
    try:
        result = compare(text)
    except (NameError, KeyError):  # shortened too far
        return ""
    return result.difference and f"{result.difference}\n{result.report}"


def main(count: int, first: int = 0) -> int:
    walked = calls = never = failed = 0
    with in_python_form():
        for seed in range(first, first + count):
            program = program_of(seed)
            try:
                result = compare(program.text())
                walked, calls, never = walked + result.walked, calls + result.calls, never + (not result.walked)
                if not result.difference:
                    continue
            except Exception as error:
                print(f"seed {seed}: {type(error).__name__}: {error}")
                raise
            failed += 1
            short = shortened(program, lambda text: bool(failure(text)))
            print(f"--- seed {seed}: {failure(short.text())[:1500]}\n{short.text()}", flush=True)
    print(f"{count} programs, {failed} failed; {walked} of {calls} calls along the record, {never} programs never")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*[int(word) for word in sys.argv[1:]]))
