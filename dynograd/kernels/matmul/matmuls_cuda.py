"""Matrix products on the GPU, twin of `matmuls_cpu`: transposed, strided and broadcast operands are read where they lie.

float32 is multiplied exactly unless TF32 is allowed (`precision`); half types on tensor cores with sums in float32. In
batch-invariant mode all products of a dtype are cut alike, whatever the number of rows.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy

from dynograd.arrays.cuda_arrays import CudaArray, contiguous_strides, empty, layout_of, of_layout, operations
from dynograd.cuda import driver
from dynograd.kernels.build import precision
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.kernels.build.tuning_cuda import tuned
from dynograd.kernels.matmul import matmul_tiles
from dynograd.kernels.matmul import matmuls_triton as device
from dynograd.kernels.matmul.matmuls_cpu import is_one_matrix

_HALVES = ("float16", "bfloat16")
_FLOATS = (*_HALVES, "float32", "float64")
_VECTOR_BYTES = 16  # that a thread reads with one instruction from an address that is a multiple of it
# From about 2048**3 on (20 us on an H200) a bad choice of tiles costs more than the second or two that measuring takes once per card.
_WORTH_MEASURING = 1 << 33
_float32 = numpy.dtype(numpy.float32)
_tuners: dict[Any, Any] = {}
_plans: dict[Any, Any] = {}
_MOST_PLANS = 20000  # kept at a time: shapes that never come again would fill the memory


def matmul_forward(input: Any, other: Any) -> Any:
    """`input @ other` by NumPy's rules for dims."""
    rows = input if input.ndim > 1 else input.reshape(1, input.shape[0])
    columns = other if other.ndim > 1 else other.reshape(other.shape[0], 1)
    if rows.ndim == 3 and len(rows) == len(columns) and is_one_matrix(columns) and not is_one_matrix(rows):
        count, lines, inner = rows.shape
        return multiply(rows.reshape(count * lines, inner), columns[0]).reshape(count, lines, columns.shape[2])
    out = multiply(rows, columns)
    shape = out.shape[:-2]
    if input.ndim > 1:
        shape = (*shape, out.shape[-2])
    if other.ndim > 1:
        shape = (*shape, out.shape[-1])
    return out.reshape(shape)


def linear_forward(input: Any, weight: Any, bias: Any) -> Any:
    """`input @ weight.T + bias`."""
    return linear_activation_forward(input, weight, bias, "")


def linear_activation_forward(input: Any, weight: Any, bias: Any, activation: str) -> Any:
    """An activation ("relu", "gelu", "silu", or "" for none) of `input @ weight.T + bias`, in one kernel."""
    if weight.ndim == 1:
        if bias is not None and bias.size != 1:  # one number for each row
            bias = bias.reshape(*bias.shape, 1)
        out = linear_activation_forward(input, weight.reshape(1, weight.shape[0]), bias, activation)
        return out.reshape(input.shape[:-1])
    features, inner = weight.shape
    rows = input if input.ndim > 1 else input.reshape(1, inner)
    fits = bias is None or bias.shape in ((features,), (1,), ())
    out = multiply(rows, weight.T, bias if fits else None, activation if fits else "")
    out = out.reshape(*input.shape[:-1], features)
    if fits:
        return out
    out = out + bias
    return operations.elementwise(activation, out) if activation else out


