"""Tests here compare with PyTorch itself. `make parity` installs it; elsewhere every file is a skip with that reason."""

import importlib.util
import os

import pytest

# Some virtual processors name AMX and do not permit it: PyTorch's products of bfloat16 would end the process. Read when torch is loaded.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
if importlib.util.find_spec("torch") is not None:
    # Its threads spin while they wait for each other: with two test processes on two cores, most of the processors' time.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


class WithoutTorch(pytest.Module):
    """Stands for a test file that cannot be imported here."""

    def collect(self):
        pytest.skip("needs torch 2.13.0: run `make parity`", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    if importlib.util.find_spec("torch") is None:
        return WithoutTorch.from_parent(parent, path=module_path)
    return None


def pytest_terminal_summary(terminalreporter):
    """How much of PyTorch's op database passes, check by check."""
    counts = {}
    for outcome in ("passed", "xfailed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            name, _, kind = report.nodeid.partition("::test_entry[")[2].rstrip("]").rpartition("-")
            if name and "test_op_database" in report.nodeid:
                counts.setdefault(kind, dict.fromkeys(("passed", "xfailed", "failed"), 0))[outcome] += 1
    for kind, result in counts.items():
        terminalreporter.write_line(f"op database, {kind}: {result['passed']} of {sum(result.values())} entries pass")
