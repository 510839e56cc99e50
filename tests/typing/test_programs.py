"""Programs as users write them, with annotations: mypy and pyright report nothing in them, and they run."""

from __future__ import annotations

import importlib.util
import math
import sys

import pytest

from tests.typing import checkers

PROGRAMS = sorted((checkers.HERE / "programs").glob("*.py"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_program_runs(path, monkeypatch):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)  # dataclasses look for it there
    spec.loader.exec_module(module)
    assert math.isfinite(module.main())


@pytest.mark.slow
def test_mypy_reports_nothing():
    assert checkers.by_mypy(PROGRAMS) == {}


@pytest.mark.slow
@pytest.mark.skipif(checkers.name_of_pyright() is None, reason="pyright is not installed; the extra `types` has it")
def test_pyright_reports_nothing(tmp_path):
    assert checkers.by_pyright(PROGRAMS, tmp_path) == {}
