"""`out=` where PyTorch's functions have it, and nowhere else; the same results, refusals and warnings."""

import inspect
import re
import warnings
from pathlib import Path

import numpy
import pytest
import torch

import dynograd

# Ours in PyTorch's Python files rather than its generated ones; or functions that dynograd alone has.
BY_HAND = {
    "chain_matmul",
    "lu",
    "norm",
    "normalize",
    "tensordot",
    "gelu",
    "logsigmoid",
    "softplus",
    "softshrink",
    "softmax",
}
BY_HAND |= {
    "log_softmax",
    "linear",
    "lstsq",
    "native_batch_norm",
}  # of `special`, `nn.functional`, and one that does not document it
NOT_PLAIN = re.compile(r"cudnn|mkldnn|batch_norm|hspmm|saddmm|sspaddmm|_elemt$|avg_pool")


def pytorch_names(module):
    if module == "":
        text = (Path(torch.__path__[0]) / "_C" / "_VariableFunctions.pyi").read_text()
        results = re.finditer(r"def (\w+)\((.*?)\) *->", text, re.S)
        names = {result.group(1) for result in results if re.search(r"\bout:", result.group(2))}
        return {name for name in names if hasattr(torch, name) and name[0] != "_" and not NOT_PLAIN.search(name)}
    place = getattr(torch, module)
    documented = {name: (getattr(place, name).__doc__ or "").partition("->")[0] for name in dir(place)}
    return {name for name, text in documented.items() if "out=" in text[:400] and name[0] != "_"}


def has_out(place, name):
    function = getattr(place, name, None)
    return callable(function) and not inspect.isclass(function) and "out" in inspect.signature(function).parameters


@pytest.mark.parametrize("module", ["", "linalg", "fft", "special"])
def test_the_same_functions_have_out(module):
    ours = getattr(dynograd, module) if module else dynograd
    names = pytorch_names(module)
    assert len(names) > 19
    missing = [name for name in sorted(names) if hasattr(ours, name) and not has_out(ours, name)]
    assert not missing, f"without out=, which PyTorch's have: {missing}"
    extra = [
        name
        for name in sorted(ours.__all__)
        if has_out(ours, name) and hasattr(torch if not module else getattr(torch, module), name) and name not in names
    ]
    assert set(extra) <= BY_HAND | {"avg_pool2d", "avg_pool3d", "native_dropout"}, (
        f"with out=, which PyTorch's do not have: {extra}"
    )


