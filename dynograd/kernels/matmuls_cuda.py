"""Matrix products on the GPU, twin of `matmuls_cpu`: transposed, strided and broadcast operands are read where they lie.

float32 is multiplied exactly unless TF32 is allowed (`precision`); half types on tensor cores with sums in float32. In
batch-invariant mode all products of a dtype are cut alike, whatever the number of rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynograd.arrays.cuda_arrays import CudaArray, empty, operations
from dynograd.cuda import driver
from dynograd.kernels import matmul_tiles, precision
from dynograd.kernels import matmuls_triton as device
from dynograd.kernels.batch_invariance import batch_invariant
from dynograd.kernels.tuning_cuda import tuned

__all__ = ["linear_activation_forward", "linear_forward", "matmul_forward", "multiply"]

_HALVES = ("float16", "bfloat16")
_VECTOR_BYTES = 16
# From about 2048**3 on (20 us on an H200) a bad choice of tiles costs more than the second or two that measuring takes once per card.
_WORTH_MEASURING = 1 << 33
_float32 = numpy.dtype(numpy.float32)
_tuners: dict[Any, Any] = {}


def matmul_forward(input: Any, other: Any) -> Any:
    """`input @ other` by NumPy's rules for dims."""
    rows = input if input.ndim > 1 else input.reshape(1, input.shape[0])
    columns = other if other.ndim > 1 else other.reshape(other.shape[0], 1)
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
    kind = x.dtype
    if kind.kind not in "fV" and kind.name != "bfloat16":
        return _with_rest(_of_other_kinds(x, y), bias, activation)
    m, k = x.shape[-2:]
    n = y.shape[-1]
    lead = x.shape[:-2]
    if y.ndim == 2 and x.ndim > 2:  # rows of all matrices of x are multiplied by one
        flat = x.reshape(math.prod(lead) * m, k)
        return multiply(flat, y, bias, activation, out_dtype, tf32).reshape(*lead, m, n)
    if lead != y.shape[:-2]:
        lead = numpy.broadcast_shapes(lead, y.shape[:-2])
    out = empty((*lead, m, n), out_dtype or kind, x.device_index)
    if not out.size:
        return out
    x, y, (outer, inner), steps = _merged(lead, _in_rows(x), _in_rows(y))
    bias = None if bias is None else _row_of(bias, n)
    invariant = batch_invariant()
    if (m == 1 or n == 1) and not invariant:
        _times_vector(x, y, bias, activation, out, outer * inner, inner, steps)
    else:
        _tiled(x, y, bias, activation, out, outer * inner, inner, steps, precision.allows_tf32(tf32), invariant)
    return out


# --- tiles -------------------------------------------------------------------------------------------------------------------


