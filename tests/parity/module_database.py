"""PyTorch's own database of modules, run against dynograd: what the tests of `test_module_database.py` ask of an entry.

An entry (`ModuleInfo`) has a class of torch.nn, arguments to build it with and to call it with, and arguments that must be refused. Each
check is a function that yields what went wrong: see `DATABASE`. From the top folder:

    python -m tests.parity.module_database NAME...        what fails in these entries (`nn.Conv%`: all whose names start so)
    python -m tests.parity.module_database --write        runs everything and writes module_database_known.txt anew
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch.testing._internal.common_modules import ModuleErrorEnum, module_db
from torch.utils._pytree import tree_leaves, tree_map

import dynograd
from tests.parity.database import Database, error_text
from tests.parity.op_database_twins import Missing, converted, differences, of_torch, tolerance_of

__all__ = ["DATABASE", "ENTRIES"]

MOST_ROWS = 24
DTYPES = (torch.float32, torch.float64)
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError)
ENTRIES = {entry.name: entry for entry in module_db}


# --- pairs of modules --------------------------------------------------------------------------------------------------


class Pair:
    """One module of torch and its twin with the same weights, for one row of an entry's inputs."""

    def __init__(self, entry: Any, row: Any, dtype: torch.dtype, training: bool) -> None:
        self.entry, self.row, self.dtype, self.training = entry, row, dtype, training
        args, kwargs = row.constructor_input.args, dict(row.constructor_input.kwargs)
        torch.manual_seed(0)
        if self.takes("dtype"):
            kwargs["dtype"] = dtype
        self.theirs = entry.module_cls(*args, **kwargs)
        if dtype.is_floating_point or dtype.is_complex:
            self.theirs.to(dtype)
        self.theirs.train(training)
        if entry.is_lazy:
            with torch.no_grad():
                self.theirs(*self.inputs()[0][0], **self.inputs()[0][1])
        self.ours = twin_class(entry)(*translated(args), **translated(kwargs))
        self.ours.to(converted(dtype, {})).train(training)
        self.ours.load_state_dict(state_in_ours(self.theirs))
        if entry.is_lazy:  # becomes the plain class, without a change of its weights
            self.ours(*converted(row.forward_input.args, {}), **converted(dict(row.forward_input.kwargs), {}))
            self.ours.load_state_dict(state_in_ours(self.theirs))

    def takes(self, name: str) -> bool:
        return name in inspect.signature(self.entry.module_cls).parameters

    def inputs(self) -> tuple[Any, Any]:
        """Arguments for torch's module and for ours; every floating tensor that may have a gradient is a leaf."""
        given = tree_map(_leaf, (tuple(self.row.forward_input.args), dict(self.row.forward_input.kwargs)))
        met: dict[int, Any] = {}
        return given, tuple(converted(one, met) for one in given)

    def described(self) -> str:
        built, called = self.row.constructor_input, self.row.forward_input
        mode = "training" if self.training else "evaluation"
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.entry.name}{_text(built)}{_text(called)} {self.row.desc} in {mode}, {dtype}"


def _leaf(one: Any) -> Any:
    return one.detach().clone().requires_grad_(one.requires_grad) if isinstance(one, torch.Tensor) else one


def _text(given: Any) -> str:
    def one(value: Any) -> str:
        return f"{list(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)

    if given is None:
        return "()"
    named = [f"{key}={one(value)}" for key, value in given.kwargs.items()]
    return f"({', '.join([*map(one, given.args), *named])})"[:160]


def translated(given: Any) -> Any:
    """Arguments of a constructor; an encoder's layer is built anew with the same options."""

    def one(value: Any) -> Any:
        if isinstance(value, torch.nn.TransformerEncoderLayer):
            attention = value.self_attn
            return dynograd.nn.TransformerEncoderLayer(
                attention.embed_dim,
                attention.num_heads,
                value.linear1.out_features,
                value.dropout.p,
                converted(value.activation, {}),
                layer_norm_eps=value.norm1.eps,
                batch_first=attention.batch_first,
                norm_first=value.norm_first,
                bias=value.linear1.bias is not None,
            )
        return converted(value, {})

    return {key: one(value) for key, value in given.items()} if isinstance(given, dict) else tuple(map(one, given))


