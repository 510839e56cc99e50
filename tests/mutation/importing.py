"""A plugin of pytest under which one module is imported with a mistake in it: for what runs while modules are imported.

`$MUTANT` is a file of JSON: the path of the module, its mutated text, and the tests to run, in order; none: all that are collected.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
from pathlib import Path
from typing import Any

from tests.mutation.swapping import show

_given = json.loads(Path(os.environ["MUTANT"]).read_text())
_plain = importlib.machinery.SourceFileLoader.get_code


def _get_code(self: Any, fullname: str) -> Any:
    if self.path == _given["path"]:
        show(self.path, _given["source"])
        return compile(_given["source"], self.path, "exec", dont_inherit=True)
    return _plain(self, fullname)


importlib.machinery.SourceFileLoader.get_code = _get_code  # type: ignore[method-assign]


def pytest_collection_modifyitems(items):
    if not _given["tests"]:
        return
    places = {test: place for place, test in enumerate(_given["tests"])}
    items[:] = sorted([item for item in items if item.nodeid in places], key=lambda item: places[item.nodeid])


def pytest_runtest_logreport(report):
    if report.failed:
        Path(os.environ["MUTANT"] + ".killed").write_text(report.nodeid)
