"""Elementwise kernels of the GPU by op name: `kernel("elementwise", "add", x)(x, y)`, made from the ops' formulas.

They take what the op was given: CudaArrays of any dtypes and strides, Python numbers, 0-d CPU arrays; promotion is theirs. The
formulas lie in the table of ops, a layer above, and come through the slot `kernels.op_formulas`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from dynograd import kernels
from dynograd.arrays.cuda_arrays import CudaArray, may_overlap, mixed_devices
from dynograd.base import dtypes
from dynograd.base.generated_sources import run_source
from dynograd.base.shapes import broadcast_shapes
from dynograd.errors import DtypeError
from dynograd.kernels.build.through_host_cuda import FUNCTIONS, through_host
from dynograd.kernels.elementwise import OF_COMPLEX, complexes_cuda
from dynograd.kernels.elementwise.loops_cuda import CudaLoop, compute_type
from dynograd.kernels.formula import formulas


class Entry(NamedTuple):
    """What the table says of an elementwise op: its loop, how operands are promoted, and how many operands there are."""

    loop: CudaLoop
    promote: str
    operands: int


_entries: dict[str, Entry] = {}
_FLOAT32 = numpy.dtype(numpy.float32)
_BOOL = numpy.dtype(numpy.bool_)
_BYTE = numpy.dtype(numpy.uint8)
_INT64 = numpy.dtype(numpy.int64)
_HALVES = ("float16", "bfloat16")
_PLAIN = frozenset({CudaArray, int, float, bool, type(None)})


def entry_of(name: str) -> Entry:
    entry = _entries.get(name)
    if entry is None:
        told = kernels.op_formulas[0].forward(name)
        if told is None:
            raise AttributeError(name)
        operands, statics, trees, truths, promote = told
        entry = _entries[name] = Entry(CudaLoop(name, operands, statics, trees, truths), promote, len(operands))
    return entry


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    globals()[name] = kernel = _function(name)
    return kernel


def compute(name: str, arguments: tuple[Any, ...]) -> CudaArray:
    """The op on its operands followed by its static arguments."""
    kernel = globals().get(name) or __getattr__(name)
    return kernel(*arguments)


def _function(name: str) -> Callable[..., CudaArray]:
    """The kernel of an elementwise op; for layouts and types seen before, all but the launch is settled."""
    loop, _, _ = entry_of(name)
    calls: dict[Any, Any] = {}
    names = [f"a{number}" for number in range(len(loop.operands) + len(loop.statics))]
    arguments = ", ".join(names)
    space: dict[str, Any] = dict(
        calls=calls, CudaArray=CudaArray, first=lambda *arguments: _first(name, calls, arguments)
    )
    source = (
        f"def {name}({arguments}):\n"
        "    try:\n"
        f"        call = calls[{key_text(names)}]\n"
        "    except KeyError:\n"
        f"        return first({arguments})\n"
        f"    return call({arguments})\n"
    )
    return run_source(source, f"launches of {name}", space)[name]


def key_text(names: list[str]) -> str:
    """What tells calls apart, as text: the layouts of arrays and the types of numbers."""
    parts = [f"({name}.layout if type({name}) is CudaArray else type({name}))" for name in names]
    return f"({', '.join(parts)},)"


def _first(name: str, calls: dict[Any, Any], arguments: tuple[Any, ...]) -> CudaArray:
    """The op on operands of layouts that were not seen before."""
    loop, promote, count = entry_of(name)
    operands, statics = arguments[:count], arguments[count:]
    kind, inner = _kinds(name, promote, operands)
    if kind.kind == "c":
        return _complex(name, kind, operands, statics)
    if loop.functions & FUNCTIONS:
        return _by_host(name, [_in(operand, inner) for operand in operands], statics).astype(kind, copy=False)
    if kind is _BOOL and name == "bitwise_not":
        return compute("logical_not", arguments)
    ready = _ready(name, operands)
    call = loop.prepared(ready, statics, [_BOOL if promote in ("logical", "compare") else kind], inner)
    if all([type(operand) in _PLAIN for operand in arguments]):
        if len(calls) > 1000:
            calls.clear()
        calls[tuple([operand.layout if type(operand) is CudaArray else type(operand) for operand in arguments])] = (
            call.run
        )
    return call.run(*ready, *statics)


def _complex(name: str, kind: Any, operands: Any, statics: tuple[Any, ...]) -> Any:
    """The op on complex numbers: arithmetic on their parts, functions by the CPU's kernel."""
    arithmetic = complexes_cuda.ARITHMETIC.get(name)
    arrays = [operand for operand in operands if type(operand) is CudaArray]
    if arithmetic is not None:
        shape = broadcast_shapes(name, *[operand.shape for operand in arrays])
        parts = [part for operand in operands for part in _parts(operand, kind)]
        return complexes_cuda.from_parts(*[part.broadcast_to(shape) for part in arithmetic(*parts)])
    return _by_host(OF_COMPLEX.get(name, name), [_in(operand, kind) for operand in operands], statics)


