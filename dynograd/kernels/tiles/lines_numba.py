"""Sixteen neighbours at a time: loads and stores that are vector instructions whatever the loop around them looks like.

LLVM's loop vectoriser wants some 64 elements a turn, and Numba runs no other; short rows would go element by element.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 16  # elements: of float32 the 64 bytes of a cache line and of the widest vector
AHEAD = 16  # elements ahead of a scattered store that its cache line is asked for


@intrinsic
def copy_line(typingctx, target, into, source, of):  # type: ignore[no-untyped-def]
    """target[into : into + 16] = source[of : of + 16], row-major arrays of one dtype, no bounds checked."""

    def generate(context, builder, signature, args):
        value = _load(context, builder, signature.args[2], args[2], args[3])[0]
        _, place, size = _load(context, builder, signature.args[0], args[0], args[1], only_place=True)
        builder.store(value, place).align = size
        return context.get_dummy_value()

    return types.void(target, into, source, of), generate


@intrinsic
def turn_line(typingctx, target, into, source, of):  # type: ignore[no-untyped-def]
    """target[into : into + 16] = source[of - 15 : of + 1], the last first."""

    def generate(context, builder, signature, args):
        first = builder.sub(args[3], args[3].type(LINE - 1))
        value = _load(context, builder, signature.args[2], args[2], first)[0]
        order = ir.Constant(ir.VectorType(ir.IntType(32), LINE), list(range(LINE))[::-1])
        value = builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), order)
        _, place, size = _load(context, builder, signature.args[0], args[0], args[1], only_place=True)
        builder.store(value, place).align = size
        return context.get_dummy_value()

    return types.void(target, into, source, of), generate


@intrinsic
def fill_line(typingctx, target, into, source, of):  # type: ignore[no-untyped-def]
    """target[into : into + 16] = source[of]."""

    def generate(context, builder, signature, args):
        pointer = builder.gep(context.make_array(signature.args[2])(context, builder, args[2]).data, [args[3]])
        value = builder.load(pointer)
        line = ir.Constant(ir.VectorType(value.type, LINE), ir.Undefined)
        line = builder.insert_element(line, value, ir.IntType(32)(0))
        same = ir.Constant(ir.VectorType(ir.IntType(32), LINE), [0] * LINE)
        line = builder.shuffle_vector(line, ir.Constant(line.type, ir.Undefined), same)
        _, place, size = _load(context, builder, signature.args[0], args[0], args[1], only_place=True)
        builder.store(line, place).align = size
        return context.get_dummy_value()

    return types.void(target, into, source, of), generate


@intrinsic
def copy_run(typingctx, target, into, source, of, count):  # type: ignore[no-untyped-def]
    """target[into : into + count] = source[of : of + count], by the memcpy of the C library: the quickest for long runs."""

    def generate(context, builder, signature, args):
        places = [_load(context, builder, signature.args[i], args[i], args[i + 1], only_place=True) for i in (0, 2)]
        byte = ir.IntType(8).as_pointer()
        to, come = [builder.bitcast(place, byte) for _, place, _ in places]
        cgutils.raw_memcpy(builder, to, come, args[4], places[0][2])
        return context.get_dummy_value()

    return types.void(target, into, source, of, count), generate


@intrinsic
def add_line(typingctx, target, into, source, of):  # type: ignore[no-untyped-def]
    """target[into : into + 16] += source[of : of + 16]."""

    def generate(context, builder, signature, args):
        array, place, size = _load(context, builder, signature.args[0], args[0], args[1])
        value = _load(context, builder, signature.args[2], args[2], args[3])[0]
        floating = isinstance(array.type.element, (ir.FloatType, ir.DoubleType))
        total = builder.fadd(array, value) if floating else builder.add(array, value)
        builder.store(total, place).align = size
        return context.get_dummy_value()

    return types.void(target, into, source, of), generate


@intrinsic
def convert_half_line(typingctx, target, into, source, of):  # type: ignore[no-untyped-def]
    """target[into : into + 16] = source[of : of + 16], one of them float32, the other the bits of float16 (uint16)."""

    def generate(context, builder, signature, args):
        value = _load(context, builder, signature.args[2], args[2], args[3])[0]
        halves = ir.VectorType(ir.HalfType(), LINE)
        if isinstance(value.type.element, ir.FloatType):
            value = builder.bitcast(builder.fptrunc(value, halves), ir.VectorType(ir.IntType(16), LINE))
        else:
            value = builder.fpext(builder.bitcast(value, halves), ir.VectorType(ir.FloatType(), LINE))
        _, place, size = _load(context, builder, signature.args[0], args[0], args[1], only_place=True)
        builder.store(value, place).align = size
        return context.get_dummy_value()

    return types.void(target, into, source, of), generate


@intrinsic
def sum_line(typingctx, target, into, source, of, back, total):  # type: ignore[no-untyped-def]
    """The running sum of 16 floats, going on from the double `total`, which comes back; `back`: `into` and `of` are the last, not the first.

    Eight sums are made at once, of two, of four and of eight neighbours: only one addition in eight elements waits for the last.
    """

    def generate(context, builder, signature, args):
        flag, half = ir.IntType(32), LINE // 2
        far = builder.select(args[4], args[1].type(LINE - 1), args[1].type(0))
        value = _load(context, builder, signature.args[2], args[2], builder.sub(args[3], far))[0]
        order = ir.Constant(ir.VectorType(flag, LINE), list(range(LINE))[::-1])
        value = builder.select(args[4], builder.shuffle_vector(value, value, order), value)
        total, result = args[5], []
        for first in (0, half):
            picked = ir.Constant(ir.VectorType(flag, half), list(range(first, first + half)))
            sums = builder.fpext(builder.shuffle_vector(value, value, picked), ir.VectorType(total.type, half))
            none = ir.Constant(sums.type, [0.0] * half)
            for step in (1, 2, 4):
                behind = [k - step if k >= step else half for k in range(half)]
                behind = ir.Constant(ir.VectorType(flag, half), behind)
                sums = builder.fadd(sums, builder.shuffle_vector(sums, none, behind))
            start = builder.insert_element(ir.Constant(sums.type, ir.Undefined), total, flag(0))
            start = builder.shuffle_vector(start, start, ir.Constant(ir.VectorType(flag, half), [0] * half))
            result.append(builder.fptrunc(builder.fadd(sums, start), ir.VectorType(ir.FloatType(), half)))
            total = builder.fadd(total, builder.extract_element(sums, flag(half - 1)))
        value = builder.shuffle_vector(*result, ir.Constant(ir.VectorType(flag, LINE), list(range(LINE))))
        value = builder.select(args[4], builder.shuffle_vector(value, value, order), value)
        into = builder.sub(args[1], far)
        _, place, size = _load(context, builder, signature.args[0], args[0], into, only_place=True)
        builder.store(value, place).align = size
        return total

    return types.float64(target, into, source, of, back, total), generate


@intrinsic
def prefetch(typingctx, target, place):  # type: ignore[no-untyped-def]
    """Asks for the cache line of target[place], to be written; any place will do, as nothing is read.

    Stores leave the processor in order: without this, those to far places wait for one line after the other.
    """

    def generate(context, builder, signature, args):
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        pointer = builder.gep(context.make_array(signature.args[0])(context, builder, args[0]).data, [args[1]])
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(call, [builder.bitcast(pointer, byte), flag(1), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(target, place), generate


def _load(context, builder, kind, array, place, only_place=False):  # type: ignore[no-untyped-def]
    element = context.get_data_type(kind.dtype)
    pointer = builder.gep(context.make_array(kind)(context, builder, array).data, [place])
    pointer = builder.bitcast(pointer, ir.VectorType(element, LINE).as_pointer())
    size = context.get_abi_sizeof(element)
    if only_place:
        return None, pointer, size
    value = builder.load(pointer)
    value.align = size
    return value, pointer, size
