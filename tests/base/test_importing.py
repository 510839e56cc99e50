"""What makes an import quick gives what Python's own gives, and leaves nothing behind."""

import gc
import inspect
import subprocess
import sys

import pytest

from dynograd.base.garbage import uncollected
from dynograd.base.signatures import signature_of
from dynograd.ops.op import registry


def unhashable_default(input, dims=[0, 1], *, keepdim: bool = False) -> int:  # noqa: B006
    return 0


def told_by_types(a=1, b=True, c=1.0):
    return a


def starred(a, /, b, *rest, c=2, **named):
    return a


FUNCTIONS = [unhashable_default, told_by_types, starred, *[entry.forward for entry in registry.values()]]


def test_signatures_are_those_of_inspect():
    assert [
        function.__name__ for function in FUNCTIONS if str(signature_of(function)) != str(inspect.signature(function))
    ] == []
    assert [function.__name__ for function in FUNCTIONS if signature_of(function) != inspect.signature(function)] == []


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was(enabled):
    was = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        with pytest.raises(KeyError), uncollected():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is enabled
    finally:
        gc.enable() if was else gc.disable()


def test_an_import_leaves_the_collector_on():
    done = subprocess.run(
        [sys.executable, "-c", "import gc, dynograd; print(gc.isenabled())"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
