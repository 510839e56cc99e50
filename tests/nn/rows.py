"""Rows of layers: how one is built, what it prints and holds, and what it computes. Each row becomes one test of about ten cases.

    ROWS = [
        Row("Linear", (3, 2), shapes=[(4, 3)], reference=lambda p, x: x @ p.weight.T + p.bias, out=(4, 2),
            text="Linear(in_features=3, out_features=2, bias=True)", parameters={"weight": (2, 3), "bias": (2,)},
            errors=[error(lambda layer: layer(dg.zeros(2, 4)), RuntimeError, "4 features", "Linear(4, 2)")]),
    ]
    test_rows = generate(ROWS)

`reference(p, *inputs)` is NumPy in float64; `p` has the parameters, buffers, `training` and `dtype` of the layer. It is compared in
evaluation mode and, unless `random`, in training mode too.

What a row becomes: text, parameters and buffers; forward in float32 and float64, in both modes; gradients to every parameter and input;
gradcheck in float64; state_dict, deepcopy and pickle; `dtype=` and `device=` of layers with parameters; half types; `errors`.
"""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.gradcheck import gradcheck
from tests.support.cases import run_all

__all__ = ["Failure", "Row", "build", "error", "generate"]


@dataclass
class Failure:
    """A call that must fail, with the words its message must have."""

    call: Callable[[Any], Any]
    kind: type[BaseException]
    words: tuple[str, ...]


def error(call: Callable[[Any], Any], kind: type[BaseException], *words: str) -> Failure:
    return Failure(call, kind, words)


@dataclass
class Row:
    """One layer with one choice of options; see the top of this file.

    Args:
        shapes: of the inputs, drawn from `domain`; or `inputs(rng)` gives NumPy arrays (integers stay integers).
        out: expected shape; a tuple of shapes for several outputs.
        parameters, buffers: expected names and shapes; other names fail.
        random: training mode draws random numbers, so only evaluation is compared.
        smooth: False leaves gradcheck out, with the reason beside the row.
        constants: places of floating inputs that get no gradient, such as targets of 1 and -1.
        grads: False for layers whose output does not depend on inputs differentiably.
    """

    name: str
    args: tuple = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    inputs: Callable[[numpy.random.Generator], list[Any]] | None = None
    domain: tuple[float, float] = (-2.0, 2.0)
    reference: Callable[..., Any] | None = None
    out: Any = None
    text: str | None = None
    parameters: dict[str, tuple[int, ...]] = field(default_factory=dict)
    buffers: dict[str, tuple[int, ...]] = field(default_factory=dict)
    random: bool = False
    smooth: bool = True
    constants: tuple[int, ...] = ()
    grads: bool = True
    half: bool = True
    errors: list[Failure] = field(default_factory=list)
    id: str = ""


def build(row: Row, **extra: Any) -> Any:
    """The row's layer with parameters away from their starting values, so that no scale of 1 hides a missing factor."""
    dg.manual_seed(0)
    args = [dg.from_numpy(one.copy()) if isinstance(one, numpy.ndarray) else one for one in row.args]
    kwargs = {
        name: dg.from_numpy(one.copy()) if isinstance(one, numpy.ndarray) else one for name, one in row.kwargs.items()
    }
    layer = getattr(nn, row.name)(*args, **kwargs, **extra)
    rng = numpy.random.default_rng(1)
    with dg.no_grad():
        for name, value in [*layer.named_parameters(), *layer.named_buffers()]:
            if name.endswith("num_batches_tracked"):
                continue
            drawn = rng.uniform(0.5, 1.5, value.shape) if "var" in name else rng.uniform(-1, 1, value.shape)
            value.copy_(dg.from_numpy(numpy.asarray(drawn)))
    return layer


def arrays_of(row: Row) -> list[Any]:
    rng = numpy.random.default_rng(2)
    if row.inputs is not None:
        return row.inputs(rng)
    low, high = row.domain
    return [rng.uniform(low, high, shape) for shape in row.shapes]


