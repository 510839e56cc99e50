"""Compiled code over tables of arrays: row r has the addresses, the size and the first block of some arrays of equal size.

All rows together are one list of blocks, so that a kernel's parts are equal however small or large the arrays are. Rows end
with one that holds the number of blocks. Blocks begin at multiples of `BLOCK` elements of their array, which is a multiple of
every vector length: the bits of a result do not depend on where the parts are cut.
"""

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from dynograd.kernels.build.compiling_numba import chunked, compiled

__all__ = [
    "BLOCK",
    "FIRST",
    "SIZE",
    "at",
    "blocks_of",
    "fill_blocks",
    "read_arrays",
    "read_gradients",
    "row_of",
    "scale_blocks",
]
__all__ += ["bound_blocks", "square_blocks"]

BLOCK = 1024  # elements: see the top
# Columns. An optimizer's rows: its parameter, gradient and states; what it needs besides.
PARAMETER, GRADIENT, STATE, OTHER_STATE, THIRD_STATE, STEP, STEP_SIZE, OBJECT, SIZE, FIRST = range(10)
COLUMNS = FIRST + 1

# Positions in `object_fields.FIELDS`.
_TYPE, _DATA, _NDIM, _SHAPE, _DTYPE, _FLAGS, _ITEMS, _ARRAY_TYPE, _NONE = range(9)
_CONTIGUOUS_AND_ALIGNED = 0x101  # bits of NumPy's flags: NPY_ARRAY_C_CONTIGUOUS and NPY_ARRAY_ALIGNED
_WRITEABLE = 0x400  # NPY_ARRAY_WRITEABLE


@intrinsic
def _word_at(typing_context, address):
    def generate(context, builder, signature, arguments):
        kind = context.get_value_type(types.int64)
        return builder.load(builder.inttoptr(arguments[0], kind.as_pointer()))

    return types.int64(types.int64), generate


@intrinsic
def _half_at(typing_context, address):
    def generate(context, builder, signature, arguments):
        kind = context.get_value_type(types.int32)
        return builder.load(builder.inttoptr(arguments[0], kind.as_pointer()))

    return types.int32(types.int64), generate


@intrinsic
def _pointer(typing_context, address, like):
    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like.dtype)(types.int64, like), generate


@compiled(inline=True)
def at(address, count, like):
    """The `count` elements at an address, of the array `like`'s dtype."""
    return carray(_pointer(address, like), (count,))


@compiled
def row_of(rows, block):
    """The row that a block belongs to."""
    low, high = 0, rows.shape[0] - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if rows[middle, FIRST] <= block:
            low = middle
        else:
            high = middle
    return low


@compiled(inline=True)
def blocks_of(rows, row, block, stop):
    """(first element, end of elements, next row's first block) of what a part that ends at `stop` has to do in a row."""
    first = rows[row, FIRST]
    last = min(stop, rows[row + 1, FIRST])
    return (block - first) * BLOCK, min((last - first) * BLOCK, rows[row, SIZE]), last


# --- reading array objects ---------------------------------------------------------------------------------------------------


@compiled
def _fits(item, fields, dtype):
    """Whether an object is an array of that dtype whose elements lie in order."""
    return (
        _word_at(item + fields[_TYPE]) == fields[_ARRAY_TYPE]
        and _word_at(item + fields[_DTYPE]) == dtype
        and _half_at(item + fields[_FLAGS]) & _CONTIGUOUS_AND_ALIGNED == _CONTIGUOUS_AND_ALIGNED
    )


@compiled
def _same_shape(mine, other, fields):
    ndim = _half_at(mine + fields[_NDIM])
    if _half_at(other + fields[_NDIM]) != ndim:
        return False
    sizes, others = _word_at(mine + fields[_SHAPE]), _word_at(other + fields[_SHAPE])
    same = True
    for dim in range(ndim):
        same &= _word_at(sizes + 8 * dim) == _word_at(others + 8 * dim)
    return same


@compiled
def _overlaps(low, high, ranges):
    """Whether [low, high) meets one of the ascending, disjoint ranges."""
    first, last = 0, ranges.shape[0]
    while first < last:
        middle = (first + last) >> 1
        if ranges[middle, 1] <= low:
            first = middle + 1
        else:
            last = middle
    return first < ranges.shape[0] and ranges[first, 0] < high


