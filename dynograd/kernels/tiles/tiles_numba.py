"""Register tiles: small blocks of products whose sums stay in vector registers, as intrinsics for compiled kernels.

LLVM's vectoriser does not find these forms, so they are written as LLVM vectors here; each tile becomes one function of the
machine code, of which a kernel holds one copy. All addresses, offsets and steps are integers in bytes, extents are run-time
values, and `like` is any array of the elements' dtype (float32 or float64). Importing this loads Numba.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core import errors as numba_errors
from numba.extending import intrinsic

from dynograd.base.generated_sources import run_source
from dynograd.kernels.build.processors import Processor, processor

_INT = ir.IntType(64)
_BYTE = ir.IntType(8)
_POINTER = ir.PointerType()


def vector_bytes(target: Processor) -> tuple[int, int]:
    """Bytes of a vector and the number of vector registers of a processor."""
    if target.has("avx512vl"):
        return target.vector or 64, 32
    if target.has("avx"):
        return 32, 16
    return 16, 16


MACHINE = BYTES, _REGISTERS = vector_bytes(processor())

# Rows of a tile -> its vectors: as many sums as fit beside the vectors that are multiplied. Each step of a product tile reads
# one vector per column and one scalar per row, of a dot tile one vector for both.
if _REGISTERS >= 32:
    PRODUCT_TILES = {8: 3, 6: 4, 4: 6, 2: 8, 1: 8}
    DOT_TILES = {6: 4, 4: 6, 2: 8, 1: 8}
else:
    PRODUCT_TILES = {6: 2, 4: 3, 2: 4, 1: 6}
    DOT_TILES = {4: 2, 2: 4, 1: 6}


def product_tile(rows):
    """The intrinsic `tile(like, x, steps, count, w, places, out, targets, out_step, bias)` with so many rows.

    For its rows r and vectors v: the sum over k < count of w[k * rows + r] times the vector at x + places[v] + steps[k], plus
    bias[r], goes to out + r * out_step + targets[v]; where `bias` is 0 the sum is added to what is there. `steps`, `places`,
    `targets` are addresses of int64 tables; count >= 1.
    """
    vectors = PRODUCT_TILES[rows]

    def write(function, real, size, lanes):
        b, (x, steps, count, w, places, out, targets, out_step, bias) = _body(function)
        vector = ir.VectorType(real, lanes)
        fma = _fma(function, vector)
        pointers = [_at(b, x, _load_int(b, places, 8 * v)) for v in range(vectors)]
        bases = [b.add(out, _load_int(b, targets, 8 * v)) for v in range(vectors)]
        end = b.add(steps, b.shl(count, _number(3)))
        anew, on, loop, after = (b.append_basic_block(name) for name in ("anew", "on", "loop", "after"))
        b.cbranch(b.icmp_signed("!=", bias, _number(0)), anew, on)
        b.position_at_end(anew)
        biases = [_splat(b, _load(b, _at(b, bias, r * size), real), vector) for r in range(rows)]
        b.branch(loop)
        b.position_at_end(on)
        before = [
            [_load(b, _at(b, bases[v], b.mul(out_step, _number(r))), vector) for v in range(vectors)]
            for r in range(rows)
        ]
        b.branch(loop)
        b.position_at_end(loop)
        step, weight = b.phi(_INT), b.phi(_INT)
        sums = [[b.phi(vector) for _ in range(vectors)] for _ in range(rows)]
        for block in (anew, on):
            step.add_incoming(steps, block)
            weight.add_incoming(w, block)
        offset = _load_int(b, step, 0)
        weights = _at(b, weight, 0)
        columns = [_load(b, _gep(b, pointer, offset), vector) for pointer in pointers]
        values = []
        for r in range(rows):
            factor = _splat(b, _load(b, _gep(b, weights, _number(r * size)), real), vector)
            values.append([b.call(fma, [factor, columns[v], sums[r][v]]) for v in range(vectors)])
            for v in range(vectors):
                sums[r][v].add_incoming(biases[r], anew)
                sums[r][v].add_incoming(before[r][v], on)
                sums[r][v].add_incoming(values[r][v], loop)
        following = b.add(step, _number(8))
        step.add_incoming(following, loop)
        weight.add_incoming(b.add(weight, _number(rows * size)), loop)
        _keep_rolled(b.cbranch(b.icmp_unsigned("<", following, end), loop, after))
        b.position_at_end(after)
        for r in range(rows):
            for v in range(vectors):
                b.store(values[r][v], _at(b, bases[v], b.mul(out_step, _number(r))), align=size)
        b.ret_void()

    return _tile(f"product_{rows}_{vectors}", 9, write)


def dot_tile(rows):
    """The intrinsic `tile(like, g, g_step, g_places, x, x_places, full, count, masks, taps, out, out_step)` with so many rows.

    For its rows r and columns c: the sum over the places i < count and lanes of the vectors at g + r * g_step + g_places[i] and
    x + taps[c] + x_places[i] is added to the element at out + r * out_step + c. From place `full` on, only lanes whose element
    of `masks` (one vector of elements per such place) is not 0 count.
    """
    columns = DOT_TILES[rows]

    def write(function, real, size, lanes):
        b, (g, g_step, g_places, x, x_places, full, count, masks, taps, out, out_step) = _body(function)
        vector = ir.VectorType(real, lanes)
        fma = _fma(function, vector)
        zero = ir.Constant(vector, [0.0] * lanes)
        lines = [_at(b, g, b.mul(g_step, _number(r))) for r in range(rows)]
        others = [_at(b, x, _load_int(b, taps, 8 * c)) for c in range(columns)]
        sums = [[zero] * columns for _ in range(rows)]
        sums = _dots(b, fma, vector, lines, others, g_places, x_places, _number(0), full, None, sums)
        sums = _dots(b, fma, vector, lines, others, g_places, x_places, full, count, masks, sums)
        for r in range(rows):
            c = 0
            while c < columns:
                many = next(n for n in (4, 2, 1) if n <= min(columns - c, lanes if size == 4 else 2))
                totals = _add_up(b, sums[r][c : c + many])
                target = _at(b, out, b.add(b.mul(out_step, _number(r)), _number(c * size)))
                b.store(b.fadd(_load(b, target, totals.type), totals), target, align=size)
                c += many
        b.ret_void()

    return _tile(f"dot_{rows}_{columns}", 11, write)


def _add_up(b, vectors):
    """The sum of each of 1, 2 or 4 vectors, side by side in one vector: three shuffles for each two, then halves."""
    quarter = 16 // (
        4 if vectors[0].type.element == ir.FloatType() else 8
    )  # lanes of 16 bytes, inside which shuffles are cheap
    lanes = vectors[0].type.count
    width = 1
    while len(vectors) > 1:
        low = [
            j % quarter // (2 * width) * width + j % width + (lanes if j // width % 2 else 0) for j in range(quarter)
        ]
        high = [j + quarter // 2 for j in low]
        vectors = [
            b.fadd(_shuffle(b, vector, other, low, quarter), _shuffle(b, vector, other, high, quarter))
            for vector, other in zip(vectors[::2], vectors[1::2], strict=True)
        ]
        width *= 2
    total = vectors[0]
    while total.type.count > width:
        half = total.type.count // 2
        parts = [_pick(b, total, range(start, start + half)) for start in (0, half)]
        total = b.fadd(*parts)
    return total


def _shuffle(b, first, other, pattern, quarter):
    """`pattern` in each 16 bytes of two vectors."""
    lanes = first.type.count
    places = [start + j for start in range(0, lanes, quarter) for j in pattern]
    return b.shuffle_vector(first, other, ir.Constant(ir.VectorType(ir.IntType(32), lanes), places))


def _pick(b, vector, places):
    places = list(places)
    index = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places)
    return b.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), index)


def _dots(b, fma, vector, lines, others, g_places, x_places, begin, end, masks, sums):
    """The loop over places of a dot tile from `begin` to `end`, which may be empty; the sums after it."""
    lanes, size = vector.count, 4 if vector.element == ir.FloatType() else 8
    before, loop, after = b.block, b.append_basic_block("loop"), b.append_basic_block("after")
    b.cbranch(b.icmp_signed("<", begin, end), loop, after)
    b.position_at_end(loop)
    place = b.phi(_INT)
    place.add_incoming(begin, before)
    running = [[b.phi(vector) for _ in row] for row in sums]
    at = b.shl(place, _number(3))
    g_at, x_at = _load_int(b, b.add(g_places, at), 0), _load_int(b, b.add(x_places, at), 0)
    if masks is not None:
        mask = _load(b, _at(b, masks, b.mul(b.sub(place, begin), _number(lanes * size))), vector)
        present = b.fcmp_unordered("!=", mask, ir.Constant(vector, [0.0] * lanes))

    def read(pointer, offset):
        result = _load(b, _gep(b, pointer, offset), vector)
        return result if masks is None else b.select(present, result, ir.Constant(vector, [0.0] * lanes))

    columns = [read(pointer, x_at) for pointer in others]
    listed = []
    for line, row in zip(lines, running, strict=True):
        left = read(line, g_at)
        listed.append([b.call(fma, [left, right, total]) for right, total in zip(columns, row, strict=True)])
    following = b.add(place, _number(1))
    place.add_incoming(following, loop)
    _keep_rolled(b.cbranch(b.icmp_signed("<", following, end), loop, after))
    b.position_at_end(after)
    results = []
    for old, phis, new in zip(sums, running, listed, strict=True):
        results.append([])
        for first, phi, last in zip(old, phis, new, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(last, loop)
            result = b.phi(vector)
            result.add_incoming(first, before)
            result.add_incoming(last, loop)
            results[-1].append(result)
    return results


def _write_lines(function, real, size, lanes):
    b, (target, target_step, source, source_step, lines, count) = _body(function)
    vector = ir.VectorType(real, lanes)
    line, many, wide, tail, few, narrow, following, done = (
        b.append_basic_block(name) for name in ("line", "many", "wide", "tail", "few", "narrow", "following", "done")
    )
    before = b.block
    last = b.mul(b.sub(count, _number(lanes)), _number(size))
    end = b.mul(count, _number(size))
    b.cbranch(b.and_(b.icmp_signed(">", lines, _number(0)), b.icmp_signed(">", count, _number(0))), line, done)
    b.position_at_end(line)
    left, to, come = b.phi(_INT), b.phi(_INT), b.phi(_INT)
    b.cbranch(b.icmp_signed(">=", count, _number(lanes)), many, few)
    b.position_at_end(many)
    b.cbranch(b.icmp_signed(">", last, _number(0)), wide, tail)
    _run(b, wide, many, tail, _number(0), last, lanes * size, lambda at: _copy(b, to, come, at, vector, size))
    b.position_at_end(tail)
    _copy(b, to, come, last, vector, size)
    b.branch(following)
    b.position_at_end(few)
    b.branch(narrow)
    _run(b, narrow, few, following, _number(0), end, size, lambda at: _copy(b, to, come, at, real, size))
    b.position_at_end(following)
    fewer = b.sub(left, _number(1))
    for phi, first, step in ((left, lines, None), (to, target, target_step), (come, source, source_step)):
        phi.add_incoming(first, before)
        phi.add_incoming(fewer if step is None else b.add(phi, step), following)
    b.cbranch(b.icmp_signed(">", fewer, _number(0)), line, done)
    b.position_at_end(done)
    b.ret_void()


def _run(b, block, before, after, begin, end, step, body):
    """A loop in `block` that calls `body` with begin, begin + step, ... below end, at least once."""
    b.position_at_end(block)
    at = b.phi(_INT)
    at.add_incoming(begin, before)
    body(at)
    following = b.add(at, _number(step))
    at.add_incoming(following, block)
    b.cbranch(b.icmp_signed("<", following, end), block, after)


def _copy(b, to, come, at, kind, size):
    b.store(_load(b, _at(b, come, at), kind), _at(b, to, at), align=size)


def _write_halves(function, real, size, lanes):
    b, (target, source, count) = _body(function)
    vector, index = ir.VectorType(real, lanes), ir.VectorType(ir.IntType(32), lanes)
    # the second vector begins a place early, so that nothing is read beyond the last element that is wanted
    order = ir.Constant(index, [2 * j if 2 * j < lanes else 2 * j + 1 for j in range(lanes)])

    def take(at):
        come = b.add(source, b.shl(at, _number(1)))
        first, second = _load(b, _at(b, come, 0), vector), _load(b, _at(b, come, (lanes - 1) * size), vector)
        b.store(b.shuffle_vector(first, second, order), _at(b, target, at), align=size)

    last = b.mul(b.sub(count, _number(lanes)), _number(size))
    before, wide, tail = b.block, b.append_basic_block("wide"), b.append_basic_block("tail")
    b.cbranch(b.icmp_signed(">", last, _number(0)), wide, tail)
    _run(b, wide, before, tail, _number(0), last, lanes * size, take)
    b.position_at_end(tail)
    take(last)
    b.ret_void()


def _write_strided(function, real, size, lanes):
    b, (target, target_step, source, source_step, count) = _body(function)
    loop, done = b.append_basic_block("loop"), b.append_basic_block("done")
    before = b.block
    b.cbranch(b.icmp_signed(">", count, _number(0)), loop, done)
    b.position_at_end(loop)
    left, to, come = b.phi(_INT), b.phi(_INT), b.phi(_INT)
    for phi, first in ((left, count), (to, target), (come, source)):
        phi.add_incoming(first, before)
    b.store(_load(b, _at(b, come, 0), real), _at(b, to, 0), align=size)
    fewer = b.sub(left, _number(1))
    left.add_incoming(fewer, loop)
    to.add_incoming(b.add(to, target_step), loop)
    come.add_incoming(b.add(come, source_step), loop)
    b.cbranch(b.icmp_signed(">", fewer, _number(0)), loop, done)
    b.position_at_end(done)
    b.ret_void()


def _write_zeros(function, real, size, lanes):
    b, (target, count) = _body(function)
    fill = cgutils.get_or_insert_function(
        function.module, ir.FunctionType(ir.VoidType(), [_POINTER, _BYTE, _INT, ir.IntType(1)]), "llvm.memset.p0.i64"
    )
    b.call(fill, [_at(b, target, 0), ir.Constant(_BYTE, 0), b.mul(count, _number(size)), ir.Constant(ir.IntType(1), 0)])
    b.ret_void()


def _write_transpose(function, real, size, lanes):
    b, (target, target_step, source, source_step) = _body(function)
    vector, index = ir.VectorType(real, lanes), ir.VectorType(ir.IntType(32), lanes)
    lines = [_load(b, _at(b, source, b.mul(source_step, _number(i))), vector) for i in range(lanes)]
    bit = 1
    while bit < lanes:
        for i in range(lanes):
            if not i & bit:
                upper, lower = lines[i], lines[i | bit]
                first = [j if not j & bit else lanes + (j ^ bit) for j in range(lanes)]
                second = [j | bit if not j & bit else lanes + j for j in range(lanes)]
                lines[i] = b.shuffle_vector(upper, lower, ir.Constant(index, first))
                lines[i | bit] = b.shuffle_vector(upper, lower, ir.Constant(index, second))
        bit *= 2
    for i in range(lanes):
        b.store(lines[i], _at(b, target, b.mul(target_step, _number(i))), align=size)
    b.ret_void()


@intrinsic
def plain(context):
    """In the body of a kernel: LLVM neither unrolls nor vectorises nor inlines it. What is fast is in the tiles that it calls."""

    def generate(context, builder, signature, arguments):
        builder.function.attributes.add("minsize")
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), generate


# --- how intrinsics are made ------------------------------------------------------------------------------------------------


def _tile(name, arity, write, width=BYTES):
    """An intrinsic on `like` and `arity` integers whose body is a function of its own in the machine code, for vectors of `width` bytes."""
    integers = ", ".join(f"a{i}" for i in range(arity))

    def typed(like):
        real = getattr(like, "dtype", None)
        if real not in (types.float32, types.float64):
            raise numba_errors.TypingError(f"{name}: expected an array of float32 or float64, got {like}")

        def generate(context, builder, signature, arguments):
            kind, size = (ir.FloatType(), 4) if real == types.float32 else (ir.DoubleType(), 8)
            symbol = f"dynograd_{name}_{size}_{width}"
            function = builder.module.globals.get(symbol)
            if function is None:
                function = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), [_INT] * arity), symbol)
                function.linkage = "internal"
                function.attributes.add("noinline")
                write(function, kind, size, width // size)
            builder.call(function, arguments[1:])
            return context.get_dummy_value()

        return types.void(like, *[types.int64] * arity), generate

    # intrinsic() reads the names and number of arguments from the function itself
    source = f"def {name}(context, like, {integers}):\n    return typed(like)\n"
    return intrinsic(run_source(source, f"tile {name}", {"typed": typed, "__name__": __name__})[name])


def _keep_rolled(branch):
    """Tells LLVM not to unroll the loop that ends here: it would run out of registers (dot tiles are then half as fast)."""
    module = branch.parent.function.module
    option = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    loop = ir.values.MDValue(module, [option], name=str(len(module.metadata)))
    loop.operands = (loop, option)  # the first operand of a loop's node is itself
    branch.set_metadata("llvm.loop", loop)


def _body(function):
    return ir.IRBuilder(function.append_basic_block("entry")), function.args


def _number(value):
    return ir.Constant(_INT, value)


def _at(b, address, offset):
    offset = _number(offset) if isinstance(offset, int) else offset
    return b.inttoptr(b.add(address, offset), _POINTER)


def _gep(b, pointer, offset):
    return b.gep(pointer, [offset], source_etype=_BYTE)


def _load(b, pointer, kind):
    element = kind.element if isinstance(kind, ir.VectorType) else kind
    return b.load(pointer, align=4 if element == ir.FloatType() else 8, typ=kind)


def _load_int(b, address, offset):
    return b.load(_at(b, address, offset), align=8, typ=_INT)


def _splat(b, scalar, vector):
    first = b.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return b.shuffle_vector(first, ir.Constant(vector, ir.Undefined), lanes)


def _fma(function, vector):
    name = f"llvm.fmuladd.v{vector.count}{'f32' if vector.element == ir.FloatType() else 'f64'}"
    return cgutils.get_or_insert_function(function.module, ir.FunctionType(vector, [vector] * 3), name)


# copy_lines(like, target, step, source, step, lines, count): lines of `count` neighbouring elements
copy_lines = _tile("copy_lines", 6, _write_lines)
# copy_halves(like, target, source, count): every second element; count is a vector or more
copy_halves = _tile("copy_halves", 3, _write_halves)
copy_strided = _tile("copy_strided", 5, _write_strided)  # copy_strided(like, target, step, source, step, count)
transpose_lines = _tile(
    "transpose_lines", 4, _write_transpose
)  # BYTES of as many lines: (like, target, step, source, step)
zero_line = _tile("zero_line", 2, _write_zeros)  # zero_line(like, target, count)
