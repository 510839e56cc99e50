"""A plugin of pytest that notes which test runs which lines of the rooms, and how long it takes.

    python -m pytest -p tests.mutation.covering -m "not slow" tests/ops

leaves `$MUTANTS/covering/NAME.json`: the tests, their seconds, and for each line of each file the tests that run it. What runs while
modules are imported and tests collected has the name "".
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import coverage
import pytest

from tests.mutation.rooms import ROOMS, ROOT

FOLDER = Path(os.environ["MUTANTS"]) / "covering"
NAME = os.environ["MUTANTS_PART"]

_seconds: dict[str, float] = {}
_failed: set[str] = set()
_tracer = coverage.Coverage(
    data_file=str(FOLDER / f"{NAME}.coverage"),
    config_file=False,
    include=[str(ROOT / folder / "*") for folder in ROOMS.values()],
)
_tracer.erase()
_tracer.start()
_trace = sys.gettrace()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    if sys.gettrace() is None:  # a test of debuggers has ended it
        sys.settrace(_trace)
    _tracer.switch_context(item.nodeid)
    start = time.perf_counter()
    try:
        return (yield)
    finally:
        _seconds[item.nodeid] = time.perf_counter() - start
        _tracer.switch_context("")


def pytest_runtest_logreport(report):
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish():
    _tracer.stop()
    data = _tracer.get_data()
    tests = list(_seconds)
    places = {test: place for place, test in enumerate(tests)}
    lines = {}
    for file in data.measured_files():
        lines[str(Path(file).relative_to(ROOT))] = {
            line: sorted({places.get(context, -1) for context in contexts})
            for line, contexts in data.contexts_by_lineno(file).items()
        }
    (FOLDER / f"{NAME}.json").write_text(
        json.dumps(
            {
                "tests": tests,
                "seconds": [round(_seconds[test], 4) for test in tests],
                "failed": sorted(_failed),
                "lines": lines,
            }
        )
    )
