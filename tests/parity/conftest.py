"""Tests here compare with PyTorch itself. `make parity` installs it; elsewhere every file is a skip with that reason."""

import importlib.util

import pytest


class WithoutTorch(pytest.Module):
    """Stands for a test file that cannot be imported here."""

    def collect(self):
        pytest.skip("needs torch 2.13.0: run `make parity`", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    if importlib.util.find_spec("torch") is None:
        return WithoutTorch.from_parent(parent, path=module_path)
    return None