def both(call):
    """What a call gives with each library: the value, or the kind of exception, and the warning's first words."""
    result = []
    for library in (dynograd, torch):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                got = call(library)
                got = numpy.asarray(got.detach().numpy()).tolist() if hasattr(got, "detach") else got
            except (RuntimeError, TypeError, IndexError) as error:
                got = RuntimeError if isinstance(error, RuntimeError) else type(error)
        resized = any("was resized since it had shape" in str(element.message) for element in caught)
        result.append((got, resized))
    return result


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.add(t.ones(3), t.ones(3), out=t.empty(0)),
        lambda t: t.add(t.ones(3), t.ones(3), out=t.empty(2)),
        lambda t: t.add(t.ones(3), t.ones(3), out=t.empty(3, 1)),
        lambda t: t.add(t.ones(3), t.ones(3), out=t.empty(3, dtype=t.float64)),
        lambda t: t.add(t.ones(3), t.ones(3), out=t.empty(3, dtype=t.int64)),
        lambda t: t.add(t.ones(3, dtype=t.int64), 1, out=t.empty(3)),
        lambda t: t.lt(t.ones(3), 2, out=t.empty(3)),
        lambda t: t.exp(t.ones(3), out=t.zeros(1).expand(3)),
        lambda t: t.exp(t.ones(3, requires_grad=True), out=t.empty(3)),
        lambda t: t.exp(t.ones(3), out=t.empty(3, requires_grad=True)),
        lambda t: t.argmax(t.tensor([1.0, 3.0], requires_grad=True), out=t.empty(0, dtype=t.int64)),
        lambda t: t.add(t.arange(6.0)[1:], t.ones(5), out=t.zeros(6)[1:]),
        lambda t: t.add(t.ones(3), t.ones(3), out=t.zeros(3, 3)[:, 1]),
        lambda t: t.exp(t.ones(3), out=5),
        lambda t: t.sort(t.tensor([2.0, 1.0]), out=t.empty(2)),
        lambda t: t.sort(t.tensor([2.0, 1.0]), out=(t.empty(0), t.empty(0, dtype=t.int64)))[0],
        lambda t: t.max(t.tensor([[2.0, 1.0]]), 1, out=(t.empty(0), t.empty(0, dtype=t.int64)))[1],
        lambda t: t.sum(t.ones(2, 3), 0, out=t.empty(0)),
        lambda t: t.cat([t.ones(2), t.zeros(1)], out=t.empty(0)),
        lambda t: t.matmul(t.ones(2, 2), t.ones(2, 2), out=t.empty(2, 2)),
        lambda t: t.linalg.inv(t.eye(2) * 2, out=t.empty(0)),
        lambda t: t.arange(3, out=t.empty(0)),
        lambda t: t.zeros(2, out=t.ones(2)),
        lambda t: t.zeros(2, out=t.ones(3)),
        lambda t: t.ones(2).relu(out=t.empty(2)),
        lambda t: t.ones(6).resize_(2, 3),
        lambda t: t.arange(6).resize_(2, 2),
        lambda t: t.arange(6)[2:].resize_(2),
        lambda t: t.arange(6)[2:].storage_offset(),
        lambda t: t.arange(6)[2:].untyped_storage().nbytes(),
        lambda t: t.zeros(0).set_(t.arange(4.0).untyped_storage(), 1, (2,), (2,)),
        lambda t: t.zeros(3, 1).expand(3, 3).add_(1),
        lambda t: (lambda x: x[1:].add_(x[:-1]))(t.arange(4.0)),
        lambda t: (lambda x: x.add_(x.t()))(t.ones(3, 3)),
        lambda t: t.zeros(3, 1).expand(3, 3).fill_(1),
        lambda t: t.zeros(2, -1),
        lambda t: (lambda x: (t.arange(0, 4, out=x[:, 1:]), x)[1])(t.zeros(2, 3)),
        lambda t: (lambda x: (t.linspace(0, 4, 4, out=x[:, 1:]), x)[1])(t.zeros(2, 3)),
        lambda t: (lambda x: (t.logspace(0, 1, 4, out=x[:, 1:]), x)[1].round())(t.zeros(2, 3)),
        lambda t: (lambda x: (t.range(0, 3, out=x[:, 1:]), x)[1])(t.zeros(2, 3)),
        lambda t: t.arange(0, 6, out=t.zeros(3, 2).t()),
        lambda t: t.sum(t.full((5,), 1e38), 0, out=t.zeros((), dtype=t.float64)),
        lambda t: t.sum(t.tensor([1.5, 2.5]), 0, out=t.zeros((), dtype=t.int32)),
        lambda t: t.sum(t.ones(3), 0, out=t.zeros((), dtype=t.float64), dtype=t.float32),
        lambda t: t.prod(t.full((3,), 1e30), 0, out=t.zeros((), dtype=t.float64)),
        lambda t: t.mean(t.full((5,), 1e38), 0, out=t.zeros((), dtype=t.float64)),
        lambda t: t.cumsum(t.full((3,), 200, dtype=t.uint8), 0, out=t.zeros(3, dtype=t.uint8)),
        lambda t: t.cumsum(t.tensor([1.5, 2.5]), 0, out=t.zeros(2, dtype=t.int64)),
        lambda t: t.cumprod(t.full((3,), 3, dtype=t.int32), 0, out=t.zeros(3, dtype=t.float64)),
        lambda t: t.cumprod(t.ones(3), 0, out=t.zeros(3, dtype=t.float64), dtype=t.float32),
        lambda t: t.abs(t.tensor([3 + 4j]), out=t.zeros(1, dtype=t.complex64)),
        lambda t: t.abs(t.tensor([3 + 4j]), out=t.zeros(1, dtype=t.float64)),
        lambda t: t.abs(t.tensor([3 + 4j]), out=t.zeros(1, dtype=t.int64)),
        lambda t: t.neg(t.ones(1), out=t.zeros(1, dtype=t.float64)),
        lambda t: t.round(t.ones(1), out=t.zeros(1, dtype=t.float64)),
        lambda t: t.topk(t.ones(2), 1, out=(t.zeros(1), t.zeros(1, dtype=t.int32))),
        lambda t: t.max(t.ones(2), 0, out=(t.zeros(()), t.zeros((), dtype=t.float64))),
        lambda t: t.mode(t.ones(2), 0, out=(t.zeros((), dtype=t.float64), t.zeros((), dtype=t.int64))),
        lambda t: t.amax(t.ones(2), 0, out=t.zeros((), dtype=t.float64)),
        lambda t: t.aminmax(t.tensor([1j])),
        lambda t: t.amax(t.tensor([1j])),
        lambda t: t.nansum(t.tensor([1j])),
        lambda t: t.histogram(t.ones(4), t.ones(3, dtype=t.float64)),
        lambda t: t.histogram(t.ones(4), t.tensor(1.0)),
        lambda t: t.histogram(t.ones(4), 2, weight=t.ones(4, dtype=t.float64)),
        lambda t: t.histogramdd(t.ones(4, 0), []).hist,
        lambda t: t.histc(t.ones(3), min=3, max=1),
        lambda t: t.add(t.tensor([True, False]), t.tensor([True, True]), alpha=2),
        lambda t: t.add(t.tensor([True, False]), t.tensor([True, True]), alpha=0),
        lambda t: t.add(t.tensor([True, False]), 1, alpha=2),
        lambda t: t.add(t.ones(1), 1, alpha=True),
        lambda t: t.sub(t.ones(1), 1, alpha=True),
        lambda t: t.add(t.tensor([True, False]), t.tensor([True, True]), alpha=True),
        lambda t: t.heaviside(t.tensor([1j]), t.tensor([1j])),
        lambda t: t.maximum(t.ones(1, dtype=t.complex64), t.ones(1, dtype=t.float64)),
        lambda t: t.float_power(t.ones(1), 2, out=t.ones(1)),
        lambda t: t.isposinf(t.ones(3), out=t.ones(3)),
        lambda t: t.isneginf(t.tensor([1j])),
        lambda t: t.signbit(t.ones(3), out=t.ones(3)),
        lambda t: t.isin(t.ones(3), t.ones(3), out=t.ones(3)),
        lambda t: t.masked.prod(t.full((2, 2), 3.0), dim=[]),
        lambda t: t.masked.prod(t.full((2, 2), 3.0), dim=()),
    ],
)
def test_the_same_outcome(call):
    ours, pytorchs = both(call)
    assert ours == pytorchs
