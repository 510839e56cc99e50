"""The names around `compile` are PyTorch's, with its parameters; options and modes are those that it knows."""

import importlib
import inspect

import pytest
import torch as peer

import dynograd as torch


def half(x):
    return x * 0.5


@pytest.mark.parametrize("options", [{"max_autotun": True}, {"triton.cudagrphs": True}, {"max_autotune": 1}])
def test_errors_of_options_begin_alike(options):
    for library in (torch, peer):
        with pytest.raises(RuntimeError, match=r"Unexpected (optimization option|type of attr) [\w.]+, "):
            library.compile(half, options=options)


def test_modes_stand_for_the_same_options():
    assert torch._inductor.list_mode_options() == peer._inductor.list_mode_options()
    other_names = {name for name, entry in peer._inductor.config._config.items() if entry.alias}
    assert set(torch._inductor.list_options()) <= set(peer._inductor.list_options()) | other_names


def test_logs_have_the_same_names():
    names = (*torch._logging._COMPONENTS, *torch._logging._ARTIFACTS, "modules")
    assert set(names) == set(inspect.signature(peer._logging.set_logs).parameters)


NAMES = {
    "compiler": set(),
    "_dynamo": {"bytecode_debugger"},  # of PyTorch's interpreter of bytecode
    "_inductor": {"standalone_compile"},  # gives files of PyTorch's
}


@pytest.mark.parametrize("path", NAMES)
def test_the_names_are_torchs(path):
    theirs, ours = (importlib.import_module(f"{library.__name__}.{path}") for library in (peer, torch))
    assert {name for name in theirs.__all__ if not hasattr(ours, name)} == NAMES[path]


# What takes the rest as it comes, and answers the same.
LOOSE = {
    "export",
    "explain",
    "optimize",
    "optimize_assert",
    "OptimizedModule",
    "compile",
    "register_backend",
    "set_stance",
    "mark_dynamic",
}


@pytest.mark.parametrize("path", NAMES)
def test_parameters_are_torchs(path):
    theirs, ours = (importlib.import_module(f"{library.__name__}.{path}") for library in (peer, torch))
    for name in theirs.__all__:
        if name in LOOSE | NAMES[path] or not callable(getattr(theirs, name)):
            continue
        expected = list(inspect.signature(getattr(theirs, name)).parameters)
        assert list(inspect.signature(getattr(ours, name)).parameters)[: len(expected)] == expected, name