def _in(operand: Any, kind: Any) -> Any:
    return operand.astype(kind, copy=False) if type(operand) is CudaArray else numpy.asarray(operand, kind)


def _by_host(name: str, operands: list[Any], statics: tuple[Any, ...]) -> Any:
    call = _on_host.get(name)
    if call is None:
        call = _on_host[name] = through_host(name, kernels.kernel("elementwise", name, 0))
    place = next(operand.device for operand in operands if type(operand) is CudaArray)
    return call(*operands, *statics, device=place)


_on_host: dict[str, Any] = {}


def _parts(operand: Any, kind: Any) -> tuple[Any, Any]:
    """(real, imaginary) in the precision of `kind`; numbers stay numbers."""
    if type(operand) is not CudaArray:
        number = complex(operand)
        return number.real, number.imag
    if operand.dtype.kind == "c":
        operand = operand.astype(kind, copy=False)
        return operand.real, operand.imag
    part = _FLOAT32 if kind.itemsize == 8 else numpy.dtype(numpy.float64)
    return operand.astype(part, copy=False), 0.0


def into(name: str, operands: list[Any], statics: tuple[Any, ...], target: Any = None) -> bool:
    """The op computed into `target` (its first operand), in its dtype; False where another operand lies across that memory."""
    if target is None:
        target = operands[0]
    for operand in operands:
        if operand is not target and may_overlap(operand, target):
            return False
    loop = entry_of(name).loop
    if loop.functions & FUNCTIONS:
        return False
    loop(_ready(name, operands), statics, [target.dtype], compute_type(target.dtype), [target])
    return True


def _kinds(name: str, promote: str, operands: tuple[Any, ...]) -> tuple[Any, Any]:
    """(the dtype of the operands taken together, the dtype that is computed in)."""
    if promote == "logical":
        return _BOOL, _FLOAT32
    result_dtype = dtypes.result_dtype(*(operands[1:] if promote == "select" else operands))
    if promote == "float" and result_dtype.category < dtypes.FLOATING:
        result_dtype = dtypes.get_default_dtype()
    if promote == "integer" and result_dtype.category > dtypes.INTEGER:
        raise DtypeError(
            f"{name}: expected integer or bool tensors, got {result_dtype}. Convert with .long() or .bool() first."
        )
    if result_dtype is dtypes.bool and name in dtypes.OF_NUMBERS:
        raise DtypeError(f"{name}: expected tensors of integers, got bool. Convert with .int() first.")
    kind = result_dtype.numpy
    return kind, _FLOAT32 if kind.name in _HALVES else _BYTE if kind.kind == "b" else kind


def _ready(name: str, operands: Any) -> list[Any]:
    """The operands as the loop takes them: CudaArrays and Python numbers."""
    ready = []
    for operand in operands:
        if type(operand) is not CudaArray and isinstance(operand, (numpy.ndarray, numpy.generic)):
            if operand.ndim:
                raise mixed_devices(name, *operands)
            operand = operand.item()
        ready.append(operand)
    return ready


def kernels_to_check() -> list[tuple[Any, dict[str, Any]]]:
    """(kernel, variant) of every op of the table, forward and backward: contiguous float32 arrays, int64 for ops on bits."""
    kernels_and_calls = []
    table = kernels.op_formulas[0]
    for name in table.names():
        for told, title in ((table.forward(name), name), (table.backward(name), f"{name}_backward")):
            if told is None or formulas.functions_in(*told[2]) & {"conj", *FUNCTIONS}:
                continue
            operands, statics, trees, truths, promote = told
            loop = CudaLoop(title, operands, statics, trees, truths)
            whole = promote == "integer"
            stored = _BOOL if promote in ("compare", "logical") and title == name else _INT64 if whole else _FLOAT32
            kernels_and_calls.append(loop.to_check(stored, _INT64 if whole else _FLOAT32))
            if name in ("add", "where", "exp"):
                kernels_and_calls.append(loop.to_check(stored, _FLOAT32, rank=3))
    return kernels_and_calls