def twin_class(entry: Any) -> Any:
    try:
        return getattr(dynograd.nn, entry.name.removeprefix("nn."))
    except AttributeError:
        raise Missing(f"dynograd.{entry.name} is missing") from None


def state_in_ours(module: Any) -> dict[str, Any]:
    return {name: converted(value, {}) for name, value in module.state_dict().items()}


def rows_of(entry: Any, dtype: torch.dtype, training: bool, requires_grad: bool = False) -> list[Any]:
    """The entry's rows; of hundreds, some that are spread over all."""
    torch.manual_seed(0)
    every = list(entry.module_inputs_func(entry, "cpu", dtype, requires_grad, training))
    if len(every) <= MOST_ROWS:
        return every
    return [every[int(place)] for place in numpy.linspace(0, len(every) - 1, MOST_ROWS)]


def modes_of(entry: Any) -> tuple[bool, ...]:
    return (True, False) if entry.train_and_eval_differ else (True,)


def pairs_of(entry: Any, dtypes: tuple = DTYPES, requires_grad: bool = False) -> Iterator[Pair]:
    for dtype in dtypes:
        if dtype in entry.supported_dtypes("cpu"):
            for training in modes_of(entry):
                for row in rows_of(entry, dtype, training, requires_grad):
                    if row.forward_input is not None:
                        yield Pair(entry, row, dtype, training)


def each(kind: Callable[[Pair], Iterator[str]], entry: Any, **options: Any) -> Iterator[str]:
    """What `kind` says of every pair of the entry, with a description in front."""
    for pair in pairs_of(entry, **options):
        try:
            texts = list(kind(pair))
        except Missing as error:
            texts = [str(error)]
        except Exception as error:
            texts = [error_text(error)]
        yield from (f"{pair.described()}: {text}" for text in texts)


def is_random(pair: Pair) -> bool:
    """Whether torch's own result differs with the seed."""
    results = []
    for seed in range(3):
        torch.manual_seed(seed)
        args, kwargs = pair.inputs()[0]
        module = copy.deepcopy(pair.theirs)
        with torch.no_grad():
            results.append([one.tolist() for one in tensors_in(module(*args, **kwargs))])
    return not all(repr(one) == repr(results[0]) for one in results)


def tensors_in(value: Any) -> list[Any]:
    """Tensors of either library, of packed sequences too, in order."""
    if isinstance(value, (torch.Tensor, dynograd.Tensor)):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for one in value for tensor in tensors_in(one)]
    if isinstance(value, dict):
        return [tensor for one in value.values() for tensor in tensors_in(one)]
    return []


# --- what is asked -----------------------------------------------------------------------------------------------------


def forward(entry: Any) -> Iterator[str]:
    """Results and changed buffers, in training and evaluation."""

    def check(pair: Pair) -> Iterator[str]:
        values = not is_random(pair)
        (args, kwargs), (our_args, our_kwargs) = pair.inputs()
        wanted, got = pair.theirs(*args, **kwargs), pair.ours(*our_args, **our_kwargs)
        wrong = differences(got, wanted, TOLERANCE, values)
        yield from [wrong] if wrong else []
        for name, buffer in pair.theirs.named_buffers():
            wrong = differences(dict(pair.ours.named_buffers())[name], buffer, TOLERANCE, values)
            yield from [f"buffer {name}: {wrong}"] if wrong else []

    yield from each(check, entry, dtypes=(*DTYPES, torch.complex64))


def gradient(entry: Any) -> Iterator[str]:
    """Gradients with respect to inputs and parameters."""

    def check(pair: Pair) -> Iterator[str]:
        if is_random(pair):
            return
        expected, found = _gradients(pair, second=False)
        yield from _unlike(found, expected)

    yield from each(check, entry, dtypes=(torch.float64, torch.complex128), requires_grad=True)


def second_order(entry: Any) -> Iterator[str]:
    """Gradients of gradients; where torch has none, ours by finite differences."""

    def check(pair: Pair) -> Iterator[str]:
        if is_random(pair):
            return
        try:
            expected, found = _gradients(pair, second=True)
            wrong = list(_unlike(found, expected))
        except _TheirsFails:
            wrong = [""]
        yield from _checked_alone(pair) if wrong else []

    yield from each(check, entry, dtypes=(torch.float64,), requires_grad=True)


class _TheirsFails(Exception):
    """torch has no such derivative."""


