"""`batched`: a function written for one example, run on many, each of them parked at its own decisions.

Every example is a task with a stack of its own (see `carriers`). A task that asks for a value is parked, and the next one goes on;
when all are parked, what they wait for runs in groups. So decisions cost one group for all examples.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Iterable
from typing import Any, Literal, overload

from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller
from dynograd.base.habits import Habits
from dynograd.base.random_streams import default_generator
from dynograd.kernels.build.determinism import are_deterministic_algorithms_enabled
from dynograd.transforms.autobatch.carriers import copied, put, states_of_thread
from dynograd.transforms.autobatch.group.gains import gained
from dynograd.transforms.autobatch.pools import Pool
from dynograd.transforms.autobatch.record.recorder import outside
from dynograd.transforms.autobatch.scope import autobatch
from dynograd.transforms.autobatch.turns import Run, mixed

_habits = Habits("batched", longest=255, grace=False)  # calls whose examples run one after the other


@overload
def batched(
    function: Callable[..., Any],
    *,
    errors: str = "raise",
    concurrent: int = 512,
    always: bool = False,
    running: Literal[False] = False,
) -> Callable[[Iterable[Any]], list[Any]]: ...
@overload
def batched(
    function: Callable[..., Any], *, concurrent: int = 512, running: Literal[True], queue: int | None = None
) -> Pool: ...
def batched(
    function: Callable[..., Any],
    *,
    errors: str = "raise",
    concurrent: int = 512,
    always: bool = False,
    running: bool = False,
    queue: int | None = None,
) -> Callable[[Iterable[Any]], list[Any]] | Pool:
    """The function that runs `function(example)` on every example and lists the results, as `[function(x) for x in examples]` does.

    `function` may use `if`, `while`, recursion, `.item()` and early exit on its own values: an example that needs a value waits for
    it together with all others that do, so the work between decisions runs in groups. Random numbers are drawn from a stream of each
    example's own, given by the seed and the example's place: they do not depend on the other examples.

    Args:
        function: a function of one argument, written for one example.
        errors: "raise": when all examples are done, raise the error of the first one that failed, with its place; "return":
            give each error in place of its example's result.
        concurrent: how many examples may be under way at a time.
        always: let the examples wait for each other, each time. Otherwise, where too little came together to gain anything (by the
            number and sort of calls in a group), the next call at that line with no more examples runs them one after the other, then
            3 calls, 7 calls, up to 255.
        running: a `Pool` in place of the function: examples are submitted one by one, also while others are under way, and join them at
            the next turn.
        queue: of a pool, how many examples may wait to be begun; 4096 unless given.
    Returns:
        A function from an iterable of examples to the list of results, or the pool.

    >>> def halvings(x):
    ...     count = 0
    ...     while x > 1:
    ...         x, count = x / 2, count + 1
    ...     return count
    >>> dynograd.batched(halvings)([tensor(5.0), tensor(1.0), tensor(100.0)])
    [3, 0, 7]
    >>> with dynograd.batched(halvings, running=True) as pool:
    ...     future = pool.submit(tensor(5.0))
    >>> future.result()
    3
    """
    if not callable(function):
        raise TypeError(f"batched: expected a function of one example, got {type(function).__name__}.")
    if errors not in ("raise", "return"):
        raise ValueError(f"batched: expected errors to be 'raise' or 'return', got {errors!r}.")
    if not isinstance(concurrent, int) or concurrent < 1:
        raise ValueError(f"batched: expected concurrent to be a positive number of examples, got {concurrent!r}.")
    if running:
        if errors != "raise" or always:
            raise ValueError(
                "batched: errors and always are of lists of examples; with running=True each future has its own error, and examples always wait."
            )
        return Pool(function, concurrent, 4096 if queue is None else queue)
    if queue is not None:
        raise ValueError(
            "batched: queue is of pools, to which examples come one by one. Add running=True, or leave it out."
        )

    body = getattr(function, "__code__", type(function))

    @functools.wraps(function)
    def call(examples: Iterable[Any]) -> list[Any]:
        listed = list(examples)
        place = body, *(caller() or (None, 0))
        if len(listed) == 1 and MODES.recorder is None:  # nothing to wait for
            results, failed = _one_by_one(function, listed)
        elif not (always or are_deterministic_algorithms_enabled()) and _too_few(place, len(listed)):
            with outside():
                results, failed = _one_by_one(function, listed)
        else:
            with autobatch(always=True) as report:
                before = len(report.order)
                run = Run(function, listed, concurrent)
                tasks = run.all()
                if run.outer is None:
                    run.finish()
                    _habits.learn(place, gained(report, before, run.turns) >= 0, len(listed))
            results = [task.result if task.error is None else task.error for task in tasks]
            failed = [task.place for task in tasks if task.error is not None]
        for example in failed:
            error = results[example]
            error.add_note(f"batched: in example {example}")
            if errors == "raise":
                raise error
        return results

    return call


def _one_by_one(function: Any, examples: list[Any]) -> tuple[list[Any], list[int]]:
    """Runs the examples as they stand, each with the modes and the random numbers that it would have among the others.

    Returns the results, errors among them, and the places of those.
    """
    seed, offset = default_generator.key(1)
    after = default_generator.state()
    live = states_of_thread()
    entry, context = copied(live), contextvars.copy_context()
    results: list[Any] = []
    failed: list[int] = []
    try:
        for place, example in enumerate(examples):
            default_generator._seed, default_generator._offset = mixed(seed, offset, place), 0
            try:
                results.append(context.copy().run(function, example))
            except Exception as error:
                results.append(error)
                failed.append(place)
            finally:
                if live != entry:
                    put(live, copied(entry))
    finally:
        default_generator.set_plain_state(after)
    return results, failed


def _too_few(place: Any, examples: int) -> bool:
    """Whether so many examples gained nothing from each other the latest time at this place."""
    inside = MODES.recorder is not None and MODES.recorder.task is not None
    return not inside and _habits.leaves(place, examples)
