"""Elementwise computations on the GPU: formulas of several operands in one pass, by Triton kernels made from them.

`CudaLoop` is what `loops_cpu.Loop` is on the CPU. Operands may be of several dtypes, shapes that broadcast, and any strides;
values are computed in one dtype (`compute`; float32 for half types) and rounded once, at the store.
"""

from __future__ import annotations

import math
import struct
from types import SimpleNamespace
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.base.generated_sources import run_source
from dynograd.base.shapes import broadcast_shapes
from dynograd.cuda import allocator, driver, thread_state
from dynograd.kernels.build import launching_cuda
from dynograd.kernels.build.launch_arguments_cuda import Double
from dynograd.kernels.build.through_host_cuda import NoComplexKernelError
from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Tree
from dynograd.kernels.formula.formulas_triton import assignments_and_results

_BLOCK = 1024  # elements of a program, 8 for each thread of Triton's 4 warps
# Long series and sines in float64: more than one element for a thread does not fit its registers.
_HEAVY_BLOCK = 128
_HEAVY = frozenset({"lgamma", "digamma", "polygamma", "spherical_bessel", "zeta"})
# Left when neighbours are taken together; each has a stride for every operand.
_MOST_DIMS = 6
_TRITON = {
    "float16": "float16", "bfloat16": "bfloat16", "float32": "float32", "float64": "float64", "bool": "int1",
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
}  # fmt: skip
_BIG = 1 << 31


def triton_type(dtype: Any) -> Any:
    """Triton's type of a NumPy dtype.

    Raises:
        NoComplexKernelError: there is none (complex numbers).
    """
    import triton.language as tl

    name = _TRITON.get(dtype.name)
    if name is None:
        raise NoComplexKernelError(f"no GPU kernel computes in {dtype}; x.cpu() works")
    return getattr(tl, name)


def compute_type(dtype: Any) -> Any:
    """The NumPy dtype in which values of a dtype are computed."""
    return _FLOAT32 if dtype.name in ("float16", "bfloat16") else _BYTE if dtype.kind == "b" else dtype


_FLOAT32, _BYTE = numpy.dtype(numpy.float32), numpy.dtype(numpy.uint8)


def block_of(size: int, usual: int = _BLOCK) -> int:
    """How many elements a program handles; in emulation all, as far as that goes, because programs run one by one."""
    if driver.is_emulated():
        return max(16, min(1 << 16, 1 << max(size - 1, 1).bit_length()))
    return usual