def _gradients(pair: Pair, second: bool) -> tuple[dict, dict]:
    (args, kwargs), (our_args, our_kwargs) = pair.inputs()
    leaves = {f"input {place}": one for place, one in enumerate(tensors_in((args, kwargs))) if one.requires_grad}
    our_leaves = {
        f"input {place}": one for place, one in enumerate(tensors_in((our_args, our_kwargs))) if one.requires_grad
    }
    leaves |= dict(pair.theirs.named_parameters())
    our_leaves |= dict(pair.ours.named_parameters())
    assert list(leaves) == list(our_leaves), f"{list(our_leaves)} instead of {list(leaves)}"
    if not leaves:
        return {}, {}
    # called on copies, since a module with inplace=True may not write into a leaf
    spare = lambda one: one * 1 if getattr(one, "requires_grad", False) else one  # noqa: E731
    try:
        with torch.nn.attention.sdpa_kernel(
            torch.nn.attention.SDPBackend.MATH
        ):  # its fused attention has no second order
            expected = _derived(torch, pair.theirs(*tree_map(spare, args), **tree_map(spare, kwargs)), leaves, second)
    except RuntimeError as error:
        if second:
            raise _TheirsFails from error
        raise
    found = _derived(dynograd, pair.ours(*_mapped(spare, our_args), **_mapped(spare, our_kwargs)), our_leaves, second)
    return expected, found


def _mapped(function: Any, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(function, one) for one in value)
    if isinstance(value, dict):
        return {key: _mapped(function, one) for key, one in value.items()}
    return function(value)


def _derived(library: Any, result: Any, leaves: dict[str, Any], second: bool) -> dict[str, Any]:
    total = _weighted(library, [one for one in tensors_in(result) if one.requires_grad])
    if total is None:
        return dict.fromkeys(leaves)
    grads = library.autograd.grad(total, list(leaves.values()), allow_unused=True, create_graph=second)
    if second:
        total = _weighted(library, [one for one in grads if one is not None and one.requires_grad])
        if total is None:
            return dict.fromkeys(leaves)
        grads = library.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return dict(zip(leaves, grads, strict=True))


def _weighted(library: Any, tensors: list[Any]) -> Any:
    """A real number that depends on every element in its own way."""
    total = None
    for one in tensors:
        count = max(one.numel(), 1)
        factors = library.arange(count, dtype=library.float64)[: one.numel()].cos().reshape(tuple(one.shape)) + 1.5
        parts = (
            [one.real * factors, one.imag * factors.flip(0) if one.ndim else one.imag]
            if one.is_complex()
            else [one * factors]
        )
        for part in parts:
            total = part.sum() if total is None else total + part.sum()
    return total


def _unlike(found: dict[str, Any], expected: dict[str, Any]) -> Iterator[str]:
    for name, wanted in expected.items():
        got = found[name]
        if wanted is None:
            wrong = "" if got is None or not of_torch(got).any() else "a gradient where torch has none"
        elif got is None:
            wrong = "" if not wanted.any() else "no gradient"
        else:
            wrong = differences(got, wanted, TOLERANCE)
        if wrong:
            yield f"gradient of {name}: {wrong}"


def _checked_alone(pair: Pair) -> Iterator[str]:
    """Our second derivative in one random direction of all inputs and parameters, by differences of first ones."""
    args, kwargs = pair.inputs()[1]
    leaves = [one for one in tensors_in((args, kwargs)) if one.requires_grad] + list(pair.ours.parameters())
    steps = [dynograd.randn(*one.shape, dtype=one.dtype) for one in leaves]

    def slope(at: float, graph: bool) -> Any:
        with dynograd.no_grad():
            for one, step in zip(leaves, steps):
                one.add_(step * at)
        total = _weighted(dynograd, tensors_in(pair.ours(*args, **kwargs)))
        grads = dynograd.autograd.grad(total, leaves, allow_unused=True, create_graph=True)
        given = [(number, g) for number, g in enumerate(grads) if g is not None]
        result = sum([(g * (steps[number] * 0.5 + 1)).sum() for number, g in given])
        return result if graph else float(result.detach())

    here = slope(0.0, True)
    if not here.requires_grad:
        return
    second = dynograd.autograd.grad(here, leaves, allow_unused=True)
    found = sum(float((g * step).sum()) for g, step in zip(second, steps) if g is not None)
    wide = 1e-5
    expected = (slope(wide, False) - slope(-2 * wide, False)) / (2 * wide)
    if not numpy.allclose(found, expected, 1e-4, 1e-4):
        yield f"second derivative {found}, by finite differences {expected}"


