"""`with autobatch():`, the scope in which ops are recorded and run in groups."""

from __future__ import annotations

import functools
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import caller
from dynograd.base.habits import Habits
from dynograd.interpreter.tensor_parts import watchers
from dynograd.kernels.build.determinism import are_deterministic_algorithms_enabled
from dynograd.tensor import inplace
from dynograd.transforms.autobatch.group.gains import gained
from dynograd.transforms.autobatch.record import (
    assignments,  # noqa: F401 - writes at an index
    learning,  # noqa: F401 - finds sequences
    lookups,  # noqa: F401 - gives embeddings a form of their own
    pending,
    reading,
    writing,
)
from dynograd.transforms.autobatch.record.recorder import Recorder
from dynograd.transforms.autobatch.reports import Report

pending.install_methods()
reading.install()
_last: list[Report | None] = [None]
_habits = Habits("scopes", longest=63, grace=True)
_skipped = Report()  # of scopes that are not recorded
_skipped.skipped = True


class autobatch:
    """Inside, ops are recorded and those that are alike run together: a loop over examples becomes a few large calls.

    Nothing in the code inside changes. A result knows its shape and dtype; what needs its value (`item()`, `print`, `if t > 0`, a
    debugger) gets it, by running what has been recorded and is needed for it. `backward()` goes group by group too. Leaving the
    outermost scope runs the rest.

    Args:
        limit: how many calls may wait; then they are run, so that memory stays bounded.
        always: record all of it, each time. Otherwise a scope in which too few calls found partners to gain anything (one example, with
            little alike in it) is not recorded the next time at that line, then 3 times, 7 times, up to 63: then one example alone
            costs what it costs outside. What has been learned so is forgotten by `manual_seed`, saved with a run, and not used after
            `use_deterministic_algorithms(True)`, so that last bits do not depend on what ran before. And where values are read again and
            again and each time little has come together, the rest of the scope is not recorded.

    >>> layer = dynograd.nn.Linear(3, 2)
    >>> examples = [dynograd.ones(3) * k for k in range(4)]
    >>> with dynograd.autobatch():
    ...     loss = dynograd.stack([layer(x).tanh().sum() for x in examples]).sum()
    >>> loss.backward()
    """

    is_open = is_reading = False  # whether it counts among the open scopes, and the reader is on for it

    def __init__(self, limit: int = 1_000_000, *, always: bool = False) -> None:
        if not isinstance(limit, int) or limit < 1:
            raise ValueError(f"autobatch: expected limit to be a positive number of calls, got {limit!r}.")
        self.limit, self.always = limit, always

    def __enter__(self) -> Report:
        self.outer = MODES.recorder
        if self.outer is not None:  # one record for all scopes of a thread
            return self.outer.report
        self.place = code, line = caller() or (None, 0)
        self.habitual = not (self.always or are_deterministic_algorithms_enabled())
        if self.habitual and _habits.leaves(self.place):  # nothing here had a partner: recording would only cost
            self.outer = _last[0] = _skipped
            return _skipped
        compiled = MODES.sequences if MODES.plan is None else MODES.plan.scopes()
        sequences = None if compiled is None else compiled.begin(code, line)
        report = _last[0] = Report()
        self.recorder: Any = None
        self.guard = inplace.guard()
        try:
            inplace.guards.append(self.guard)
            writing.open_(self)
            self.recorder = Recorder(self.limit, report, self.always, sequences)
            MODES.recorder = self.recorder
            if sequences is not None:
                sequences.begin(self.recorder)
            watchers.append(self.recorder.note_view)
        except BaseException:
            self.close()
            raise
        return report

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.outer is not None:
            return
        recorder = self.recorder
        try:
            if kind is None:
                recorder.flush(None, "the end of the scope")
                if self.habitual:
                    report = recorder.report
                    _habits.learn(self.place, not report.ended and gained(report) >= 0)
                if recorder.failed:
                    first, others = recorder.failed[0], len(recorder.failed) - 1
                    if others:
                        first.add_note(f"autobatch: {others} other calls failed too")
                    raise first
        finally:
            try:
                self.close()
            except BaseException:  # an interrupt
                self.close()
                raise

    def close(self) -> None:
        """Nothing more is recorded. May begin anew wherever it was interrupted."""
        MODES.recorder = None
        if self.guard in inplace.guards:
            inplace.guards.remove(self.guard)
        if self.recorder is not None:
            if self.recorder.note_view in watchers:
                watchers.remove(self.recorder.note_view)
            self.recorder.close()
        writing.close(self)

    def __call__(self, function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with autobatch(self.limit, always=self.always):
                return function(*args, **kwargs)

        return call

    @staticmethod
    def report() -> Report:
        """What the latest scope did: groups and their sizes, what was not batched and why, what made waiting calls run.

        Raises:
            RuntimeError: there was no scope yet.
        Returns:
            A `Report`; its text is for people.

        >>> with dynograd.autobatch(always=True):
        ...     results = [(dynograd.ones(2) * k).tanh() for k in range(8)]
        >>> text = str(dynograd.autobatch.report())
        """
        if _last[0] is None:
            raise RuntimeError("autobatch.report: there was no `with dynograd.autobatch():` yet in this process.")
        return _last[0]
