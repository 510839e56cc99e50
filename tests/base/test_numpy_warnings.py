"""What is inf or NaN comes without a warning of NumPy's, also where filters of warnings are set anew: in pytest, for each test."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import warnings

import numpy
import pytest

import dynograd

assert dynograd.zeros(2).log().isinf().all()


def test_numbers_that_are_inf():
    assert dynograd.zeros(3).log().isinf().all() and dynograd.ones(3).div(0).isinf().all()


def test_a_warning_of_ones_own():
    with pytest.warns(RuntimeWarning):
        numpy.log(numpy.zeros(3))
    warnings.warn("mine")
"""


def run(folder, *options):
    (folder / "test_program.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "conftest.py").write_text("import dynograd", encoding="utf-8")  # before tests are collected
    command = [sys.executable, "-m", "pytest", *options, "test_program.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_tests_of_users_see_no_warnings_of_numpy(tmp_path):
    with_plugin = run(tmp_path, "-p", "dynograd_pytest")
    assert "2 passed, 1 warning" in with_plugin.stdout and "UserWarning: mine" in with_plugin.stdout, with_plugin.stdout
    assert "divide by zero" in run(tmp_path).stdout


def test_pytest_finds_the_plugin():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.entry-points.pytest11]\ndynograd = "dynograd_pytest"\n' in text