def state(entry: Any) -> Iterator[str]:
    """Names, shapes, dtypes and versions in state_dict; ours loads into torch's; text; fields."""

    def check(pair: Pair) -> Iterator[str]:
        theirs, ours = pair.theirs.state_dict(), pair.ours.state_dict()
        if list(theirs) != list(ours):
            yield f"keys {list(ours)} instead of {list(theirs)}"
            return
        for name, value in theirs.items():
            wrong = differences(ours[name], value, TOLERANCE)
            yield from [f"{name}: {wrong}"] if wrong else []
        if dict(ours._metadata) != dict(theirs._metadata):
            yield f"versions {dict(ours._metadata)} instead of {dict(theirs._metadata)}"
        for kind in ("parameters", "buffers", "modules", "children"):
            names = [[name for name, _ in getattr(one, f"named_{kind}")()] for one in (pair.ours, pair.theirs)]
            if names[0] != names[1]:
                yield f"named_{kind}: {names[0]} instead of {names[1]}"
        pair.theirs.load_state_dict({name: of_torch(value) for name, value in ours.items()})
        if repr(pair.ours) != repr(pair.theirs).replace("torch.", "dynograd."):
            yield f"text {pair.ours!r} instead of {pair.theirs!r}"
        for name, value in vars(pair.theirs).items():
            if name in ("use_nested_tensor", "activation_relu_or_gelu"):  # how PyTorch runs it
                continue
            if not name.startswith("_") and isinstance(value, (bool, int, float, str, tuple, type(None))):
                if getattr(pair.ours, name, "nothing") != value:
                    yield f"field {name}: {getattr(pair.ours, name, 'nothing')!r} instead of {value!r}"

    yield from each(check, entry)


def copies(entry: Any) -> Iterator[str]:
    """deepcopy, pickle and files of weights give modules that compute the same."""

    def check(pair: Pair) -> Iterator[str]:
        if is_random(pair):
            return
        file = io.BytesIO()
        dynograd.save(pair.ours.state_dict(), file)
        file.seek(0)
        built = copy.deepcopy(pair.ours)
        built.load_state_dict(dynograd.load(file))
        made = {
            "deepcopy": copy.deepcopy(pair.ours),
            "pickle": pickle.loads(pickle.dumps(pair.ours)),
            "save and load": built,
        }
        args, kwargs = pair.inputs()[1]
        wanted = [one.tolist() for one in tensors_in(copy.deepcopy(pair.ours)(*args, **kwargs))]
        for name, module in made.items():
            args, kwargs = pair.inputs()[1]
            if repr([one.tolist() for one in tensors_in(module(*args, **kwargs))]) != repr(wanted):
                yield f"{name} computes something else"
            if repr(module) != repr(pair.ours) or list(module.state_dict()) != list(pair.ours.state_dict()):
                yield f"{name} is another module"
            shared = {id(one) for one in pair.ours.parameters()} & {id(one) for one in module.parameters()}
            if shared:
                yield f"{name} shares parameters"

    yield from each(check, entry, dtypes=(torch.float32,))