def tensors_of(row: Row, dtype: Any, requires_grad: bool = False) -> list[Any]:
    made = []
    for place, array in enumerate(arrays_of(row)):
        tensor = dg.from_numpy(numpy.asarray(array))
        if tensor.is_floating_point():
            tensor = tensor.to(dtype).requires_grad_(requires_grad and place not in row.constants)
        made.append(tensor)
    return made


def outputs_of(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def compare(found: Any, wanted: Any, dtype: Any) -> None:
    tolerance = 1e-5 if dtype is dg.float32 else 1e-10
    wanted = wanted if isinstance(wanted, (tuple, list)) else [wanted]
    for one, other in zip(outputs_of(found), wanted, strict=True):
        numpy.testing.assert_allclose(one.detach().numpy(), other, rtol=tolerance, atol=tolerance)
        assert one.dtype is dtype or not one.is_floating_point()


def generate(rows: list[Row]) -> Callable[..., None]:
    """A test of each row, which runs every case of it."""
    titles = [f"{row.name}-{row.id}" if row.id else row.name for row in rows]

    @pytest.mark.parametrize(("title", "row"), list(zip(titles, rows, strict=True)), ids=titles)
    def test_rows(title: str, row: Row) -> None:
        run_all(title, cases_of(row))

    return test_rows


def cases_of(row: Row) -> list[tuple[str, Callable[[], None]]]:
    cases = [("held", partial(check_held, row)), ("copies", partial(check_copies, row))]
    for training in (False, True):
        if not (training and row.random):
            cases.append(("train" if training else "eval", partial(check_forward, row, training)))
    if row.grads:
        cases.append(("grads", partial(check_grads, row)))
        if row.smooth:
            cases.append(("gradcheck", partial(check_gradcheck, row)))
    if row.parameters and "dtype" in inspect.signature(getattr(nn, row.name).__init__).parameters:
        cases.append(("factory", partial(check_factory, row)))
    if row.half and row.grads:
        cases.append(("half", partial(check_half, row)))
    cases += [(f"error{number}", partial(check_error, row, failure)) for number, failure in enumerate(row.errors)]
    return cases


def check_held(row: Row) -> None:
    layer = build(row)
    assert {name: tuple(one.shape) for name, one in layer.named_parameters()} == row.parameters
    assert {name: tuple(one.shape) for name, one in layer.named_buffers()} == row.buffers
    if row.text is not None:
        assert repr(layer) == row.text
    assert list(layer.state_dict()) == [*row.parameters, *row.buffers]


def check_forward(row: Row, training: bool) -> None:
    for dtype in (dg.float32, dg.float64):
        layer = build(row).to(dtype).train(training)
        inputs = tensors_of(row, dtype)
        kept = [one.clone() for one in inputs]
        held = SimpleNamespace(training=training, dtype=dtype)
        for name, value in [*layer.named_parameters(), *layer.named_buffers()]:
            setattr(held, name, value.detach().numpy().astype(numpy.float64))
        for name in ("weight", "bias", "running_mean", "running_var"):
            if not hasattr(held, name):
                setattr(held, name, None)
        found = layer(*inputs)
        if row.out is not None:
            shapes = [tuple(one.shape) for one in outputs_of(found)]
            assert shapes == ([row.out] if not row.out or isinstance(row.out[0], int) else list(row.out))
        if row.reference is not None:
            wanted = row.reference(
                held, *[one.double().numpy() if one.is_floating_point() else one.numpy() for one in kept]
            )
            compare(found, wanted, dtype)
        if not getattr(layer, "inplace", False):
            assert all(bool((one == old).all()) for one, old in zip(inputs, kept, strict=True)), "an input was changed"


def loss_of(result: Any) -> Any:
    """A number that depends on every entry of every output, each in its own way."""
    total = 0.0
    for one in outputs_of(result):
        if one.is_floating_point():
            factors = numpy.cos(numpy.arange(one.numel())).reshape(one.shape) + 1.5
            total = total + (one * dg.from_numpy(numpy.asarray(factors)).to(one.dtype)).sum()
    return total


def check_grads(row: Row) -> None:
    layer = build(row).train(not row.random)
    inputs = tensors_of(row, dg.float32, requires_grad=True)
    called = [one * 1.0 if one.requires_grad else one for one in inputs]
    loss_of(layer(*called)).backward()
    wanted = [*layer.named_parameters(), *[(f"input {n}", one) for n, one in enumerate(inputs) if one.requires_grad]]
    for name, one in wanted:
        assert one.grad is not None, f"no gradient reaches {name}"
        assert one.grad.shape == one.shape and one.grad.dtype is one.dtype
        assert bool(one.grad.isfinite().all()), f"the gradient of {name} is not finite"
    assert any(float(one.grad.abs().sum()) > 0 for _, one in wanted)


def check_gradcheck(row: Row) -> None:
    layer = build(row).double().train(not row.random)
    inputs = tensors_of(row, dg.float64, requires_grad=True)
    names, parameters = zip(*layer.named_parameters(), strict=True) if row.parameters else ((), ())
    buffers = {name: one.clone() for name, one in layer.named_buffers()}

    def run(*values: Any) -> Any:
        for name, one in layer.named_buffers():
            one.data.copy_(buffers[name])
        return layer(*[value * 1.0 if value.requires_grad else value for value in values[: len(inputs)]])

    assert names is not None
    assert gradcheck(run, (*inputs, *parameters), atol=1e-6, rtol=1e-5)


def check_copies(row: Row) -> None:
    layer = build(row).eval()
    inputs = tensors_of(row, dg.float32)
    wanted = outputs_of(layer(*[one.clone() for one in inputs]))
    other = build(row)
    for value in other.parameters():
        value.data.fill_(7.0)
    assert repr(other.load_state_dict(layer.state_dict())) == "<All keys matched successfully>"
    twins = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), other.eval()]
    for twin in twins:
        assert repr(twin) == repr(layer) and twin.training is False
        for name, value in twin.named_parameters():
            mine = layer.get_parameter(name)
            assert isinstance(value, nn.Parameter) and value is not mine and value.data_ptr() != mine.data_ptr()
            assert value.requires_grad == mine.requires_grad
        found = outputs_of(twin(*[one.clone() for one in inputs]))
        assert all(bool((one == old).all()) for one, old in zip(found, wanted, strict=True))


