"""A recorded tensor answers every question as a plain one does: within the step, and in what the step gives."""

from __future__ import annotations

import copy
import operator
import pickle
import random
from typing import Any

import numpy
import pytest

import dynograd as torch
from dynograd.plans.compiling import Compiled
from tests.plans.twins import in_python_form, seen

# Places in memory, memory as it comes, how Python sees the class, what is drawn by chance, and what only a GPU has.
APART = frozenset(
    """array node __class__ __doc__ __module__ __slots__ __firstlineno__ __static_attributes__ __init__ __new__ __hash__ __repr__ __dir__ __sizeof__ __dlpack__ __reduce__ __reduce_ex__
    __getstate__ __setstate__ __delattr__ __setattr__ __getattribute__ __dict__ __weakref__ __init_subclass__ __subclasshook__ __eq__ data_ptr
    __cuda_array_interface__ bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ multinomial normal_ random_ uniform_ storage
    untyped_storage share_memory_ is_shared __deepcopy__ new_empty new_empty_strided""".split()
)
NAMES = [name for name in dir(torch.Tensor) if name not in APART]
QUESTIONS: dict[str, Any] = {
    name: lambda tensor, name=name: value() if callable(value := getattr(tensor, name)) else value for name in NAMES
} | {
    "numpy.asarray": lambda tensor: numpy.asarray(tensor.detach()),
    "numpy.sum": lambda tensor: numpy.sum(tensor.detach().numpy()),
    "the type of numpy()": lambda tensor: type(tensor.detach().numpy()).__name__,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda tensor: pickle.loads(pickle.dumps(tensor.detach())),
    "bool": bool,
    "float": float,
    "list": list,
    "format": "{:}".format,
    "in": lambda tensor: 2.0 in tensor,
    "==": lambda tensor: tensor == 2.0,
    "write": lambda tensor: tensor.detach().__setitem__(0, 5.0),
    "data =": lambda tensor: setattr(tensor, "data", torch.zeros(2)),
    "grad_fn": lambda tensor: tensor.grad_fn is None,
    "retain_grad": lambda tensor: tensor.requires_grad and tensor.retain_grad(),
    "dlpack": lambda tensor: torch.from_dlpack(tensor.detach()),
    "storage": lambda tensor: tensor.detach().untyped_storage().tolist(),
    "hash": lambda tensor: {tensor: 1}[tensor],
}


def answer(tensor: Any, name: str) -> Any:
    try:
        result = QUESTIONS[name](tensor)
        if getattr(result, "is_sparse", False) or str(getattr(result, "layout", "strided"))[-7:] != "strided":
            return str(result)
        if hasattr(result, "__next__"):
            result = list(result)
        if isinstance(result, (torch.Tensor, tuple, list, numpy.ndarray)):
            return repr(seen(result))
        return repr(result).partition(" at 0x")[0]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "afterwards"])
@pytest.mark.parametrize("grad", [True, False], ids=["gradient", "plain"])
def test_every_attribute(grad: bool, inside: bool) -> None:
    wrong = []
    leaf = torch.tensor([1.0, 3.0], requires_grad=grad)
    with in_python_form():
        for name in QUESTIONS:
            answers: list[Any] = []

            def step(x: Any) -> Any:
                y = x * 2
                if inside:
                    answers.append(answer(y, name))  # noqa: B023
                return y

            compiled = Compiled(step, always=True)
            for function in (step, compiled, compiled, compiled, compiled):
                y = function(leaf)
                if not inside:
                    answers.append(answer(y, name))
                answers.append(answer(y.detach(), "tolist"))
            expected, argument = answers[:2], answers[-2:]
            if expected != argument:
                wrong.append(f"{name}: {expected} and {argument}")
    assert not wrong, "\n".join(wrong)


def test_what_was_read_is_shared_along_another_way():
    """Where values lie in the memory of a way is up to addresses that were free when it was recorded."""
    draw = random.Random(0)
    for _ in range(4):

        def program(x):
            pairs = [(x * factor).t() for factor in range(2, 8)]
            if pairs[2].tolist()[0][0] > 0:
                pairs.reverse()
                pairs[0] = pairs[0] * 3
            return pairs

        compiled = Compiled(program, always=True)
        for call in range(10):
            junk = [torch.empty(6) for _ in range(draw.randrange(40))]
            draw.shuffle(junk)
            del junk[len(junk) // 2 :]
            x = torch.arange(6.0).view(2, 3) + call % 3 % 2
            assert [value.tolist() for value in compiled(x)] == [value.tolist() for value in program(x)]
        assert compiled.walked > 5


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize(
    "other",
    [
        lambda x, plain, weight: plain,
        lambda x, plain, weight: weight,
        lambda x, plain, weight: x + 1,
        lambda x, plain, weight: torch.arange(5) - 2.0,
        lambda x, plain, weight: torch.arange(5.0),
    ],
    ids=["plain", "parameter", "recorded", "recorded, of a new one", "new"],
)
def test_comparisons_from_either_side(name: str, other: Any):
    """Python begins with the operand of the derived class, which a recorded tensor is of."""
    compare, plain, weight = getattr(operator, name), torch.arange(5.0), torch.nn.Parameter(torch.ones(5))

    def step(x: Any) -> Any:
        weight.grad = None
        y = x * 2 + weight
        there = other(x, plain, weight)
        left, right = compare(there, y), compare(y, there)
        (y * left + y * y * right).sum().backward()
        return torch.stack([left, right]), weight.grad

    made = Compiled(step, always=True)
    for number in range(6):
        x = torch.tensor([0.5, -1.0, 1.5, 0.0, number])
        for mine, theirs in zip(made(x), step(x), strict=True):
            assert torch.equal(mine, theirs)
    assert made.walked == 4, str(made.report())