def moves(entry: Any) -> Iterator[str]:
    """`dtype=` and `device=` of constructors, `to`, `to_empty`, the meta device, half types."""

    def check(pair: Pair) -> Iterator[str]:
        built = pair.row.constructor_input
        args, kwargs = translated(built.args), translated(dict(built.kwargs))
        shapes = {name: tuple(one.shape) for name, one in pair.ours.state_dict().items()}
        floating = [one for one in pair.ours.state_dict().values() if one.is_floating_point()]
        for way in ("half", "bfloat16", "double", "float"):
            module = getattr(copy.deepcopy(pair.ours), way)()
            theirs = getattr(copy.deepcopy(pair.theirs), way)()
            found, wanted = (
                {n: str(v.dtype).split(".")[1] for n, v in m.state_dict().items()} for m in (module, theirs)
            )
            if found != wanted:
                yield f"{way}: {found} instead of {wanted}"
        parameter = next(pair.ours.parameters(), None)
        moved = copy.deepcopy(pair.ours)
        kept = {name: id(one) for name, one in moved.named_parameters()}
        moved.to(dynograd.float64)
        if {name: id(one) for name, one in moved.named_parameters()} != kept:
            yield "to() made new parameters"
        if pair.takes("device") and parameter is not None:
            made = type_of(pair)(*args, **{**kwargs, "device": "meta"})
            theirs = pair.entry.module_cls(*built.args, **{**built.kwargs, "device": "meta"})
            places = [{n for n, one in state_of(m) if one.is_meta} for m in (made, theirs)]
            if places[0] != places[1]:
                yield f"on device meta {places[0]} instead of {places[1]}"
            if not pair.entry.is_lazy:
                if {name: tuple(one.shape) for name, one in made.state_dict().items()} != shapes:
                    yield "other shapes on device meta"
                made.to_empty(device="cpu")
                made.load_state_dict(pair.ours.state_dict())
                if any(one.is_meta for one in made.state_dict().values()):
                    yield "to_empty left a tensor on device meta"
                again = type_of(pair)(*args, **{**kwargs, "device": "meta"})
                again.load_state_dict(pair.ours.state_dict(), assign=True)
                if any(one.is_meta for one in again.state_dict().values()):
                    yield "load_state_dict(assign=True) left a tensor on device meta"
        if pair.takes("dtype") and floating:
            made = type_of(pair)(*args, **{**kwargs, "dtype": dynograd.float64})
            theirs = pair.entry.module_cls(*built.args, **{**built.kwargs, "dtype": torch.float64})
            found, wanted = ({n: str(v.dtype).split(".")[1] for n, v in m.state_dict().items()} for m in (made, theirs))
            if found != wanted:
                yield f"dtype=float64: {found} instead of {wanted}"

    yield from each(check, entry, dtypes=(torch.float32,))


def state_of(module: Any) -> list[Any]:
    return [*module.named_parameters(), *module.named_buffers()]


def type_of(pair: Pair) -> Any:
    return twin_class(pair.entry)


def strides(entry: Any) -> Iterator[str]:
    """Inputs, weights and incoming gradients in every memory layout: same results; channels_last stays where torch keeps it."""

    def check(pair: Pair) -> Iterator[str]:
        if is_random(pair):
            return
        expected, _ = _gradients(pair, second=False)
        (args, kwargs), _ = pair.inputs()
        wanted = pair.theirs(*args, **kwargs)
        for name, layout in LAYOUTS.items():
            given = layout_of(pair.inputs()[1], layout)
            got = pair.ours(*given[0], **given[1])
            wrong = differences(got, wanted, TOLERANCE)
            yield from [f"{name}: {wrong}"] if wrong else []
        found = _derived_from_strided(pair)
        yield from (f"strided: {text}" for text in _unlike(found, expected))
        if pair.entry.module_memformat_affects_out:
            for name in ("channels_last", "channels_last_3d"):
                yield from _keeps_format(pair, name)

    yield from each(check, entry, dtypes=(torch.float64,), requires_grad=True)


def layout_of(given: Any, layout: Callable) -> Any:
    return _mapped(lambda one: layout(one) if isinstance(one, dynograd.Tensor) else one, given)


def _spread(one: Any) -> Any:
    """The same values, every second element of wider memory."""
    wide = dynograd.stack([one.detach(), one.detach()], dim=-1)
    return wide[..., 0].requires_grad_(one.requires_grad)


def _turned(one: Any) -> Any:
    """The same values in column-major memory."""
    dims = tuple(reversed(range(one.ndim)))
    return one.detach().permute(dims).contiguous().permute(dims).requires_grad_(one.requires_grad)


LAYOUTS = {"every second element": _spread, "column-major": _turned}


def _derived_from_strided(pair: Pair) -> dict[str, Any]:
    args, kwargs = layout_of(pair.inputs()[1], _turned)
    leaves = {f"input {place}": one for place, one in enumerate(tensors_in((args, kwargs))) if one.requires_grad}
    leaves |= dict(pair.ours.named_parameters())
    if not leaves:
        return {}
    spare = lambda one: one * 1 if getattr(one, "requires_grad", False) else one  # noqa: E731
    return _derived(dynograd, pair.ours(*_mapped(spare, args), **_mapped(spare, kwargs)), leaves, False)


