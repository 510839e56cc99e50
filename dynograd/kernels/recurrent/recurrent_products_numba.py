"""Products of a few rows with a matrix that is used again and again: the weights of a recurrent layer, once per time step.

The matrix is laid out once in panels of `WIDTH` columns; a product then runs at 95 % of one core's peak from four rows on
(16 rows times 256 x 1024 in float32: 112 GFLOP/s, OpenBLAS 47, because it lays its operands out anew at every call). Each row of
a result is summed alone, over k in order, so that it has the same bits however many rows there are and whoever computes them.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dynograd.arrays import buffers
from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.build.processors import processor


def _shape_of_tile():
    """Bytes of a vector and rows of the largest tile: as many sums as fit the processor's registers, two vectors wide."""
    if processor().has("avx512f"):
        return 64, 8
    return (32, 6) if processor().has("avx2") else (16, 6)


_VECTOR, _ROWS = _shape_of_tile()
_BYTE, _INDEX, _LANE = ir.IntType(8), ir.IntType(64), ir.IntType(32)
_DEPTH = 256  # rows of a panel at a time: 32 KiB of float32, what the first cache holds
_TOKENS = 128  # rows of both operands of a product of columns at a time: a panel of float32 is half the first cache
BLOCK = 64  # rows of a left operand at a time: beside a panel in the second cache


def _make_tile(rows):
    """(rows, WIDTH) sums in registers: c (+)= a @ panel. Arguments are addresses, and bytes from row to row and from k to k."""

    @intrinsic
    def tile(context, like, a, a_step, a_next, panel, c, c_step, depth, add):
        real = ir.FloatType() if like == types.float32 else ir.DoubleType()
        size = 4 if like == types.float32 else 8

        def generate(context, builder, signature, arguments):
            _write_tile(builder, rows, real, size, *arguments[1:])
            return context.get_dummy_value()

        index = types.intp
        return types.void(like, *[index] * 7, types.boolean), generate

    return tile


def _write_tile(builder, rows, real, size, a, a_step, a_next, panel, c, c_step, depth, add):
    lanes = _VECTOR // size
    vector = ir.VectorType(real, lanes)
    name = f"llvm.fmuladd.v{lanes}f{8 * size}"
    multiply_add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
    cells = [(row, half) for row in range(rows) for half in range(2)]

    def number(value):
        return ir.Constant(_INDEX, value)

    def pointer(base, offset, kind):
        return builder.bitcast(builder.gep(base, [offset]), kind.as_pointer())

    def load(base, offset, kind):
        loaded = builder.load(pointer(base, offset, kind))
        loaded.align = size
        return loaded

    def rows_from(address, step):
        bases = [builder.inttoptr(address, _BYTE.as_pointer())]
        for _ in range(rows - 1):
            bases.append(builder.gep(bases[-1], [step]))
        return bases

    a_rows, c_rows = rows_from(a, a_step), rows_from(c, c_step)
    panel = builder.inttoptr(panel, _BYTE.as_pointer())
    entry = builder.block
    loop, done, adding, storing = (builder.append_basic_block(name) for name in ("loop", "done", "adding", "storing"))
    builder.branch(loop)

    builder.position_at_end(loop)
    k = builder.phi(_INDEX)
    k.add_incoming(number(0), entry)
    sums = {cell: builder.phi(vector) for cell in cells}
    line = builder.gep(panel, [builder.mul(k, number(2 * _VECTOR))])
    at = builder.mul(k, a_next)
    weights = [load(line, number(half * _VECTOR), vector) for half in range(2)]
    undefined, zeros = ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(_LANE, lanes), [0] * lanes)
    tiles_written = {}
    for row in range(rows):
        scalar = builder.insert_element(undefined, load(a_rows[row], at, real), ir.Constant(_LANE, 0))
        spread = builder.shuffle_vector(scalar, undefined, zeros)
        for half in range(2):
            tiles_written[row, half] = builder.call(multiply_add, [spread, weights[half], sums[row, half]])
    for cell in cells:
        sums[cell].add_incoming(ir.Constant(vector, [0.0] * lanes), entry)
        sums[cell].add_incoming(tiles_written[cell], loop)
    following = builder.add(k, number(1))
    k.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, done)

    builder.position_at_end(done)
    builder.cbranch(add, adding, storing)
    builder.position_at_end(adding)
    partial_sums = {(row, half): load(c_rows[row], number(half * _VECTOR), vector) for row, half in cells}
    added = {cell: builder.fadd(partial_sums[cell], tiles_written[cell]) for cell in cells}
    builder.branch(storing)
    builder.position_at_end(storing)
    results = {cell: builder.phi(vector) for cell in cells}
    for cell, result in results.items():
        result.add_incoming(tiles_written[cell], done)
        result.add_incoming(added[cell], adding)
    for (row, half), result in results.items():
        builder.store(result, pointer(c_rows[row], number(half * _VECTOR), vector)).align = size


