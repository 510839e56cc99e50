"""Linear chains of tags: the likelihood of a sequence of tags under scores of tags and of neighbours, and the best sequence.

Emissions lie in rows (M, K): step t of sequence n is row starts[n] + t * step. That is batch-first memory (starts n T, step 1),
time-first memory (starts n, step B) and sequences packed behind one another (starts their offsets, step 1), all without a copy.
`nn.CRF` is the public face. Gradients of second order and forward mode come from the same recursion step by step.
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.kernels import kernel
from dynograd.ops.elementwise.choices import choose
from dynograd.ops.index.indexing import add_advanced, get_advanced, get_basic
from dynograd.ops.index.scatters import gathered
from dynograd.ops.layout.broadcasting import stretch
from dynograd.ops.layout.joins import stack
from dynograd.ops.layout.paddings import pad_constant
from dynograd.ops.layout.views import permuted, reshaped
from dynograd.ops.op import Gradients, op
from dynograd.ops.recurrent.recurrences import _alive
from dynograd.ops.reduce.extremes import max_along
from dynograd.ops.reduce.reductions import exp_difference, logsumexp_dims
from dynograd.ops.reduce.reductions import sum as sum_dims


@op(extras="levels sums", inner=True)
def chain_likelihoods(
    emissions: Array,
    transitions: Array,
    first: Array,
    last: Array,
    tags: Array | None,
    starts: Array,
    lengths: Array,
    step: int,
) -> Array:
    """(B,): log of the probability of each sequence's tags; without tags, minus the log of the sum over all sequences of tags.

    The score of tags is the sum of their emissions, of transitions[before, after], and of `first` and `last` at the ends; its
    exponential, divided by the sum of those of all sequences of tags, is the probability. A sequence of length 0 gives 0.

    Args:
        emissions (M, K), transitions (K, K), first (K,), last (K,): in float32 or float64.
        tags (M,): int64, in range in the rows of sequences; starts (B,), lengths (B,): int64.
    """
    return kernel("chains", "chain_likelihoods", emissions)(
        emissions, transitions, first, last, tags, starts, lengths, step
    )


@chain_likelihoods.fast_backward
def chain_likelihoods_fast_backward(g: Any, saved: Any, step: Any) -> Gradients:
    operands = saved.emissions, saved.transitions, saved.first, saved.last, saved.tags, saved.starts, saved.lengths
    result = kernel("chains", "chain_gradients", saved.emissions)(g, *operands, step, saved.levels, saved.sums)
    return (*result, None, None, None)


@chain_likelihoods.decomposition
def chain_likelihoods_step_by_step(
    emissions: Any, transitions: Any, first: Any, last: Any, tags: Any, starts: Any, lengths: Any, step: int
) -> Array:
    x, alive, rows = _by_steps(emissions, starts, lengths, step)
    running = reshaped(lengths, (-1,)) > 0
    level = _forward(x, alive, transitions, first)[-1]
    result = choose(running, -logsumexp_dims(level + last, (1,), False), 0.0)
    if tags is None:
        return result
    padded = pad_constant(tags, ((0, 1),), 0)
    tag = reshaped(get_advanced(padded, [reshaped(rows, (-1,))], (0,)), tuple(x.shape[:2]))
    ended = gathered(tag, 0, reshaped(choose(running, lengths - 1, 0), (1, -1)))
    ends = get_advanced(first, [get_basic(tag, (0,))], (0,)) + get_advanced(last, [get_basic(ended, (0,))], (0,))
    emitted = gathered(x, 2, reshaped(tag, (*tag.shape, 1)))
    score = choose(running, ends, 0.0) + sum_dims(choose(alive, emitted, 0.0), (0, 2), False)
    if x.shape[0] > 1:
        before, after = get_basic(tag, (slice(0, -1),)), get_basic(tag, (slice(1, None),))
        moves = reshaped(get_advanced(transitions, [before, after], (0, 1)), (*after.shape, 1))
        score = score + sum_dims(choose(get_basic(alive, (slice(1, None),)), moves, 0.0), (0, 2), False)
    return result + score


@op(inner=True)
def chain_marginals(
    emissions: Array, transitions: Array, first: Array, last: Array, starts: Array, lengths: Array, step: int
) -> Array:
    """(M, K): the probability of each tag in each step, over all sequences of tags; 0 in rows of no sequence."""
    operands = emissions, transitions, first, last, None, starts, lengths, step
    _, levels, sums = kernel("chains", "chain_likelihoods", emissions)(*operands)
    minus = arrays.full(tuple(lengths.shape), -1, dtypes.of_array(emissions), arrays.device_of(emissions))
    return kernel("chains", "chain_gradients", emissions)(minus, *operands, levels, sums)[0]


@chain_marginals.decomposition
def chain_marginals_step_by_step(
    emissions: Any, transitions: Any, first: Any, last: Any, starts: Any, lengths: Any, step: int
) -> Array:
    x, alive, rows = _by_steps(emissions, starts, lengths, step)
    levels = _forward(x, alive, transitions, first)
    behind = stretch(reshaped(last, (1, -1)), tuple(levels[0].shape))
    behinds = [behind]
    onward = reshaped(permuted(transitions, (1, 0)), (1, *transitions.shape))
    for t in range(x.shape[0] - 1, 0, -1):
        after = get_basic(x, (t,)) + behind
        after = logsumexp_dims(reshaped(after, (*after.shape, 1)) + onward, (1,), False)
        behind = choose(_of_step(alive, t), after, behind)
        behinds.append(behind)
    total = logsumexp_dims(levels[-1] + last, (1,), True)
    levels_found = [
        exp_difference(level + behind, total) for level, behind in zip(levels, reversed(behinds), strict=True)
    ]
    levels_found = stack([choose(_of_step(alive, t), score, 0.0) for t, score in enumerate(levels_found)])
    flat = reshaped(levels_found, (-1, x.shape[2]))
    whole = add_advanced(flat, [reshaped(rows, (-1,))], (0,), (emissions.shape[0] + 1, emissions.shape[1]))
    return get_basic(whole, (slice(0, -1),))


@op(differentiable=False, outputs="tags scores", inner=True)
def chain_best_paths(
    emissions: Array, transitions: Array, first: Array, last: Array, starts: Array, lengths: Array, step: int
) -> tuple[Array, Array]:
    """(tags (M,) of the sequences of tags with the highest scores, 0 in rows of no sequence; these scores (B,))."""
    return kernel("chains", "best_paths", emissions)(emissions, transitions, first, last, starts, lengths, step)


@chain_best_paths.decomposition
def chain_best_paths_step_by_step(
    emissions: Any, transitions: Any, first: Any, last: Any, starts: Any, lengths: Any, step: int
) -> tuple[Array, Array]:
    x, alive, rows = _by_steps(emissions, starts, lengths, step)
    level = get_basic(x, (0,)) + first
    moves = reshaped(transitions, (1, *transitions.shape))
    own = arrays.from_python([list(range(x.shape[2]))], dtypes.int64)
    own = arrays.to_device(own, arrays.place_of(getattr(emissions, "array", emissions)))
    origins = []
    for t in range(1, x.shape[0]):
        best, origin = max_along(reshaped(level, (*level.shape, 1)) + moves, 1, False)
        level = choose(_of_step(alive, t), best + get_basic(x, (t,)), level)
        origins.append(choose(_of_step(alive, t), origin, own))
    score, tag = max_along(level + last, 1, True)
    tags = [tag]
    for origin in reversed(origins):
        tag = gathered(origin, 1, tag)
        tags.append(tag)
    result = choose(alive, stack(tags[::-1]), 0)
    whole = add_advanced(reshaped(result, (-1,)), [reshaped(rows, (-1,))], (0,), (emissions.shape[0] + 1,))
    score = choose(reshaped(lengths, (-1,)) > 0, reshaped(score, (-1,)), 0.0)
    return get_basic(whole, (slice(0, -1),)), score


# --- step by step ----------------------------------------------------------------------------------------------------------------


def _by_steps(emissions: Any, starts: Any, lengths: Any, step: int) -> tuple[Any, Any, Any]:
    """(emissions (T, B, K), alive (T, B, 1), rows (T, B)): rows of no step are a row of zeros behind the last."""
    steps = max([1, *arrays.tolist(arrays.all_values(getattr(lengths, "array", lengths)).reshape((-1,)))])
    alive = _alive(lengths, steps)
    times = arrays.from_python([time * step for time in range(steps)], dtypes.int64).reshape((steps, 1))
    times = arrays.to_device(times, arrays.place_of(getattr(lengths, "array", lengths)))
    rows = choose(reshaped(alive, (steps, -1)), reshaped(starts, (1, -1)) + times, emissions.shape[0])
    padded = pad_constant(emissions, ((0, 1), (0, 0)), 0.0)
    x = reshaped(get_advanced(padded, [reshaped(rows, (-1,))], (0,)), (steps, -1, emissions.shape[1]))
    return x, alive, rows


def _of_step(alive: Any, time: int) -> Array:
    return get_basic(alive, (time,))


def _forward(x: Any, alive: Any, transitions: Any, first: Any) -> list[Any]:
    """Of each step (B, K): the logarithm of the sum over all beginnings that end in a tag; sequences keep their last one."""
    level = get_basic(x, (0,)) + first
    levels = [level]
    moves = reshaped(transitions, (1, *transitions.shape))
    for t in range(1, x.shape[0]):
        new = logsumexp_dims(reshaped(level, (*level.shape, 1)) + moves, (1,), False) + get_basic(x, (t,))
        level = choose(_of_step(alive, t), new, level)
        levels.append(level)
    return levels