def _keeps_format(pair: Pair, name: str) -> Iterator[str]:
    rank = 4 if name == "channels_last" else 5
    (args, kwargs), (our_args, our_kwargs) = pair.inputs()
    if not any(isinstance(one, torch.Tensor) and one.ndim == rank for one in tree_leaves((args, kwargs))):
        return
    if any(
        one.ndim == 9 - rank for one in pair.theirs.state_dict().values()
    ):  # torch refuses weights of the other rank
        return
    theirs, ours = copy.deepcopy(pair.theirs), copy.deepcopy(pair.ours)
    theirs.to(memory_format=getattr(torch, name))
    ours.to(memory_format=getattr(dynograd, name))
    to_format = lambda one, library: (  # noqa: E731
        one.detach().contiguous(memory_format=getattr(library, name)) if one.ndim == rank else one
    )
    for key, one in theirs.state_dict().items():
        if one.ndim == rank and not ours.state_dict()[key].is_contiguous(memory_format=getattr(dynograd, name)):
            yield f"{key} is not {name}"
    got = ours(*_mapped(lambda one: to_format(one, dynograd), our_args), **our_kwargs)
    wanted = theirs(*tree_map(lambda one: to_format(one, torch), args), **kwargs)
    wrong = differences(got, wanted, TOLERANCE)
    if wrong:
        yield f"{name}: {wrong}"
    if wanted.is_contiguous(memory_format=getattr(torch, name)) and not got.is_contiguous(
        memory_format=getattr(dynograd, name)
    ):
        yield f"{name}: the result is not"


def inplace(entry: Any) -> Iterator[str]:
    """`inplace=True` changes the input, refuses leaves, and gives the same gradients."""

    def check(pair: Pair) -> Iterator[str]:
        if not pair.takes("inplace") or is_random(pair):
            return
        built = pair.row.constructor_input
        module = type_of(pair)(*converted(built.args, {}), **{**converted(dict(built.kwargs), {}), "inplace": True})
        module.to(converted(pair.dtype, {})).train(pair.training)
        args, kwargs = pair.inputs()[1]
        given = tensors_in((args, kwargs))[0]
        held = given * 1
        result = module(held)
        if result is not held and result.data_ptr() != held.data_ptr():
            yield "the input is not changed"
        wrong = differences(result, pair.theirs(*pair.inputs()[0][0], **pair.inputs()[0][1]), TOLERANCE)
        yield from [wrong] if wrong else []
        plain = pair.ours(given * 1)
        ours = [dynograd.autograd.grad(_weighted(dynograd, [one]), given)[0].tolist() for one in (result, plain)]
        if not numpy.allclose(ours[0], ours[1], equal_nan=True):
            yield "other gradients in place"
        with contextlib.suppress(RuntimeError):
            module(given)
            yield "a leaf is changed in place"

    yield from each(check, entry, dtypes=(torch.float64,), requires_grad=True)


def errors(entry: Any) -> Iterator[str]:
    """Arguments that torch refuses are refused: in the constructor or in forward."""
    if entry.module_error_inputs_func is None:
        return
    for training in modes_of(entry):
        torch.manual_seed(0)
        for refused in entry.module_error_inputs_func(entry, "cpu", torch.float32, False, training):
            row = refused.module_error_input
            built = row.constructor_input
            who = f"{entry.name}{_text(built)}{_text(row.forward_input)}"
            try:
                module = twin_class(entry)(*converted(built.args, {}), **converted(dict(built.kwargs), {}))
                if refused.error_on is ModuleErrorEnum.FORWARD_ERROR:
                    called = row.forward_input
                    module.train(training)(*converted(called.args, {}), **converted(dict(called.kwargs), {}))
                yield f"{who}: no {refused.error_type.__name__}: {refused.error_regex}"
            except Missing as error:
                yield str(error)
            except REFUSALS as error:
                if not str(error):
                    yield f"{who}: {type(error).__name__} without a message"
            except Exception as error:
                yield f"{who}: {error_text(error)} instead of {refused.error_type.__name__}"


class _Tolerance:
    decorators: tuple = ()


TOLERANCE = tolerance_of(_Tolerance)


DATABASE = Database(
    __file__, ENTRIES, [forward, gradient, second_order, state, copies, moves, strides, inplace, errors], 400
)


if __name__ == "__main__":
    sys.exit(DATABASE.main(__doc__))