def multiply(
    x: CudaArray, y: CudaArray, bias: Any = None, activation: str = "", out_dtype: Any = None, tf32: str = "matmul"
) -> CudaArray:
    """activation(x @ y + bias) for arrays of 2 and more dims; `bias` (columns,) or one number in an array.

    Args:
        out_dtype: float32 keeps what half types were summed in.
        tf32: whose switch says whether float32 may be multiplied in TF32.
    """
    first, second = x.layout, y.layout
    aligned = (x.pointer % _VECTOR_BYTES == 0, y.pointer % _VECTOR_BYTES == 0)
    key = (first, second, aligned, bias is None, activation, out_dtype, precision.allows_tf32(tf32), batch_invariant())
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) > _MOST_PLANS:
            _plans.clear()
        plan = _plans[key] = _plan(first, second, *key[2:])
    if plan.prepare is not None:
        return plan.prepare(x, y, bias, activation, out_dtype, tf32)
    out = of_layout(plan.out)
    if not plan.out.size:
        return out
    if bias is not None:
        bias = _row_of(bias, plan.columns)
    target = out if plan.parts is None else of_layout(plan.parts)
    if plan.turned:
        x, y = y, x
    plan.launch(plan.grid, x, y, target, x if bias is None else bias, *plan.numbers, **plan.constants)
    if plan.parts is not None:
        add_parts(target, out, bias, plan.columns, activation)
    return out


# --- plans: what is decided once for all operands of the same layouts -----------------------------------------------------------


class Plan(NamedTuple):
    """How to multiply operands of two layouts: a launch, or another way to do it (`prepare`)."""

    prepare: Any = None  # a function of multiply's arguments
    out: Any = None
    columns: int = 0
    parts: Any = None  # the layout of partial sums
    turned: bool = False  # y comes first
    launch: Any = None
    grid: Any = ()
    numbers: tuple[int, ...] = ()
    constants: dict[str, Any] = {}


def _plan(
    x: Any,
    y: Any,
    aligned: tuple[bool, bool],
    plain: bool,
    activation: str,
    out_dtype: Any,
    tf32: bool,
    invariant: bool,
) -> Plan:
    kind = x.dtype
    if kind.name not in _FLOATS:
        return Plan(prepare=_of_other_kinds)
    if not (_is_in_lines(x) and _is_in_lines(y)):
        return Plan(prepare=_in_lines)
    m, k = x.shape[-2:]
    n = y.shape[-1]
    lead = x.shape[:-2]
    out = layout_of_new((*lead, m, n), out_dtype or kind, x.device)
    if y.ndim == 2 and x.ndim > 2 and x.is_contiguous:  # rows of all matrices of x are multiplied by one
        x = layout_of_new((math.prod(lead) * m, k), kind, x.device)
        m, lead = x.shape[0], ()
    elif lead != y.shape[:-2]:
        lead = numpy.broadcast_shapes(lead, y.shape[:-2])
        out = layout_of_new((*lead, m, n), out_dtype or kind, x.device)
    if not out.size:
        return Plan(out=out)
    merged = _merged(lead, x, y)
    if merged is None:
        return Plan(prepare=_stretched)
    return (_of_vector if (m == 1 or n == 1) and not invariant else _of_tiles)(
        x, y, out, m, n, k, *merged, aligned, plain, activation, tf32, invariant
    )


def _in_lines(x: CudaArray, y: CudaArray, *rest: Any) -> CudaArray:
    return multiply(x if _is_in_lines(x.layout) else x.copy(), y if _is_in_lines(y.layout) else y.copy(), *rest)


def _stretched(x: CudaArray, y: CudaArray, *rest: Any) -> CudaArray:
    lead = numpy.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    first, second = (each.broadcast_to((*lead, *each.shape[-2:])).copy() for each in (x, y))
    return multiply(first, second, *rest)


# --- tiles -------------------------------------------------------------------------------------------------------------------