@compiled
def read_gradients(listed, fields, dtype, itemsize, rows, ranges):
    """Writes the addresses of a list's arrays into the rows, 0 for None; -1, or the first that does not fit its row.

    It has to have the dtype, the shape of the row's parameter and elements in order, and to share no memory with `ranges`.
    With `listed` 0 the addresses are there already.
    """
    items = _word_at(listed + fields[_ITEMS]) if listed else 0
    for row in range(rows.shape[0] - 1):
        if listed:
            item = _word_at(items + 8 * row)
            if item == fields[_NONE]:
                rows[row, GRADIENT] = 0
                continue
            if not _fits(item, fields, dtype) or not _same_shape(item, rows[row, OBJECT], fields):
                return row
            rows[row, GRADIENT] = _word_at(item + fields[_DATA])
        start = rows[row, GRADIENT]
        if start and _overlaps(start, start + rows[row, SIZE] * itemsize, ranges):
            return row
    return -1


@compiled
def read_arrays(listed, fields, dtype, rows):
    """Writes address, size and first block of a list's arrays into the rows; -1, or the first without the dtype and order."""
    items, block = _word_at(listed + fields[_ITEMS]), 0
    for row in range(rows.shape[0] - 1):
        item = _word_at(items + 8 * row)
        if not _fits(item, fields, dtype) or not _half_at(item + fields[_FLAGS]) & _WRITEABLE:
            return row
        size, sizes = 1, _word_at(item + fields[_SHAPE])
        for dim in range(_half_at(item + fields[_NDIM])):
            size *= _word_at(sizes + 8 * dim)
        rows[row, PARAMETER], rows[row, SIZE], rows[row, FIRST] = _word_at(item + fields[_DATA]), size, block
        block += (size + BLOCK - 1) // BLOCK
    rows[rows.shape[0] - 1, FIRST] = block
    return -1


# --- kernels over all arrays -------------------------------------------------------------------------------------------------


@compiled
def _squares(x):
    total = 0.0
    for i in range(x.size):
        value = np.float64(x[i])
        total += value * value
    return total


@chunked
def square_blocks(rows, like, sums, start, stop):
    """Sums of squares, block by block, in float64."""
    row = row_of(rows, start)
    block = start
    while block < stop:
        first, end, last = blocks_of(rows, row, block, stop)
        for low in range(first, end, BLOCK):
            count = min(BLOCK, end - low)
            sums[block] = _squares(at(rows[row, PARAMETER] + low * like.itemsize, count, like))
            block += 1
        block, row = last, row + 1


@chunked
def scale_blocks(rows, factor, start, stop):
    """Multiplies by `factor`, an array of one element."""
    row = row_of(rows, start)
    block = start
    while block < stop:
        first, end, last = blocks_of(rows, row, block, stop)
        if end > first:
            x = at(rows[row, PARAMETER] + first * factor.itemsize, end - first, factor)
            by = factor[0]
            for i in range(x.size):
                x[i] *= by
        block, row = last, row + 1


@chunked
def bound_blocks(rows, bounds, start, stop):
    """Moves elements outside the two bounds to the nearer one; NaN stays."""
    row = row_of(rows, start)
    block = start
    while block < stop:
        first, end, last = blocks_of(rows, row, block, stop)
        if end > first:
            x = at(rows[row, PARAMETER] + first * bounds.itemsize, end - first, bounds)
            least, most = bounds[0], bounds[1]
            for i in range(x.size):
                value = x[i]
                value = most if value > most else value
                x[i] = least if value < least else value
        block, row = last, row + 1


@chunked
def fill_blocks(rows, value, start, stop):
    """Writes `value`, an array of one element, everywhere."""
    row = row_of(rows, start)
    block = start
    while block < stop:
        first, end, last = blocks_of(rows, row, block, stop)
        if end > first:
            at(rows[row, PARAMETER] + first * value.itemsize, end - first, value)[:] = value[0]
        block, row = last, row + 1
