"""How far to go along a direction: the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, sqrt
from typing import Any, NamedTuple

__all__ = ["strong_wolfe"]

# Enough decrease, and a slope this much flatter: the values that Nocedal and Wright give for quasi-Newton methods.
DECREASE, CURVATURE = 1e-4, 0.9


class _Point(NamedTuple):
    length: float
    loss: float
    gradient: Any
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Any]],
    length: float,
    d: Any,
    loss: float,
    gradient: Any,
    slope: float,
    tolerance_change: float = 1e-9,
    most: int = 25,
) -> tuple[float, Any, float, int]:
    """A length along `d` with enough decrease of the loss and of the slope.

    Lengths grow until two of them enclose one that will do (algorithm 3.5); the interval then shrinks by cubic interpolation
    (algorithm 3.6), away from its ends when these hardly move.

    Args:
        evaluate: (loss, gradient) at a length.
        length: the first to try.
        loss, gradient, slope: at length 0.
        tolerance_change: stop when no parameter differs by more between the ends.
        most: after so many trials, the best length so far is taken.
    Returns:
        (loss, gradient, length, how often `evaluate` was called).
    Source: Nocedal and Wright, Numerical Optimization, 2nd edition, 2006, section 3.5.
    """
    start = _Point(0.0, loss, gradient.clone(), slope)
    calls = 0

    def point(at: float) -> _Point:
        nonlocal calls
        calls += 1
        its_loss, its_gradient = evaluate(at)
        return _Point(at, its_loss, its_gradient, its_gradient.dot(d).item())

    def too_high(tried: _Point) -> bool:
        return tried.loss > start.loss + DECREASE * tried.length * start.slope

    def flat(tried: _Point) -> bool:
        return abs(tried.slope) <= -CURVATURE * start.slope

    before, now = start, point(length)
    tries = 0
    while tries < most:
        if too_high(now) or (tries > 1 and now.loss >= before.loss):
            break
        if flat(now):
            return now.loss, now.gradient, now.length, calls
        if now.slope >= 0:
            break
        ahead = _cubic(before, now, now.length + 0.01 * (now.length - before.length), now.length * 10)
        before, now = now, point(ahead)
        tries += 1
    else:
        before = start
    ends = [before, now]
    low = _lower(ends)

    reach, stuck = float(d.abs().max().item()), False
    while tries < most and abs(ends[1].length - ends[0].length) * reach >= tolerance_change:
        left, right = sorted((ends[0].length, ends[1].length))
        trial = _cubic(ends[0], ends[1], left, right)
        margin = 0.1 * (right - left)
        if min(right - trial, trial - left) < margin:
            if stuck or trial >= right or trial <= left:
                trial = right - margin if abs(trial - right) < abs(trial - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = point(trial)
        tries += 1
        if too_high(now) or now.loss >= ends[low].loss:
            ends[1 - low] = now
            low = _lower(ends)
            continue
        done = flat(now)
        if not done and now.slope * (ends[1 - low].length - ends[low].length) >= 0:
            ends[1 - low] = ends[low]
        ends[low] = now
        if done:
            break
    best = ends[low]
    return best.loss, best.gradient, best.length, calls


def _lower(ends: list[_Point]) -> int:
    return 0 if ends[0].loss <= ends[1].loss else 1


def _cubic(point: _Point, other: _Point, least: float, most: float) -> float:
    """Where the cubic through two points with their slopes is lowest, within bounds; their middle where there is no such place."""
    a, b = (point, other) if point.length <= other.length else (other, point)
    width = b.length - a.length
    if width == 0:
        return (least + most) / 2
    bend = a.slope + b.slope - 3 * (b.loss - a.loss) / width
    square = bend * bend - a.slope * b.slope
    if not square >= 0:
        return (least + most) / 2
    root = sqrt(square)
    total = b.slope - a.slope + 2 * root
    least_at = b.length - width * ((b.slope + root - bend) / total) if total else float("nan")
    return min(max(least_at, least), most) if isfinite(least_at) else (least + most) / 2
