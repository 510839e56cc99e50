"""`axis` and `keepdims` are taken where PyTorch takes them, but for what `argument_names_known.txt` names; that list only gets shorter."""

import warnings

import numpy
import pytest
import torch
from parity import argument_names

import dynograd


@pytest.mark.parametrize("name", argument_names.ENTRIES)
def test_entry(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = argument_names.refused(name)
    known = argument_names.KNOWN.get(name, set())
    assert not found - known
    assert not known - found, "taken now: take them out of argument_names_known.txt"


def test_known_entries_exist():
    assert set(argument_names.KNOWN) <= set(argument_names.ENTRIES)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, x: lib.frobenius_norm(x, axis=1),
        lambda lib, x: lib.frobenius_norm(x, dim=1, keepdims=True),
        lambda lib, x: lib.nuclear_norm(x, axis=(0, 1)),
        lambda lib, x: lib.norm_except_dim(x, 2, axis=0),
        lambda lib, x: lib.unsafe_split_with_sizes(x, [1, 3], axis=1)[1],
        lambda lib, x: x.unsafe_split_with_sizes([1, 3], axis=1)[1],
    ],
)
def test_what_the_database_has_not(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = call(torch, torch.arange(12.0).reshape(3, 4))
    numpy.testing.assert_allclose(call(dynograd, dynograd.arange(12.0).reshape(3, 4)).tolist(), wanted.tolist(), 1e-5)