_tile_of_many, _tile_of_4, _tile_of_2, _tile_of_1 = (_make_tile(rows) for rows in (_ROWS, 4, 2, 1))


@intrinsic
def _copy_line(context, like, source, target):
    """WIDTH elements from one address to another."""

    def generate(context, builder, signature, arguments):
        vector = ir.VectorType(_BYTE, _VECTOR)
        for half in range(2):
            places = [builder.add(address, ir.Constant(_INDEX, half * _VECTOR)) for address in arguments[1:]]
            source, target = (builder.inttoptr(place, vector.as_pointer()) for place in places)
            loaded = builder.load(source)
            loaded.align = 1
            builder.store(loaded, target).align = 1
        return context.get_dummy_value()

    return types.void(like, types.intp, types.intp), generate


@intrinsic
def _transpose_square(context, like, source, source_step, target, target_step):
    """As many rows as a vector has lanes, of as many elements each, from one address to another as columns; steps are bytes from row to row."""
    real, size = (ir.FloatType(), 4) if like == types.float32 else (ir.DoubleType(), 8)
    lanes = _VECTOR // size
    vector = ir.VectorType(real, lanes)

    def generate(context, builder, signature, arguments):
        source, source_step, target, target_step = arguments[1:]

        def pointer(address, step, row):
            place = builder.add(address, builder.mul(step, ir.Constant(_INDEX, row)))
            return builder.inttoptr(place, vector.as_pointer())

        lines = []
        for row in range(lanes):
            lines.append(builder.load(pointer(source, source_step, row)))
            lines[-1].align = size
        # Rows r and r + lanes / 2 are merged, element by element, into rows 2 r and 2 r + 1, as often as lanes has bits: a perfect shuffle.
        low = [half * lanes + lane for lane in range(lanes // 2) for half in range(2)]
        masks = [ir.Constant(ir.VectorType(_LANE, lanes), [lane + add for lane in low]) for add in (0, lanes // 2)]
        for _ in range(lanes.bit_length() - 1):
            pairs = zip(lines[: lanes // 2], lines[lanes // 2 :])
            lines = [builder.shuffle_vector(*pair, mask) for pair in pairs for mask in masks]
        for row, line in enumerate(lines):
            builder.store(line, pointer(target, target_step, row)).align = size
        return context.get_dummy_value()

    return types.void(like, types.intp, types.intp, types.intp, types.intp), generate


@compiled
def product(like, a, a_step, panels, c, c_step, rows, add):
    """c (+)= a @ the matrix in `panels` (count, depth, WIDTH); c has room for count * WIDTH columns.

    Args:
        like: a number of the dtype.
        a, c: addresses of the first elements; `a_step`, `c_step` are bytes from row to row.
        add: to what is in c.
    """
    count, depth, width = panels.shape
    size = panels.itemsize
    for first in range(0, depth, _DEPTH):
        deep = min(depth - first, _DEPTH)
        onto = add or first > 0
        a_now = a + first * size
        for place in range(count):
            panel = panels.ctypes.data + (place * depth + first) * width * size
            c_now = c + place * width * size
            _panel_product(like, a_now, a_step, size, panel, c_now, c_step, rows, deep, onto)


@compiled
def _panel_product(like, a, a_step, a_next, panel, c, c_step, rows, depth, add):
    """c (+)= a @ one panel."""
    row = 0
    while row + _ROWS <= rows:
        _tile_of_many(like, a + row * a_step, a_step, a_next, panel, c + row * c_step, c_step, depth, add)
        row += _ROWS
    while row + 4 <= rows:
        _tile_of_4(like, a + row * a_step, a_step, a_next, panel, c + row * c_step, c_step, depth, add)
        row += 4
    if row + 2 <= rows:
        _tile_of_2(like, a + row * a_step, a_step, a_next, panel, c + row * c_step, c_step, depth, add)
        row += 2
    if row < rows:
        _tile_of_1(like, a + row * a_step, a_step, a_next, panel, c + row * c_step, c_step, depth, add)


@compiled
def columns_product(a, b, c, start, stop, shift):
    """c[shift + start : shift + stop] = a[:, start:stop].T @ b for C-contiguous matrices of at least one row."""
    depth, columns = b.shape
    size, like = a.itemsize, a.dtype.type(0)
    width = 2 * _VECTOR // size
    panel, rest = np.empty((_TOKENS, width), a.dtype), np.empty((stop - start, width), a.dtype)
    a_step, c_step = a.shape[1] * size, columns * size
    whole = columns // width * width
    for first in range(0, depth, _TOKENS):
        deep = min(depth - first, _TOKENS)
        a_now = a.ctypes.data + first * a_step + start * size
        for column in range(0, columns, width):
            filled = min(width, columns - column)
            above, below = b.ctypes.data + (first * columns + column) * size, panel.ctypes.data
            if filled == width:
                for k in range(deep):
                    _copy_line(like, above + k * c_step, below + k * width * size)
                c_now, step = c.ctypes.data + (shift + start) * c_step + column * size, c_step
            else:
                for k in range(deep):
                    for j in range(width):
                        panel[k, j] = b[first + k, column + j] if j < filled else a.dtype.type(0)
                c_now, step = rest.ctypes.data, width * size
            _panel_product(like, a_now, size, a_step, below, c_now, step, stop - start, deep, first > 0)
    for row in range(stop - start):
        for j in range(columns - whole):
            c[shift + start + row, whole + j] = rest[row, j]


def panels_of(matrix, transposed):
    """A C-contiguous matrix (K, N), or with `transposed` (N, K), as panels (ceil(N / WIDTH), K, WIDTH), zeros beyond N."""
    depth, columns = matrix.shape[::-1] if transposed else matrix.shape
    width = 2 * _VECTOR // matrix.itemsize
    panels = buffers.empty((-(-columns // width), depth, width), matrix.dtype)
    # A quarter of the elements: starting threads must not cost more than the copy.
    as_panels(matrix, panels, transposed, count=panels.shape[0], work=matrix.size // 4)
    return panels


@chunked(noalias=True)
def as_panels(matrix, panels, transposed, start, stop):
    depth, width = panels.shape[1:]
    columns = matrix.shape[0] if transposed else matrix.shape[1]
    for place in range(start, stop):
        first = place * width
        filled = min(columns - first, width)
        panel = panels[place].reshape(-1)
        if filled < width:
            for index in range(panel.size):
                panel[index] = 0
        like, size = matrix.dtype.type(0), matrix.itemsize
        if transposed:
            lanes = width // 2
            columns_whole, depth_whole = filled // lanes * lanes, depth // lanes * lanes
            for column in range(0, columns_whole, lanes):
                above = matrix.ctypes.data + (first + column) * depth * size
                below = panel.ctypes.data + column * size
                for k in range(0, depth_whole, lanes):
                    _transpose_square(like, above + k * size, depth * size, below + k * width * size, width * size)
            for column in range(filled):
                row = matrix[first + column]
                for k in range(depth_whole if column < columns_whole else 0, depth):
                    panel[k * width + column] = row[k]
        else:
            above, below = matrix.ctypes.data + first * size, panel.ctypes.data
            for k in range(depth):
                if filled == width:
                    _copy_line(like, above + k * columns * size, below + k * width * size)
                else:
                    for column in range(filled):
                        panel[k * width + column] = matrix[k, first + column]


def rows_product(a, panels, columns):
    """a (rows, K) @ the matrix in `panels`, as a fresh array (rows, columns)."""
    rows, depth = a.shape
    result = buffers.empty((rows, columns), a.dtype)
    if not depth:
        result[...] = 0
        return result
    # Sixteen multiplications in registers count as one simple operation: a thread gets 10 us of them or more.
    row_blocks(a, panels, result, count=-(-rows // BLOCK), work=rows * depth * columns // 16)
    return result


@chunked(noalias=True)
def row_blocks(a, panels, c, start, stop):
    product_of_rows(a, panels, c, start * BLOCK, min(stop * BLOCK, a.shape[0]), False)


@compiled
def product_of_rows(a, panels, c, first, last, add):
    """c[first:last] (+)= a[first:last] @ the matrix in `panels`, in the calling thread; `a` and `c` are C-contiguous."""
    depth, width = panels.shape[1:]
    columns, size, like = c.shape[1], a.itemsize, panels.dtype.type(0)
    whole = columns // width
    rest = np.empty((BLOCK, width), panels.dtype)
    for top in range(first, last, BLOCK):
        rows = min(last - top, BLOCK)
        a_now, c_now = a.ctypes.data + top * depth * size, c.ctypes.data + top * columns * size
        if whole:
            product(like, a_now, depth * size, panels[:whole], c_now, columns * size, rows, add)
        if whole * width < columns:
            product(like, a_now, depth * size, panels[whole:], rest.ctypes.data, width * size, rows, False)
            for row in range(rows):
                for column in range(whole * width, columns):
                    before = c[top + row, column] if add else like
                    c[top + row, column] = before + rest[row, column - whole * width]