def _of_tiles(
    x: Any, y: Any, out: Any, m: int, n: int, k: int, outer: int, inner: int, steps: list[tuple[int, int]],
    aligned: tuple[bool, bool], plain: bool, activation: str, tf32: bool, invariant: bool,
) -> Plan:  # fmt: skip
    batch = outer * inner
    half = x.dtype.name in _HALVES
    kind = "half" if half else "double" if x.itemsize == 8 else "tf32" if tf32 else "single"
    processors = _processors(x.device)
    tiles = matmul_tiles.chosen(kind, batch, m, n, k, processors, invariant)
    a_rows, lda = _line(x)
    b_rows, ldb = _line(y)
    measured = not invariant and batch * m * n * k >= _WORTH_MEASURING
    by_descriptors = batch == 1 and half and out.dtype == x.dtype and all(aligned)
    if by_descriptors and _takes_descriptors(x.device, lda, ldb, n, tiles, activation):
        constants = {
            "A_ROWS": a_rows, "B_ROWS": b_rows, "GROUP": 8, "HAS_BIAS": not plain, "ACTIVATION": activation,
            "SPECIALIZE": _capability(x.device) >= (10, 0),
        }  # fmt: skip
        return _launched(
            "product_by_descriptors", kind, tiles, measured, constants,
            lambda kernel: (min(-(-m // kernel["BM"]) * -(-n // kernel["BN"]), processors),),
            out=out, columns=n, numbers=(m, n, k, lda, ldb, processors),
        )  # fmt: skip
    count = batch * -(-m // tiles.rows) * -(-n // tiles.columns)
    splits, span = _cut(k, 1 if invariant else matmul_tiles.splits_of(count, k, tiles.depth, processors), tiles.depth)
    parts = None if splits == 1 else _parts(splits, out)
    unit, c_unit = _VECTOR_BYTES // x.itemsize, _VECTOR_BYTES // (parts or out).itemsize
    constants = {
        "A_ROWS": a_rows, "B_ROWS": b_rows, "A_UNIT": _unit(unit, aligned[0], lda, k if a_rows else m, *steps[0]),
        "B_UNIT": _unit(unit, aligned[1], ldb, n if b_rows else k, *steps[1]), "C_UNIT": _unit(c_unit, True, n), "GROUP": 8,
        "EVEN": k % tiles.depth == 0, "HAS_BIAS": not plain and not parts, "ACTIVATION": "" if parts else activation,
        "PRECISION": "tf32" if kind == "tf32" else "ieee",
    }  # fmt: skip
    return _launched(
        "product", kind, tiles, measured and not parts, constants,
        lambda kernel: (batch * -(-m // kernel["BM"]) * -(-n // kernel["BN"]), splits),
        out=out, columns=n, parts=parts, numbers=(m, n, k, span, lda, ldb, inner, *steps[0], *steps[1], out.size),
    )  # fmt: skip


def _launched(
    name: str, kind: str, tiles: matmul_tiles.Tiles, measured: bool, constants: dict[str, Any], grid: Any, **plan: Any
) -> Plan:
    """A launch with the estimated tiles, or for large products with those of the same depth that prove fastest on the card."""
    kernel = getattr(device, name)
    if not measured:
        config = tiles.constants()
        return Plan(launch=kernel, grid=grid(config), constants=constants | config, **plan)
    tuner = _tuners.get((name, kind, tiles))
    if tuner is None:
        others = [
            rival
            for rival in matmul_tiles.rivals(kind, tiles)
            if name == "product" or min(rival.rows, rival.columns) >= 128
        ]
        tuner = _tuners[name, kind, tiles] = tuned(
            kernel, [tile.constants() for tile in (tiles, *others)], ("M", "N", "K")
        )
    return Plan(launch=tuner, grid=grid, constants=constants, **plan)


def add_parts(parts: CudaArray, out: CudaArray, bias: Any, columns: int, activation: str = "") -> None:
    """out = activation(sum of `parts` (splits, *out.shape), in their order, + bias (columns) along rows)."""
    block = 512 if parts.dtype.itemsize == 8 else 1024
    device.add_parts(
        (-(-out.size // block),), parts, parts if bias is None else bias, out, out.size, columns, parts.shape[0], BLOCK=block,
        HAS_BIAS=bias is not None, ACTIVATION=activation, num_warps=4,
    )  # fmt: skip


def _takes_descriptors(index: int, lda: int, ldb: int, n: int, tiles: Any, activation: str) -> bool:
    """Whether rows begin at multiples of 16 bytes on a card with TMA, and there is enough to do for it."""
    if tiles.rows < 128 or tiles.columns < 128 or lda % 8 or ldb % 8 or not lda or not ldb or n % 8:
        return False
    # the longer formula of gelu does not fit into the registers beside 128 x 256 sums
    return _capability(index) >= (9, 0) and not (activation == "gelu" and tiles.columns > 128)


def _cut(k: int, splits: int, depth: int) -> tuple[int, int]:
    """How many splits there really are, and how many places of K belong to each."""
    span = max(1, -(-k // (splits * depth))) * depth
    return max(1, -(-k // span)), span


def _parts(splits: int, out: Any) -> Any:
    return layout_of_new((splits, *out.shape), _float32 if out.itemsize < 8 else out.dtype, out.device)


def _unit(unit: int, aligned: bool, *sizes: int) -> int:
    """`unit` where it divides all sizes and the array begins at a multiple of 16 bytes, else 1."""
    return 1 if not aligned or any([size % unit for size in sizes]) else unit


# --- vectors -----------------------------------------------------------------------------------------------------------------


def _of_vector(
    x: Any, y: Any, out: Any, m: int, n: int, k: int, outer: int, inner: int, steps: list[tuple[int, int]],
    aligned: tuple[bool, bool], plain: bool, activation: str, tf32: bool, invariant: bool,
) -> Plan:  # fmt: skip
    """A product with one row or one column: the matrix is read once, in whole lines."""
    size = x.itemsize
    turned = m == 1
    if turned:  # columns of y
        rows, bias_step = n, 1
        in_columns, ld = _line(y)
        in_rows, vector_step = not in_columns, x.strides[-1] // size
        steps, aligned = steps[::-1], aligned[::-1]
    else:
        rows, bias_step = m, 0
        in_rows, ld = _line(x)
        vector_step = y.strides[-2] // size
    block_rows, block_k = (8, 2048 // size) if in_rows else (1024 // size, 16)
    count = outer * inner * -(-rows // block_rows)
    splits, span = _cut(k, max(1, min(2 * _processors(x.device) // count, k // (4 * block_k), 64)), block_k)
    parts = None if splits == 1 else _parts(splits, out)
    constants = {
        "IN_ROWS": in_rows, "UNIT": _unit(_VECTOR_BYTES // size, aligned[0], ld, k if in_rows else rows, *steps[0]),
        "BR": block_rows, "BK": block_k, "HAS_BIAS": not plain and not parts, "ACTIVATION": "" if parts else activation,
        "num_warps": 4,
    }  # fmt: skip
    numbers = (rows, k, span, ld, vector_step, bias_step, inner, *steps[0], *steps[1], out.size)
    return Plan(
        launch=device.vector_product, grid=(count, splits), out=out, columns=n, parts=parts, turned=turned, numbers=numbers,
        constants=constants,
    )  # fmt: skip


# --- operands: functions of layouts ------------------------------------------------------------------------------------------


def layout_of_new(shape: tuple[int, ...], kind: Any, index: int) -> Any:
    """The layout of a new row-major array."""
    kind = numpy.dtype(kind)
    return layout_of(tuple(shape), contiguous_strides(tuple(shape), kind.itemsize), kind, index)


def _is_in_lines(x: Any) -> bool:
    """Whether rows or columns of its matrices lie in one piece each."""
    size = x.itemsize
    down, across = x.strides[-2:]
    rows, columns = x.shape[-2:]
    if any([step % size for step in x.strides]):
        return False
    return ((across == size or columns == 1) and (down >= 0 or rows == 1)) or (
        (down == size or rows == 1) and (across >= 0 or columns == 1)
    )


def _line(x: Any) -> tuple[bool, int]:
    """Whether rows lie in one piece (columns otherwise), and elements from one to the next."""
    size = x.itemsize
    down, across = x.strides[-2:]
    rows, columns = x.shape[-2:]
    if across == size and (columns > 1 or rows == 1 or down != size):
        return True, down // size if rows > 1 else columns
    if down == size or rows == 1:
        return False, across // size if columns > 1 else rows
    return True, down // size if rows > 1 else columns


def _merged(lead: tuple[int, ...], x: Any, y: Any) -> tuple[int, int, list[tuple[int, int]]] | None:
    """The two leading dims that all merge into, and each operand's strides over them in elements; None if there are more."""
    sizes: list[int] = []
    strides: tuple[list[int], list[int]] = ([], [])
    own = [_lead_strides(operand, lead) for operand in (x, y)]
    for place, extent in enumerate(lead):
        if extent == 1:
            continue
        if sizes and all([mine[-1] == step[place] * extent for mine, step in zip(strides, own, strict=True)]):
            sizes[-1] *= extent
            for mine, step in zip(strides, own, strict=True):
                mine[-1] = step[place]
        else:
            sizes.append(extent)
            for mine, step in zip(strides, own, strict=True):
                mine.append(step[place])
    if len(sizes) > 2:
        return None
    outer, inner = (1, 1, *sizes)[-2:]
    return outer, inner, [((0, 0, *mine)[-2], (0, 0, *mine)[-1]) for mine in strides]


def _lead_strides(x: Any, lead: tuple[int, ...]) -> list[int]:
    missing = len(lead) - (x.ndim - 2)
    own = [0 if extent == 1 else step // x.itemsize for extent, step in zip(x.shape[:-2], x.strides[:-2], strict=True)]
    return [0] * missing + own


def _row_of(bias: CudaArray, columns: int) -> CudaArray:
    if bias.shape != (columns,):
        bias = bias.reshape(-1).broadcast_to((columns,))
    return bias if bias.is_contiguous else bias.copy()


def _processors(index: int) -> int:
    return driver.get("matmul").attribute(index, "multiprocessor_count")


def _capability(index: int) -> tuple[int, int]:
    return driver.get("matmul").capability(index)


# --- integers, complex numbers -----------------------------------------------------------------------------------------------


def _of_other_kinds(x: CudaArray, y: CudaArray, bias: Any, activation: str, out_dtype: Any, tf32: str) -> CudaArray:
    lead = numpy.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    out = _complex(x, y, lead) if x.dtype.kind == "c" else _of_integers(x, y, lead)
    if bias is not None:
        out = out + bias
    return operations.elementwise(activation, out) if activation else out


def _of_integers(x: CudaArray, y: CudaArray, lead: tuple[int, ...]) -> CudaArray:
    m, k = x.shape[-2:]
    n = y.shape[-1]
    out = empty((*lead, m, n), x.dtype, x.device_index)
    if not out.size:
        return out
    size = x.dtype.itemsize
    x, y = (operand.copy() if any([step % size for step in operand.strides]) else operand for operand in (x, y))
    merged = _merged(lead, x.layout, y.layout)
    if merged is None:
        x, y = (operand.broadcast_to((*lead, *operand.shape[-2:])).copy() for operand in (x, y))
        merged = _merged(lead, x.layout, y.layout)
    outer, inner, steps = merged  # type: ignore[misc]
    truths = x.dtype.kind == "b"
    target = out
    if truths:
        x, y, target = (operand.view(numpy.uint8) for operand in (x, y, out))
    device.integer_product(
        (outer * inner * -(-m // 16) * -(-n // 16),), x, y, target, m, n, k,
        *[step // size for step in (*x.strides[-2:], *y.strides[-2:])], inner, *steps[0], *steps[1], TRUTHS=truths, BM=16, BN=16,
        BK=16, num_warps=4,
    )  # fmt: skip
    return out


def _complex(x: CudaArray, y: CudaArray, lead: tuple[int, ...]) -> CudaArray:
    """By four products of real and imaginary parts."""
    a, b, c, d = x.real.copy(), x.imag.copy(), y.real.copy(), y.imag.copy()
    out = empty((*lead, x.shape[-2], y.shape[-1]), x.dtype, x.device_index)
    operations.copy_into(out.real, multiply(a, c) - multiply(b, d))
    operations.copy_into(out.imag, multiply(a, d) + multiply(b, c))
    return out
