"""The first call of a function writes it, whoever calls."""

import os
import subprocess
import sys

import pytest

import dynograd as torch
from dynograd.ops import readers

THREADS = """
import sys
import threading

import dynograd as torch

sys.setswitchinterval(1e-5)
NAMES = "exp log sin tanh sigmoid sqrt abs neg sum mean prod amax cumsum softmax relu square floor erf".split()
failures, together = [], threading.Barrier(6)


def run():
    together.wait()
    for name in NAMES:
        try:
            x = torch.ones(2, 3, requires_grad=True)
            y = getattr(torch, name)(x, 1) if name in ("cumsum", "softmax") else getattr(torch, name)(x)
            y.sum().backward()
        except BaseException as error:
            failures.append(f"{name}: {error!r}")


threads = [threading.Thread(target=run) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failures)
"""


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in files"])
def test_six_threads_call_first(kept, tmp_path):
    settings = {"DYNOGRAD_CACHE_DIR": str(tmp_path)} if kept else {"DYNOGRAD_CACHE": "0"}
    run = subprocess.run(
        [sys.executable, "-c", THREADS], env={**os.environ, **settings}, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
    assert len(list(tmp_path.glob("functions/*/op/*.py"))) > 15 * kept - 1


def test_a_quick_way_that_is_about_to_come_back():
    """Another thread has said so, and has not yet given the function its code again: this one calls what lies beneath."""
    rows = torch.arange(6.0).view(2, 3)
    expected = torch.cat([rows, rows], -1).tolist()
    entry = next(entry for entry in readers._with_ways[""] if entry.key.endswith("joins.cat"))
    quick, long, _ = entry.ways
    assert entry.plain.__code__ is quick is not long
    entry._set_plain(long)
    try:
        assert torch.cat([rows, rows], -1).tolist() == torch.cat([rows, rows], axis=-1).tolist() == expected
    finally:
        entry.choose_way()
    assert entry.plain.__code__ is quick