def _tiled(
    x: CudaArray, y: CudaArray, bias: Any, activation: str, out: CudaArray, batch: int, inner: int, steps: list[tuple[int, int]],
    tf32: bool, invariant: bool,
) -> None:  # fmt: skip
    m, k = x.shape[-2:]
    n = y.shape[-1]
    half = x.dtype.name in _HALVES
    kind = "half" if half else "double" if x.dtype.itemsize == 8 else "tf32" if tf32 else "single"
    processors = _processors(x.device_index)
    tiles = matmul_tiles.chosen(kind, batch, m, n, k, processors, invariant)
    a_rows, lda = _line(x)
    b_rows, ldb = _line(y)
    measured = not invariant and batch * m * n * k >= _WORTH_MEASURING
    if batch == 1 and half and out.dtype == x.dtype and _takes_descriptors(x, lda, y, ldb, out, tiles, activation):
        _launch(
            "product_by_descriptors", kind, tiles, measured,
            lambda one: (min(-(-m // one["BM"]) * -(-n // one["BN"]), processors),),
            x, y, out, x if bias is None else bias, m, n, k, lda, ldb, processors,
            A_ROWS=a_rows, B_ROWS=b_rows, GROUP=8, HAS_BIAS=bias is not None, ACTIVATION=activation,
            SPECIALIZE=_capability(x.device_index) >= (10, 0),
        )  # fmt: skip
        return
    count = batch * -(-m // tiles.rows) * -(-n // tiles.columns)
    splits = 1 if invariant else matmul_tiles.splits_of(count, k, tiles.depth, processors)
    span = -(-k // (splits * tiles.depth)) * tiles.depth if k else tiles.depth
    splits = max(1, -(-k // span))
    target = out if splits == 1 else _parts(splits, out)
    fused = splits == 1
    unit = _VECTOR_BYTES // x.dtype.itemsize
    c_unit = _VECTOR_BYTES // target.dtype.itemsize
    _launch(
        "product", kind, tiles, measured and fused, lambda one: (batch * -(-m // one["BM"]) * -(-n // one["BN"]), splits),
        x, y, target, x if bias is None else bias, m, n, k, span, lda, ldb, inner, *steps[0], *steps[1], out.size,
        A_ROWS=a_rows, B_ROWS=b_rows, A_UNIT=_unit(unit, x, lda, k if a_rows else m, *steps[0]),
        B_UNIT=_unit(unit, y, ldb, n if b_rows else k, *steps[1]), C_UNIT=_unit(c_unit, target, n), GROUP=8,
        EVEN=k % tiles.depth == 0, HAS_BIAS=fused and bias is not None, ACTIVATION=activation if fused else "",
        PRECISION="tf32" if kind == "tf32" else "ieee",
    )  # fmt: skip
    if not fused:
        add_parts(target, out, bias, n, activation)


def _launch(
    name: str, kind: str, tiles: matmul_tiles.Tiles, measured: bool, grid: Any, *arguments: Any, **constants: Any
) -> None:  # fmt: skip
    """A launch with the estimated tiles, or for large products with those of the same depth that prove fastest on the card."""
    if not measured:
        config = tiles.constants()
        getattr(device, name)(grid(config), *arguments, **constants, **config)
        return
    tuner = _tuners.get((name, kind, tiles))
    if tuner is None:
        others = [
            one for one in matmul_tiles.rivals(kind, tiles) if name == "product" or min(one.rows, one.columns) >= 128
        ]
        configs = [one.constants() for one in (tiles, *others)]
        tuner = _tuners[name, kind, tiles] = tuned(getattr(device, name), configs, ("M", "N", "K"))
    tuner(grid, *arguments, **constants)


def add_parts(parts: CudaArray, out: CudaArray, bias: Any, columns: int, activation: str = "") -> None:
    """out = activation(sum of `parts` (splits, *out.shape), in their order, + bias (columns) along rows)."""
    block = 512 if parts.dtype.itemsize == 8 else 1024
    device.add_parts(
        (-(-out.size // block),), parts, parts if bias is None else bias, out, out.size, columns, parts.shape[0], BLOCK=block,
        HAS_BIAS=bias is not None, ACTIVATION=activation, num_warps=4,
    )  # fmt: skip


def _takes_descriptors(x: Any, lda: int, y: Any, ldb: int, out: Any, tiles: Any, activation: str) -> bool:
    """Whether rows begin at multiples of 16 bytes on a card with TMA, and there is enough to do for it."""
    if (
        tiles.rows < 128
        or tiles.columns < 128
        or lda % 8
        or ldb % 8
        or not lda
        or not ldb
        or out.shape[-1] % 8
        or x.pointer % 16
        or y.pointer % 16
    ):
        return False
    # the longer formula of gelu does not fit into the registers beside 128 x 256 sums
    return _capability(x.device_index) >= (9, 0) and not (activation == "gelu" and tiles.columns > 128)


def _parts(splits: int, out: CudaArray) -> CudaArray:
    kind = _float32 if out.dtype.itemsize < 8 else out.dtype
    return empty((splits, *out.shape), kind, out.device_index)


def _unit(unit: int, array: CudaArray, *sizes: int) -> int:
    """`unit` where it divides all sizes and the array begins at a multiple of 16 bytes, else 1."""
    return 1 if array.pointer % _VECTOR_BYTES or any([size % unit for size in sizes]) else unit


# --- vectors -----------------------------------------------------------------------------------------------------------------


def _times_vector(
    x: CudaArray, y: CudaArray, bias: Any, activation: str, out: CudaArray, batch: int, inner: int, steps: list[tuple[int, int]]
) -> None:  # fmt: skip
    """A product with one row or one column: the matrix is read once, in whole lines."""
    size = x.dtype.itemsize
    bias_step = 1
    if x.shape[-2] == 1:  # columns of y
        matrix, vector, steps, rows = y, x, steps[::-1], y.shape[-1]
        in_columns, ld = _line(y)
        in_rows, vector_step = not in_columns, vector.strides[-1] // size
    else:
        matrix, vector, rows, bias_step = x, y, x.shape[-2], 0
        in_rows, ld = _line(x)
        vector_step = vector.strides[-2] // size
    k = x.shape[-1]
    block_rows, block_k = (8, 2048 // size) if in_rows else (1024 // size, 16)
    count = batch * -(-rows // block_rows)
    processors = 2 * _processors(x.device_index)
    splits = max(1, min(processors // count, k // (4 * block_k), 64))
    span = max(1, -(-k // (splits * block_k))) * block_k
    splits = max(1, -(-k // span))
    target = out if splits == 1 else _parts(splits, out)
    fused = splits == 1
    device.vector_product(
        (count, splits), matrix, vector, target, matrix if bias is None else bias, rows, k, span, ld, vector_step, bias_step,
        inner, *steps[0], *steps[1], out.size, IN_ROWS=in_rows,
        UNIT=_unit(_VECTOR_BYTES // size, matrix, ld, k if in_rows else rows, *steps[0]), BR=block_rows, BK=block_k,
        HAS_BIAS=fused and bias is not None, ACTIVATION=activation if fused else "", num_warps=4,
    )  # fmt: skip
    if not fused:
        add_parts(target, out, bias, out.shape[-1], activation)


# --- operands ----------------------------------------------------------------------------------------------------------------


def _in_rows(x: CudaArray) -> CudaArray:
    """The array, or a copy, so that rows or columns of its matrices lie in one piece each."""
    size = x.dtype.itemsize
    down, across = x.strides[-2:]
    rows, columns = x.shape[-2:]
    if any([step % size for step in x.strides]):
        return x.copy()
    if (across == size or columns == 1) and (down >= 0 or rows == 1):
        return x
    if (down == size or rows == 1) and (across >= 0 or columns == 1):
        return x
    return x.copy()


def _line(x: CudaArray) -> tuple[bool, int]:
    """Whether rows lie in one piece (columns otherwise), and elements from one to the next."""
    size = x.dtype.itemsize
    down, across = x.strides[-2:]
    rows, columns = x.shape[-2:]
    if across == size and (columns > 1 or rows == 1 or down != size):
        return True, down // size if rows > 1 else columns
    if down == size or rows == 1:
        return False, across // size if columns > 1 else rows
    return True, down // size if rows > 1 else columns


def _merged(
    lead: tuple[int, ...], x: CudaArray, y: CudaArray
) -> tuple[CudaArray, CudaArray, tuple[int, int], list[tuple[int, int]]]:
    """Operands, the two leading dims that all merge into, and each operand's strides over them in elements."""
    for again in (False, True):
        sizes: list[int] = []
        strides: tuple[list[int], list[int]] = ([], [])
        own = [_lead_strides(one, lead) for one in (x, y)]
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
        if len(sizes) <= 2 or again:
            break
        x, y = (one.broadcast_to((*lead, *one.shape[-2:])).copy() for one in (x, y))
    outer, inner = (1, 1, *sizes)[-2:]
    return x, y, (outer, inner), [((0, 0, *mine)[-2], (0, 0, *mine)[-1]) for mine in strides]


def _lead_strides(x: CudaArray, lead: tuple[int, ...]) -> list[int]:
    missing = len(lead) - (x.ndim - 2)
    size = x.dtype.itemsize
    own = [0 if extent == 1 else step // size for extent, step in zip(x.shape[:-2], x.strides[:-2], strict=True)]
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


def _of_other_kinds(x: CudaArray, y: CudaArray) -> CudaArray:
    lead = numpy.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    if x.dtype.kind == "c":
        return _complex(x, y, lead)
    m, k = x.shape[-2:]
    n = y.shape[-1]
    out = empty((*lead, m, n), x.dtype, x.device_index)
    if not out.size:
        return out
    size = x.dtype.itemsize
    x, y = (one.copy() if any([step % size for step in one.strides]) else one for one in (x, y))
    x, y, (outer, inner), steps = _merged(lead, x, y)
    truths = x.dtype.kind == "b"
    target = out
    if truths:
        x, y, target = (one.view(numpy.uint8) for one in (x, y, out))
    count = outer * inner * -(-m // 16) * -(-n // 16)
    device.integer_product(
        (count,), x, y, target, m, n, k, *[step // size for step in (*x.strides[-2:], *y.strides[-2:])], inner, *steps[0],
        *steps[1], TRUTHS=truths, BM=16, BN=16, BK=16, num_warps=4,
    )  # fmt: skip
    return out


def _complex(x: CudaArray, y: CudaArray, lead: tuple[int, ...]) -> CudaArray:
    """By four products of real and imaginary parts."""
    a, b, c, d = x.real.copy(), x.imag.copy(), y.real.copy(), y.imag.copy()
    out = empty((*lead, x.shape[-2], y.shape[-1]), x.dtype, x.device_index)
    operations.copy_into(out.real, multiply(a, c) - multiply(b, d))
    operations.copy_into(out.imag, multiply(a, d) + multiply(b, c))
    return out


def _with_rest(out: CudaArray, bias: Any, activation: str) -> CudaArray:
    if bias is not None:
        out = out + bias
    return operations.elementwise(activation, out) if activation else out