class CudaLoop:
    """Formulas of some operands and static numbers: `loop(operands, statics, kinds, compute)` gives a list of arrays.

    Args:
        trees: one for each result.
        truths: operands that are taken as truths, whatever their dtype.
    """

    def __init__(
        self,
        name: str,
        operands: tuple[str, ...],
        statics: tuple[str, ...],
        trees: tuple[Tree, ...],
        truths: frozenset[str] = frozenset(),
    ) -> None:
        self.name, self.operands, self.statics, self.truths = name, operands, statics, truths
        self.trees = tuple(formulas.simplify(tree) for tree in trees)
        self.functions = formulas.functions_in(*self.trees)
        self._block = _HEAVY_BLOCK if self.functions & _HEAVY else _BLOCK
        self._bounds = tuple(-math.inf if text == "min" else math.inf for text in statics)
        self._kernels: dict[Any, Any] = {}
        self._calls: dict[Any, Call] = {}

    def __call__(
        self,
        operands: list[Any] | tuple[Any, ...],
        statics: tuple[Any, ...],
        kinds: list[Any],
        compute: Any,
        out: list[CudaArray] | None = None,
    ) -> list[CudaArray]:
        """The results, in the NumPy dtypes `kinds`; into `out` where given.

        Args:
            operands: CudaArrays of one device, and Python numbers.
            compute: the NumPy dtype of the computation.
        """
        key = (
            tuple([x.layout if type(x) is CudaArray else type(x) for x in operands]),
            tuple([type(value) for value in statics]),
            tuple([kind.num for kind in kinds]),
            compute.num,
            None if out is None else tuple([target.layout for target in out]),
        )
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = self.prepared(operands, statics, kinds, compute, out)
        if out is not None:
            call.into(out, (*operands, *statics))
            return out
        results = call.run(*operands, *statics)
        return [results] if len(kinds) == 1 else results

    def prepared(
        self,
        operands: Any,
        statics: tuple[Any, ...],
        kinds: list[Any],
        compute: Any,
        out: list[CudaArray] | None = None,
    ) -> Call:
        """What `__call__` does for operands of these layouts and types, ready to be done again and again."""
        if len(self._calls) > 1000:
            self._calls.clear()
        device = cuda_arrays.same_device(self.name, *operands, *(out or ()))
        plan = _Plan(self.name, operands, out)
        wide, wholes = compute.name == "float64", compute.kind in "iub"
        convert: list[Any] = []
        for x in operands:
            convert.append(None if type(x) is CudaArray else _converter(type(x), wide, wholes))
        for value, bound in zip(statics, self._bounds, strict=True):
            convert.append(_static(type(value), bound, wide, compute))
        stored = "".join(["?" if kind.kind == "b" else "." for kind in kinds])
        roles = "".join(["A" if type(x) is CudaArray else "N" for x in operands])
        block = block_of(plan.size, self._block)
        layouts = [plan.layout(kind, device) if out is None else None for kind in kinds]
        return Call(
            self._kernel(roles, stored, plan, wholes) if plan.size else None,
            layouts,
            convert,
            (-(-plan.size // block),),
            (plan.size, *plan.numbers),
            {"ACC": triton_type(compute), "BLOCK": block},
            [number for number, x in enumerate(operands) if type(x) is CudaArray],
            device,
        )

    def to_check(self, stored: Any, compute: Any, rank: int = 0) -> tuple[Any, dict[str, Any]]:
        """(kernel, variant) for results of a dtype, for the test that compiles kernels without a GPU."""
        form = SimpleNamespace(rank=rank, big=False, strided_results=False)
        wholes = compute.kind in "iub"
        marks = ("?" if stored.kind == "b" else ".") * len(self.trees)
        entry = self._kernel("A" * len(self.operands), marks, form, wholes)
        pointer = f"*{'i64' if wholes else 'fp32'}"
        types = {f"out{number}": "*i1" if stored.kind == "b" else pointer for number in range(len(self.trees))}
        types |= {name: "*i1" if name in self.truths else pointer for name in self.operands}
        types |= dict.fromkeys(self.statics, "fp32") | {"count": "i32"}
        numbers = [name for name in entry.kernel.names if name not in types]
        return entry, {**types, **dict.fromkeys(numbers, "i32"), "ACC": triton_type(compute), "BLOCK": self._block}

    def _kernel(self, roles: str, stored: str, plan: Any, wholes: bool) -> Any:
        key = (roles, stored, plan.rank, plan.big, wholes, plan.strided_results)
        kernel = self._kernels.get(key)
        if kernel is None:
            source = self._source(roles, stored, plan, wholes)
            kernel = self._kernels[key] = launching_cuda.triton_source(
                source, f"{self.name}_{plan.rank}", () if plan.rank else ("count",)
            )
        return kernel

    def _source(self, roles: str, stored: str, plan: _Plan, wholes: bool) -> str:
        """The kernel's text; `stored` has a ? for each result that is bool.

        Flat (rank 0): all arrays lie alike. Otherwise sizes and strides in elements are arguments.
        """
        arrays = [name for name, role in zip(self.operands, roles, strict=True) if role == "A"]
        outs = [f"out{number}" for number in range(len(stored))]
        rank = plan.rank
        walked = ([*outs] if plan.strided_results else []) + arrays if rank else []
        numbers = [f"size{dim}" for dim in range(1, rank)]
        numbers += [f"{name}_stride{dim}" for name in walked for dim in range(rank)]
        parameters = [
            *outs,
            *self.operands,
            *self.statics,
            "count",
            *numbers,
            "ACC: tl.constexpr",
            "BLOCK: tl.constexpr",
        ]
        first = "tl.program_id(0).to(tl.int64)" if plan.big else "tl.program_id(0)"
        lines = [
            f"def {self.name}_{rank}({', '.join(parameters)}):",
            f"    place = {first} * BLOCK + tl.arange(0, BLOCK)",
            "    inside = place < count",
        ]
        if rank:
            lines.append("    rest = place")
            for dim in range(rank - 1, 0, -1):
                lines += [f"    index{dim} = rest % size{dim}", f"    rest = rest // size{dim}"]
            lines.append("    index0 = rest")
        for name in walked:
            terms = " + ".join(f"index{dim} * {name}_stride{dim}" for dim in range(rank))
            lines.append(f"    {name}_place = {terms}")
        for name, role in zip(self.operands, roles, strict=True):
            if role == "A":
                at = f"{name}_place" if rank else "place"
                lines.append(f"    {name} = tl.load({name} + {at}, inside)")
                lines.append(f"    {name} = {name} != 0" if name in self.truths else f"    {name} = {name}.to(ACC)")
            else:
                lines.append(f"    {name} = tl.full((), {name}, ACC)" + (" != 0" if name in self.truths else ""))
        lines += [f"    {name} = tl.full((), {name}, ACC)" for name in self.statics if not wholes]
        assignments, texts, truths = assignments_and_results(self.trees, self.truths, wholes)
        lines += [f"    {line}" for line in assignments]
        for name, text, truth, how in zip(outs, texts, truths, stored, strict=True):
            at = f"{name}_place" if plan.strided_results else "place"
            value = f"({text}) != 0" if how == "?" and not truth else text
            lines.append(f"    tl.store({name} + {at}, {value}, inside)")
        return "\n".join(lines) + "\n"


class Call:
    """A loop on operands of certain layouts: everything but the addresses and the numbers is settled.

    `run(operands..., statics...)` gives the results in new arrays (one array where there is one result); `into(results,
    arguments)` writes into given ones. The first launch goes through the kernel and finds the machine code; from then on the
    arguments are packed here, unless an address is no multiple of 16 or a number does not fit.
    """

    __slots__ = ("into", "run")

    def __init__(
        self,
        kernel: Any,
        layouts: Any,
        convert: list[Any],
        grid: tuple[int, ...],
        rest: tuple,
        constants: dict[str, Any],
        arrays: list[int],
        device: int,
    ) -> None:
        results = [f"out{number}" for number in range(len(layouts))]
        names = [f"a{number}" for number in range(len(convert))]
        making, pointers = [], []
        space = dict(
            new=object.__new__, CudaArray=CudaArray, allocate=allocator.allocate, device=device, grid=(*grid, 1, 1),
            active=thread_state.current, local=launching_cuda.parameter_blocks, too_wide=(struct.error, OverflowError),
            put=None, pack=None, function=None, threads=None, shared=0,
        )  # fmt: skip
        for number, change in enumerate(convert):
            if change:
                space[f"c{number}"] = change
        for number, layout in enumerate(layouts):
            if layout is not None:
                space[f"layout{number}"] = layout
                making += [
                    f"    out{number} = new(CudaArray)",
                    f"    out{number}.storage = block = allocate({layout.nbytes}, {layout.device})",
                    f"    out{number}.pointer = block.pointer",
                    f"    out{number}.layout = layout{number}",
                ]
        back = results[0] if len(results) == 1 else f"[{', '.join(results)}]"
        launch = ["    pass"]
        if kernel is not None:
            converted = [f"    a{number} = c{number}(a{number})" for number, change in enumerate(convert) if change]
            walked = [*results, *[f"a{number}" for number in arrays]]
            pointers = [f"    p_{name} = {name}.pointer" for name in walked]
            words = [f"p_{name}" if name in walked else name for name in [*results, *names]]
            everything = f"({', '.join([*results, *names])},)"
            space["first"] = _first_launch(kernel, grid, rest, constants, space)
            launch = [
                *converted,
                *pointers,
                f"    if put is None or ({' | '.join(f'p_{name}' for name in walked)}) & 15:",
                f"        first({everything})",
                f"        return {back}",
                "    stream = active.active.get(device)",
                "    block = local.block",
                f"    try: pack(block[0], 0, {', '.join([*words, *map(str, rest)])}, 0, 0)",
                "    except too_wide: stream = None",
                f"    if stream is None: first({everything})",
                "    else: put(function, grid, threads, shared, stream, block[1])",
            ]
        text = [f"def run({', '.join(names)}):", *making, *launch, f"    return {back}"]
        text += ["def into(results, arguments):", f"    {', '.join(results)}, = results"]
        text += ([f"    {', '.join(names)}, = arguments"] if names else []) + [*launch, f"    return {back}"]
        title = "results of an empty loop" if kernel is None else f"launch of {kernel.__name__}"
        run_source("\n".join(text) + "\n", title, space)
        self.run, self.into = space["run"], space["into"]


def _first_launch(kernel: Any, grid: Any, rest: tuple, constants: dict[str, Any], space: dict[str, Any]) -> Any:
    """A launch through the kernel, which compiles where that has to be done; what it found is then in `space`."""

    def first(arguments: tuple) -> None:
        arguments = (*arguments, *rest)
        kernel(grid, *arguments, **constants)
        launch = kernel.kernel.settled(arguments, constants)
        if launch is not None:
            space["pack"], space["function"], space["threads"], space["shared"], space["put"] = launch

    return first


class _Plan:
    """How arrays of certain shapes and strides are walked through: the dims taken together, and the strides of each array."""

    def __init__(self, name: str, operands: Any, out: list[CudaArray] | None) -> None:
        arrays = [x for x in operands if type(x) is CudaArray]
        self.shape = shape = broadcast_shapes(name, *[x.shape for x in arrays]) if out is None else out[0].shape
        self.size = math.prod(shape)
        leading = arrays if out is None else out
        order = _order(leading, shape)
        plain = order == tuple(range(len(shape)))
        self.moved = tuple([shape[axis] for axis in order])
        self.back = None if plain else tuple([int(axis) for axis in numpy.argsort(order)])
        walked = ([*out] if out is not None else []) + arrays
        strides = [_strides(x, shape, order) for x in walked]
        full = _row_major(self.moved)
        counts, collapsed = _collapsed(self.moved, [full, *strides])
        if all(own == collapsed[0] for own in collapsed):
            counts, collapsed = (), [() for _ in collapsed]
        self.rank = len(counts)
        if self.rank > _MOST_DIMS:
            raise ValueError(f"{name}: arrays of {self.rank} separate dims; make them contiguous() first.")
        self.strided_results = out is not None and self.rank > 0
        self.numbers = [*counts[1:], *[step for own in collapsed[1:] for step in own]]
        reach = max([self.size, *[_reach(x) for x in walked]], default=0)
        self.big = reach >= _BIG

    def layout(self, kind: Any, device: int) -> Any:
        """Of a new result: its dims lie in memory in the plan's order."""
        strides = cuda_arrays.contiguous_strides(self.moved, kind.itemsize)
        if self.back is not None:
            strides = tuple([strides[axis] for axis in self.back])
        return cuda_arrays.layout_of(self.shape, strides, kind, device)


def _reach(x: CudaArray) -> int:
    return sum([(size - 1) * abs(step) for size, step in zip(x.shape, x.strides, strict=True)]) // x.dtype.itemsize + 1


def _order(arrays: list[CudaArray], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dims from the outermost to the innermost in memory, of the first operand that has all elements."""
    plain = tuple(range(len(shape)))
    for x in arrays:
        if x.shape == shape:
            if x.is_contiguous or min(x.strides, default=0) <= 0:
                return plain
            return tuple(sorted(plain, key=lambda axis: -x.strides[axis]))
    return plain


def _strides(x: CudaArray, shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """In elements, for each dim of the result in the plan's order."""
    spread = x.broadcast_to(shape).strides
    size = x.dtype.itemsize
    return tuple([spread[axis] // size for axis in order])


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for count in reversed(shape):
        strides.append(step)
        step *= count
    return tuple(strides[::-1])


def _collapsed(
    counts: tuple[int, ...], strides: list[tuple[int, ...]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Dims of size 1 dropped, neighbouring dims as one where every array goes through them in one step."""
    kept = [axis for axis, count in enumerate(counts) if count != 1]
    sizes = [counts[axis] for axis in kept]
    walks = [[own[axis] for axis in kept] for own in strides]
    axis = len(sizes) - 2
    while axis >= 0:
        if all([own[axis] == own[axis + 1] * sizes[axis + 1] for own in walks]):
            sizes[axis] *= sizes.pop(axis + 1)
            for own in walks:
                own.pop(axis)
        axis -= 1
    if not sizes:
        sizes, walks = [1], [[1] for _ in walks]
    return tuple(sizes), [tuple(own) for own in walks]


def _static(kind: type, bound: float, wide: bool, compute: Any) -> Any:
    """How a static number of that type becomes an argument; None is no bound."""
    if compute.kind in "iub" and kind in (int, bool, type(None)):
        if kind is not type(None):
            return int
        limits = None if compute.kind == "b" else numpy.iinfo(compute)
        value = int(bound > 0) if limits is None else int(limits.max if bound > 0 else limits.min)
        return lambda _: value
    if kind is type(None):
        number = Double(bound) if wide else bound
        return lambda _: number
    return _converter(kind, wide, False)


def _converter(kind: type, wide: bool, wholes: bool) -> Any:
    """What makes a Python number of that type the argument that the kernel wants; None where it is one."""
    if wholes:
        return None if kind is int else int
    return Double if wide else None if kind is float else float
