"""The order of groups: which waiting buckets run together, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynograd.transforms.autobatch.sharing import few, with_rows

__all__ = ["schedule"]


def schedule(waiting: list[Any]) -> Iterator[list[Any]]:
    """Lists of buckets to be run as one group each: same form, same shared operands, all their operands known by then.

    Among the groups that can run now, one that leaves no bucket of its kind for later is taken first; where every kind has more to
    come, the one that most groups follow one after the other, and the largest of those. So losses at the ends of sequences of different
    lengths wait for each other while the sequences go on.
    """
    left: dict[Any, int] = {}
    rows: dict[Any, int] = {}
    missing: dict[Any, int] = {}
    users: dict[Any, list[Any]] = {}
    ready: dict[Any, list[Any]] = {}
    inside = set(waiting)
    for bucket in waiting:
        kind = (bucket.form, bucket.shared)
        left[kind] = left.get(kind, 0) + 1
        rows[bucket] = bucket.count()
        sources = [one for one in bucket.sources if one in inside]
        missing[bucket] = len(sources)
        for source in sources:
            users.setdefault(source, []).append(bucket)
        if not sources:
            ready.setdefault(kind, []).append(bucket)
    height: dict[Any, int] = {}
    while ready:
        chosen: Any = None
        if len(ready) > 1:
            chosen = next((kind for kind, buckets in ready.items() if len(buckets) == left[kind]), None)
            if chosen is None:
                height = height or _heights([one for buckets in ready.values() for one in buckets], missing, users)
                chosen = max(ready, key=lambda kind: _rank(ready[kind], height, rows))
        else:
            (chosen,) = ready
        buckets = ready.pop(chosen)
        left[chosen] -= len(buckets)
        if ready and chosen[1] and few(chosen, sum([rows[bucket] for bucket in buckets])):
            alike = [
                kind
                for kind, others in ready.items()
                if kind[0] is chosen[0] and few(kind, sum([rows[bucket] for bucket in others]))
            ]
            more = [bucket for kind in alike for bucket in ready[kind]]
            if alike and with_rows(buckets[0].recorder, [chosen, *alike], buckets + more):
                buckets = buckets + more
                for kind in alike:
                    left[kind] -= len(ready.pop(kind))
        yield buckets
        ran = list(buckets)
        for bucket in ran:  # grows while it is read
            for user in users.pop(bucket, ()):
                missing[user] -= 1
                if user.done:  # it ran with those that it needed, in the same call
                    if not missing[user]:
                        left[user.form, user.shared] -= 1
                        ran.append(user)
                elif not missing[user]:
                    ready.setdefault((user.form, user.shared), []).append(user)


def _rank(buckets: list[Any], height: dict[Any, int], rows: dict[Any, int]) -> tuple[int, int]:
    return max([height[bucket] for bucket in buckets]), sum([rows[bucket] for bucket in buckets])


def _heights(ready: list[Any], missing: dict[Any, int], users: dict[Any, list[Any]]) -> dict[Any, int]:
    """For each bucket that has not run how many have to, one after the other, from it on."""
    left, order = dict(missing), list(ready)
    for bucket in order:  # grows while it is read
        for user in users.get(bucket, ()):
            left[user] -= 1
            if not left[user]:
                order.append(user)
    found: dict[Any, int] = {}
    for bucket in reversed(order):
        found[bucket] = 1 + max([found[user] for user in users.get(bucket, ())], default=0)
    return found
