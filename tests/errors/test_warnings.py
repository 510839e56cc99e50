"""Warnings name the line of the program that led to them, however many of our own frames lie between."""

import warnings

import pytest

import dynograd as dg
from dynograd import nn
from dynograd.nn import functional as F

CALLS = {
    "a function with a quick way": lambda: F.softmax(dg.ones(3)),
    "a method": lambda: dg.ones(2, 3, 4).T,
    "a module in a module": lambda: nn.Sequential(nn.Sequential(nn.Softmax()))(dg.ones(2, 3)),
    "a loss": lambda: F.mse_loss(dg.ones(3), dg.ones(2, 3)),
    "indexing": lambda: dg.ones(3)[dg.tensor([1, 0, 1], dtype=dg.uint8)],
    "a constructor": lambda: nn.RNN(2, 2, dropout=0.5),
    "out=": lambda: dg.add(dg.ones(3), 1, out=dg.ones(2)),
}


@pytest.mark.parametrize("name", CALLS)
def test_warnings_name_the_users_line(name):
    call = CALLS[name]
    for _ in range(2):  # the first call of an op writes its code
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert [(element.filename, element.lineno) for element in caught] == [
            (__file__, call.__code__.co_firstlineno)
        ], caught