def check_factory(row: Row) -> None:
    layer = getattr(nn, row.name)(*row.args, **row.kwargs, dtype=dg.float64, device="cpu")
    for value in [*layer.parameters(), *layer.buffers()]:
        assert value.dtype is dg.float64 or not value.is_floating_point()
        assert value.device == dg.device("cpu")
    if not dg.cuda.is_available():
        with pytest.raises(RuntimeError, match="cuda"):
            getattr(nn, row.name)(*row.args, **row.kwargs, device="cuda")


def check_half(row: Row) -> None:
    """Half types come out as they came in, close to what float32 gives."""
    for dtype in (dg.float16, dg.bfloat16):
        layer = build(row).eval()
        inputs = tensors_of(row, dtype)
        exact = build(row).eval()
        for value in exact.parameters():
            value.data.copy_(value.to(dtype))
        wanted = outputs_of(exact(*[one.float() if one.is_floating_point() else one for one in inputs]))
        found = outputs_of(layer.to(dtype)(*inputs))
        tolerance = 4e-3 if dtype is dg.float16 else 3e-2
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype is dtype or not one.is_floating_point()
            numpy.testing.assert_allclose(
                one.detach().float().numpy(), other.detach().float().numpy(), rtol=tolerance, atol=tolerance
            )


def check_error(row: Row, failure: Failure) -> None:
    layer = build(row)
    with pytest.raises(failure.kind) as caught:
        failure.call(layer)
    for word in failure.words:
        assert word in str(caught.value), f"{word!r} is not in {caught.value}"
