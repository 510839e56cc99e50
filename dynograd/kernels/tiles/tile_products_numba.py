"""Matrix products from register tiles of our own: `products32` and `products64`, by address.

Every element of a result is one chain of fused multiply-adds over k in ascending order, that begins with what is already there (0, a
bias, the matrix added to), whatever tile it falls into. So its bits depend neither on how many rows and columns there are nor on how the
work is cut. A tile of 12 rows by 2 vectors of 64 bytes stays in registers (6 by 1 where there are 16 short ones; LLVM cuts the vectors
to what the processor has) and runs at the processor's peak; blocks of both operands are packed so that it reads them in order.
Importing this loads Numba.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dynograd.kernels.build.addresses_numba import address_of, call, vector32, vector64, word_at
from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.build.processors import processor

_INT, _INT32 = ir.IntType(64), ir.IntType(32)
_VECTOR_BYTES = 64  # of the widest registers; LLVM makes two of one where they are narrower

# Of 32 registers of 64 bytes, 24 hold the sums of 12 rows by 2 vectors; of 16 with 32 bytes, 12 those of 6 rows by 1 vector.
ROWS, _VECTORS = (12, 2) if processor().has("avx512f") else (6, 1)
_SOME = 4  # rows that are left over are taken by so many, then one by one
COLUMNS = _VECTORS * 16  # of float32; a multiple of the width for float64
_STEPS = 256  # a panel of b, 256 steps by 128 bytes, stays in the level-1 cache
_BLOCK = 1024  # columns of b that are packed at once: 1 MiB
_STRIPE = 384  # 384 rows by 256 steps of a, 384 KiB, stay in the level-2 cache


ADD_PRODUCTS, TILES, PACK_ROWS, PACK_COLUMNS = (
    0,
    8,
    16,
    24,
)  # where each one's address stands in the table of `functions`


class Products(NamedTuple):
    """The compiled functions of one floating type. Kernels call the large ones by address, so that none compiles them again."""

    add_products: Any
    scratch_size: Any
    pack_rows: Any
    pack_columns: Any
    tiles: Any
    width: int

    def functions(self) -> int:
        """The address of their addresses, which stay where they are: what `add_products` is given first, too."""
        key = id(self.add_products)
        if key not in _places:
            whole, flag = types.int64, types.boolean
            functions = (
                (self.add_products, (whole, flag, flag, *(whole,) * 12)),
                (self.tiles, (flag, *(whole,) * 14)),
                (self.pack_rows, (whole, flag, *(whole,) * 4)),
                (self.pack_columns, (whole, flag, *(whole,) * 4)),
            )
            table = np.array([address_of(function, kinds) for function, kinds in functions], np.int64)
            # Of several threads that come here at once one table stays: another would be gone while kernels have its address.
            _places[key] = int(_tables.setdefault(key, table).ctypes.data)
        return _places[key]


_tables: dict[int, Any] = {}
_places: dict[int, int] = {}


class _Kind:
    """A floating type and its vector of 64 bytes."""

    def __init__(self, scalar, real, element, suffix):
        self.scalar, self.real, self.element = scalar, real, element
        self.size = scalar.bitwidth // 8
        self.lanes = _VECTOR_BYTES // self.size
        self.vector = ir.VectorType(element, self.lanes)
        self.multiply_add = f"llvm.fmuladd.v{self.lanes}{suffix}"

    def load(self, builder, address, kind):
        result = builder.load(builder.inttoptr(address, kind.as_pointer()))
        result.align = self.size
        return result

    def store(self, builder, value, address):
        builder.store(value, builder.inttoptr(address, self.vector.as_pointer())).align = self.size


def _times(builder, value, number):
    return builder.mul(value, ir.Constant(_INT, number))


def _plus(builder, value, number):
    return builder.add(value, ir.Constant(_INT, number)) if number else value


def _make_tile(kind, rows, vectors):
    """`tile(a, a_row, a_step, b, b_step, begin, begin_row, c, c_row, k)`: c = begin + a @ b on a tile of `rows` by `vectors` vectors.

    Addresses and strides in bytes: element (p, i) of a lies at a + p * a_row + i * a_step, row i of b at b + i * b_step.
    """

    @intrinsic
    def tile(typing_context, a, a_row, a_step, b, b_step, begin, begin_row, c, c_row, k):
        def generate(context, builder, signature, arguments):
            a, a_row, a_step, b, b_step, begin, begin_row, c, c_row, k = arguments
            module = builder.module
            fma = module.globals.get(kind.multiply_add) or ir.Function(
                module, ir.FunctionType(kind.vector, [kind.vector] * 3), kind.multiply_add
            )
            places = [(p, q) for p in range(rows) for q in range(vectors)]

            def corner(base, row, p, q):
                return _plus(builder, builder.add(base, _times(builder, row, p)), q * _VECTOR_BYTES)

            first = {(p, q): kind.load(builder, corner(begin, begin_row, p, q), kind.vector) for p, q in places}
            offsets = [_times(builder, a_row, p) for p in range(rows)]
            before = builder.block
            body, done = builder.append_basic_block("steps"), builder.append_basic_block("done")
            builder.cbranch(builder.icmp_signed(">", k, ir.Constant(_INT, 0)), body, done)

            builder.position_at_end(body)
            step, left, right = (builder.phi(_INT) for _ in range(3))
            sums = {place: builder.phi(kind.vector) for place in places}
            undefined = ir.Constant(kind.vector, ir.Undefined)
            everywhere = ir.Constant(ir.VectorType(_INT32, kind.lanes), [0] * kind.lanes)
            columns = [
                kind.load(builder, _plus(builder, right, q * _VECTOR_BYTES), kind.vector) for q in range(vectors)
            ]
            tiles_written = {}
            for p in range(rows):
                scalar = kind.load(builder, builder.add(left, offsets[p]), kind.element)
                spread = builder.insert_element(undefined, scalar, ir.Constant(_INT32, 0))
                spread = builder.shuffle_vector(spread, undefined, everywhere)
                for q in range(vectors):
                    tiles_written[p, q] = builder.call(fma, [spread, columns[q], sums[p, q]])
            following = _plus(builder, step, 1), builder.add(left, a_step), builder.add(right, b_step)
            for phi, start, after in zip((step, left, right), (ir.Constant(_INT, 0), a, b), following, strict=True):
                phi.add_incoming(start, before)
                phi.add_incoming(after, body)
            for place in places:
                sums[place].add_incoming(first[place], before)
                sums[place].add_incoming(tiles_written[place], body)
            builder.cbranch(builder.icmp_signed("<", following[0], k), body, done)

            builder.position_at_end(done)
            results = {place: builder.phi(kind.vector) for place in places}
            for place, result in results.items():
                result.add_incoming(first[place], before)
                result.add_incoming(tiles_written[place], body)
            for (p, q), result in results.items():
                kind.store(builder, result, corner(c, c_row, p, q))
            return context.get_dummy_value()

        return types.void(*(types.int64,) * 10), generate

    return tile


def _make_transpose(kind):
    """`transpose(a, a_row, valid, c, c_row)`: a square block of one vector by one vector; rows from `valid` on repeat the last one."""
    lanes = kind.lanes
    low = [lane // 2 + (lane % 2) * lanes for lane in range(lanes)]
    pairs = [ir.Constant(ir.VectorType(_INT32, lanes), [lane + shift for lane in low]) for shift in (0, lanes // 2)]

    @intrinsic
    def transpose(typing_context, a, a_row, valid, c, c_row):
        def generate(context, builder, signature, arguments):
            a, a_row, valid, c, c_row = arguments
            last = _plus(builder, valid, -1)
            rows = []
            for p in range(lanes):
                number = ir.Constant(_INT, p)
                row = builder.select(builder.icmp_signed("<", number, last), number, last) if p else number
                rows.append(kind.load(builder, builder.add(a, builder.mul(row, a_row)), kind.vector))
            for _ in range(lanes.bit_length() - 1):  # interleaving the halves so often exchanges rows and lanes
                half = lanes // 2
                rows = [builder.shuffle_vector(rows[p], rows[p + half], pair) for p in range(half) for pair in pairs]
            for p in range(lanes):
                kind.store(builder, rows[p], builder.add(c, _times(builder, c_row, p)))
            return context.get_dummy_value()

        return types.void(*(types.int64,) * 5), generate

    return transpose


def _make_copy(kind):
    @intrinsic
    def copy(typing_context, source, target):
        """One vector from address to address."""

        def generate(context, builder, signature, arguments):
            kind.store(builder, kind.load(builder, arguments[0], kind.vector), arguments[1])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return copy


def _make_products(kind):
    """`add_products(...)` for one floating type, and how many elements of scratch memory it wants."""
    rows, some, size, lanes, real = ROWS, _SOME, kind.size, kind.lanes, kind.real
    width = _VECTORS * lanes
    large, middle, small = (_make_tile(kind, count, _VECTORS) for count in (rows, some, 1))
    narrow_large, narrow_middle, narrow_small = (_make_tile(kind, count, 1) for count in (rows, some, 1))
    transpose, copy = _make_transpose(kind), _make_copy(kind)
    vector = vector32 if size == 4 else vector64
    zero = real(0)
    key = f"{kind.scalar} {ROWS} {_VECTORS}"
    groups = (rows + lanes - 1) // lanes

    @compiled(key=key)
    def pack_rows(a, transposed, lda, count, steps, packed):
        """Rows of a in groups of `rows`, each step's elements side by side; those left over follow row by row."""
        whole = count - count % rows
        target = vector(packed, (count + rows) * steps)
        if transposed:
            source = vector(a, (steps - 1) * lda + count)
            for first in range(0, whole, rows):
                if first + groups * lanes <= count:
                    for i in range(steps):
                        for group in range(groups):  # what is written too much is written again by the next step
                            shift = group * lanes
                            copy(
                                a + (i * lda + first + shift) * size, packed + (first * steps + i * rows + shift) * size
                            )
                else:
                    for i in range(steps):
                        for p in range(rows):
                            target[first * steps + i * rows + p] = source[i * lda + first + p]
            for p in range(whole, count):
                for i in range(steps):
                    target[p * steps + i] = source[i * lda + p]
            return
        source = vector(a, (count - 1) * lda + steps)
        regular = steps - steps % lanes
        for first in range(0, whole, rows):
            for start in range(0, regular, lanes):
                for group in range(groups - 1, -1, -1):  # what a group writes too much is written again by the next one
                    transpose(
                        a + ((first + group * lanes) * lda + start) * size,
                        lda * size,
                        rows - group * lanes,
                        packed + ((first * steps) + start * rows + group * lanes) * size,
                        rows * size,
                    )
            for i in range(regular, steps):
                for p in range(rows):
                    target[first * steps + i * rows + p] = source[(first + p) * lda + i]
        for p in range(whole, count):
            for i in range(steps):
                target[p * steps + i] = source[p * lda + i]

    @compiled(key=key)
    def pack_columns(b, transposed, ldb, n, steps, packed):
        """Columns of b in panels of `width`, step by step; what stands beside the matrix in the last one is of no importance."""
        target = vector(packed, (n + width) * steps)
        if transposed:
            source = vector(b, (n - 1) * ldb + steps)
            regular = steps - steps % lanes
            for left in range(0, n, lanes):
                place = left // width * steps * width + left % width
                for start in range(0, regular, lanes):
                    transpose(
                        b + (left * ldb + start) * size,
                        ldb * size,
                        n - left,
                        packed + (place + start * width) * size,
                        width * size,
                    )
                for i in range(regular, steps):
                    for j in range(min(lanes, n - left)):
                        target[place + i * width + j] = source[(left + j) * ldb + i]
            return
        source = vector(b, (steps - 1) * ldb + n)
        whole = n - n % width
        for left in range(0, whole, width):
            for i in range(steps):
                for j in range(left, left + width, lanes):
                    copy(b + (i * ldb + j) * size, packed + (left * (steps - 1) + i * width + j) * size)
        for i in range(steps):
            for j in range(whole, n):
                target[whole * steps + i * width + j - whole] = source[i * ldb + j]

    @compiled(key=key)
    def tiles(
        narrow, a, advance, row, step, rest_row, rest_step, count, panel, b_step, begin, begin_row, c, c_row, steps
    ):
        """One panel of columns under a stripe of rows; `advance` bytes from a row of a to the next, groups have strides of their own."""
        done = 0
        while done + rows <= count:
            at, start, target = a + done * advance, begin + done * begin_row, c + done * c_row
            if narrow:
                narrow_large(at, row, step, panel, b_step, start, begin_row, target, c_row, steps)
            else:
                large(at, row, step, panel, b_step, start, begin_row, target, c_row, steps)
            done += rows
        while done + some <= count:
            at, start, target = a + done * advance, begin + done * begin_row, c + done * c_row
            if narrow:
                narrow_middle(at, rest_row, rest_step, panel, b_step, start, begin_row, target, c_row, steps)
            else:
                middle(at, rest_row, rest_step, panel, b_step, start, begin_row, target, c_row, steps)
            done += some
        while done < count:
            at, start, target = a + done * advance, begin + done * begin_row, c + done * c_row
            if narrow:
                narrow_small(at, rest_row, rest_step, panel, b_step, start, begin_row, target, c_row, steps)
            else:
                small(at, rest_row, rest_step, panel, b_step, start, begin_row, target, c_row, steps)
            done += 1

    @compiled(key=key)
    def scratch_size(m, n, k):
        """How many elements of memory `add_products` wants beside its operands."""
        stripe, steps, block = min(m, _STRIPE), min(k, _STEPS), min(n + width, _BLOCK)
        return stripe * (steps + width) + steps * block + width + 4 * lanes

    @compiled(key=key)
    def add_products(functions, transpose_a, transpose_b, m, n, k, a, lda, b, ldb, begin, begin_row, c, ldc, scratch):
        """c = begin + op(a) @ op(b) by addresses; strides in elements.

        Args:
            functions: see `Products.functions`.
            begin: address of what is added to: c itself, another matrix, a row for all rows (`begin_row` 0), or 0 for zeros.
            scratch: address of memory for `scratch_size(m, n, k)` elements.
        """
        stripe, most = min(m, _STRIPE), min(k, _STEPS)
        zeros = (scratch + _VECTOR_BYTES - 1) // _VECTOR_BYTES * _VECTOR_BYTES  # vectors across cache lines cost double
        edge = zeros + width * size
        panels = edge + stripe * width * size
        packed = panels + most * min(n + width, _BLOCK) * size
        edge_rows = vector(edge, stripe * width)
        nothing = vector(zeros, width)
        for j in range(width):
            nothing[j] = zero
        for block in range(0, n, _BLOCK):
            across = min(_BLOCK, n - block)
            start = 0
            while start < k or start == 0:
                steps = min(_STEPS, k - start)
                source = b + (block * ldb + start if transpose_b else start * ldb + block) * size
                direct = not transpose_b and m <= 4 * rows  # packing would cost more than it saves; so for a
                direct_a = n <= (4 if transpose_a else 2) * width
                if steps > 0:
                    if not direct:
                        call(word_at(functions + PACK_COLUMNS), (source, transpose_b, ldb, across, steps, panels))
                    elif across % lanes:
                        done = across - across % width
                        rest = source + done * size
                        call(word_at(functions + PACK_COLUMNS), (rest, transpose_b, ldb, across - done, steps, panels))
                for top in range(0, m, _STRIPE):
                    count = min(_STRIPE, m - top)
                    corner = a + (start * lda + top if transpose_a else top * lda + start) * size
                    advance, row, step, rest_row, rest_step = steps * size, size, rows * size, steps * size, size
                    if direct_a:
                        row, step = (size, lda * size) if transpose_a else (lda * size, size)
                        advance, rest_row, rest_step = row, row, step
                    else:
                        call(word_at(functions + PACK_ROWS), (corner, transpose_a, lda, count, steps, packed))
                        corner = packed
                    for left in range(0, across, width):
                        columns = min(width, across - left)
                        whole = columns in (width, lanes)
                        panel, b_step = panels + left * steps * size, width * size
                        if direct:
                            panel = panels
                            if whole:
                                panel, b_step = source + left * size, ldb * size
                        goal, goal_row = c + (top * ldc + block + left) * size, ldc
                        first, first_row = goal, goal_row
                        if start == 0:
                            first, first_row = begin + (top * begin_row + block + left) * size, begin_row
                            if begin == 0:
                                first, first_row = zeros, 0
                        target, target_row = goal, goal_row
                        if not whole:
                            rows_there = vector(first, (count - 1) * first_row + columns)
                            for p in range(count):
                                for j in range(columns):
                                    edge_rows[p * width + j] = rows_there[p * first_row + j]
                            first, first_row, target, target_row = edge, width, edge, width
                        call(word_at(functions + TILES), (
                            columns <= lanes, corner, advance, row, step, rest_row, rest_step, count, panel, b_step, first, first_row * size,
                            target, target_row * size, steps,
                        ))  # fmt: skip
                        if not whole:
                            result = vector(goal, (count - 1) * ldc + columns)
                            for p in range(count):
                                for j in range(columns):
                                    result[p * ldc + j] = edge_rows[p * width + j]
                start += _STEPS

    return Products(add_products, scratch_size, pack_rows, pack_columns, tiles, width)


products32 = _make_products(_Kind(types.float32, np.float32, ir.FloatType(), "f32"))
products64 = _make_products(_Kind(types.float64, np.float64, ir.DoubleType(), "f64"))
