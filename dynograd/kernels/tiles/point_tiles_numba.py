"""Register tiles for images whose channels lie side by side (channels_last), as intrinsics for compiled kernels: see `tiles_numba`.

A vector holds channels of one place, so that images need not be turned: `point_tile` computes output channels of several places,
`outer_tile` adds up products of two arrays over places.
"""

from __future__ import annotations

from llvmlite import ir

from dynograd.kernels.tiles import tiles_numba
from dynograd.kernels.tiles.tiles_numba import (
    _at,
    _body,
    _fma,
    _gep,
    _keep_rolled,
    _load,
    _load_int,
    _number,
    _splat,
    _tile,
)

# Bytes of a vector. 64 even where units are 32 wide (Zen 4): half the instructions for as many products, 115 for 97 GFLOP/s a core.
WIDTH = 64 if tiles_numba._REGISTERS >= 32 and tiles_numba.BYTES >= 32 else tiles_numba.BYTES
# Places, or rows, of a tile: with one vector of each as many sums as units keep busy, and they and their factors fit 16 registers.
POINTS = 12

_INT = ir.IntType(64)


def _write_points(function, real, size, lanes):
    b, (x, places, runs, count, length, w, out, targets, bias) = _body(function)
    vector = ir.VectorType(real, lanes)
    fma = _fma(function, vector)
    end = b.add(runs, b.shl(count, _number(3)))
    first = _load(b, _at(b, bias, 0), vector)
    entry = b.block
    run, loop, following, after = (b.append_basic_block(name) for name in ("run", "loop", "following", "after"))
    b.branch(run)
    b.position_at_end(run)
    step, weights = b.phi(_INT), b.phi(_INT)
    sums = [b.phi(vector) for _ in range(POINTS)]
    step.add_incoming(runs, entry)
    weights.add_incoming(w, entry)
    begin = b.add(x, _load_int(b, step, 0))
    pointers = [_at(b, begin, _load_int(b, places, 8 * p)) for p in range(POINTS)]
    b.branch(loop)
    b.position_at_end(loop)
    at, come = b.phi(_INT), b.phi(_INT)
    running = [b.phi(vector) for _ in range(POINTS)]
    factors = _load(b, _at(b, come, 0), vector)
    scalars = [_splat(b, _load(b, _gep(b, pointer, at), real), vector) for pointer in pointers]
    totals = [b.call(fma, [scalar, factors, total]) for scalar, total in zip(scalars, running, strict=True)]
    further, beyond = b.add(at, _number(size)), b.add(come, _number(lanes * size))
    at.add_incoming(_number(0), run)
    at.add_incoming(further, loop)
    come.add_incoming(weights, run)
    come.add_incoming(beyond, loop)
    _keep_rolled(b.cbranch(b.icmp_signed("<", further, length), loop, following))
    b.position_at_end(following)
    next_step = b.add(step, _number(8))
    step.add_incoming(next_step, following)
    weights.add_incoming(beyond, following)
    for p in range(POINTS):
        sums[p].add_incoming(first, entry)
        sums[p].add_incoming(totals[p], following)
        running[p].add_incoming(sums[p], run)
        running[p].add_incoming(totals[p], loop)
    _keep_rolled(b.cbranch(b.icmp_unsigned("<", next_step, end), run, after))
    b.position_at_end(after)
    for p in range(POINTS):
        b.store(totals[p], _at(b, out, _load_int(b, targets, 8 * p)), align=size)
    b.ret_void()


def _write_outer(function, real, size, lanes):
    b, (x, places, g, count, out, further) = _body(function)
    vector = ir.VectorType(real, lanes)
    fma = _fma(function, vector)
    begin = _at(b, x, 0)
    entry, loop, after = b.block, b.append_basic_block("loop"), b.append_basic_block("after")
    end = b.add(places, b.shl(count, _number(3)))
    b.branch(loop)
    b.position_at_end(loop)
    place, come = b.phi(_INT), b.phi(_INT)
    sums = [b.phi(vector) for _ in range(POINTS)]
    pointer = _gep(b, begin, _load_int(b, place, 0))
    factors = _load(b, _at(b, come, 0), vector)
    scalars = [_splat(b, _load(b, _gep(b, pointer, _number(r * size)), real), vector) for r in range(POINTS)]
    totals = [b.call(fma, [scalar, factors, total]) for scalar, total in zip(scalars, sums, strict=True)]
    following = b.add(place, _number(8))
    place.add_incoming(places, entry)
    place.add_incoming(following, loop)
    come.add_incoming(g, entry)
    come.add_incoming(b.add(come, _number(lanes * size)), loop)
    for phi, total in zip(sums, totals, strict=True):
        phi.add_incoming(ir.Constant(vector, [0.0] * lanes), entry)
        phi.add_incoming(total, loop)
    _keep_rolled(b.cbranch(b.icmp_unsigned("<", following, end), loop, after))
    b.position_at_end(after)
    add, anew = b.append_basic_block("add"), b.append_basic_block("anew")
    b.cbranch(b.icmp_signed("!=", further, _number(0)), add, anew)
    for block in (add, anew):
        b.position_at_end(block)
        for r in range(POINTS):
            target = _at(b, out, r * lanes * size)
            total = b.fadd(_load(b, target, vector), totals[r]) if block is add else totals[r]
            b.store(total, target, align=size)
        b.ret_void()


# point_tile(like, x, places, runs, count, length, w, out, targets, bias): for POINTS places p, the sum over `count` runs i and the
# `length` bytes k of each of the element at x + runs[i] + places[p] + k times the next vector of w, plus the vector at `bias`,
# goes to out + targets[p]. `places`, `runs` and `targets` are addresses of int64 tables; count and length are not 0.
point_tile = _tile("point_tile", 9, _write_points, WIDTH)
# outer_tile(like, x, places, g, count, out, further): for POINTS rows r, the sum over i < count of the element r at x + places[i]
# times the vector i at g goes to the vector r at `out`, or is added to it where `further` is not 0; count >= 1.
outer_tile = _tile("outer_tile", 6, _write_outer, WIDTH)
