"""The order of groups: which waiting buckets run together, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from dynograd.transforms.autobatch.group.sharing import few, with_rows
from dynograd.transforms.autobatch.group.uneven import scheduled_as


def schedule(waiting: list[Any], families: dict[Any, Any]) -> Iterator[list[Any]]:
    """Lists of buckets to be run as one group each: same form or family, same shared operands, all their operands known by then.

    A bucket's generation is how many of its kind have to run before it, one after the other: step of a decoder, height in a tree. A group
    that has all of its generation is taken first, for nothing would join it later: so decoders wait until all encoders are through,
    and losses at the ends of sequences of different lengths for each other. Where every kind has more to come, it is the one that
    most groups follow one after the other, and the largest of those.
    """
    left: dict[Any, int] = {}
    rows: dict[Any, int] = {}
    missing: dict[Any, int] = {}
    users: dict[Any, list[Any]] = {}
    ready: dict[Any, list[Any]] = {}
    kinds: dict[Any, Any] = {}
    inside = set(waiting)
    for bucket in waiting:
        kind = kinds[bucket] = scheduled_as(bucket, families)
        left[kind] = left.get(kind, 0) + 1
        rows[bucket] = bucket.count()
        sources = [source for source in bucket.sources if source in inside]
        missing[bucket] = len(sources)
        for source in sources:
            users.setdefault(source, []).append(bucket)
        if not sources:
            ready.setdefault(kind, []).append(bucket)
    height: dict[Any, int] = {}
    generations: _Generations | None = None
    while ready:
        chosen: Any = None
        generation: int | None = None
        if len(ready) > 1:
            chosen = next((kind for kind, buckets in ready.items() if len(buckets) == left[kind]), None)
            if chosen is None:
                if generations is None:
                    generations = _Generations(ready, missing, users, kinds)
                chosen, generation = generations.complete(ready)
            if chosen is None:
                height = height or _heights(
                    [bucket for buckets in ready.values() for bucket in buckets], missing, users
                )
                chosen = max(ready, key=lambda kind: _rank(ready[kind], height, rows))
        else:
            (chosen,) = ready
        buckets = ready.pop(chosen)
        if generations is not None and generation is not None:
            later = [bucket for bucket in buckets if generations.of[bucket] != generation]
            if later:
                ready[chosen] = later
                buckets = [bucket for bucket in buckets if generations.of[bucket] == generation]
        left[chosen] -= len(buckets)
        if ready and chosen[1] and few(chosen, sum([rows[bucket] for bucket in buckets])):
            alike = [
                kind
                for kind, others in ready.items()
                if kind[0] is chosen[0] and kind != chosen and few(kind, sum([rows[bucket] for bucket in others]))
            ]
            more = [bucket for kind in alike for bucket in ready[kind]]
            if alike and with_rows(buckets[0].recorder, [chosen, *alike], buckets + more):
                buckets = buckets + more
                for kind in alike:
                    left[kind] -= len(ready.pop(kind))
        yield buckets
        ran = list(buckets)
        for bucket in ran:  # grows while it is read
            if generations is not None:
                generations.leave(bucket)
            for user in users.pop(bucket, ()):
                missing[user] -= 1
                if user.done:  # it ran with those that it needed, in the same call
                    if not missing[user]:
                        left[kinds[user]] -= 1
                        ran.append(user)
                elif not missing[user]:
                    ready.setdefault(kinds[user], []).append(user)
                    if generations is not None:
                        generations.arrive(kinds[user], user)


class _Generations:
    """How many buckets of its own kind a bucket follows, one after the other; of each generation, how many are left, and how many ready.

    In large records it is what was known of that when the bucket was made.
    """

    _MOST = 1 << 14  # counters

    def __init__(
        self, ready: dict[Any, list[Any]], missing: dict[Any, int], users: dict[Any, list[Any]], kinds: dict[Any, Any]
    ) -> None:
        self.kinds = kinds
        self.left: dict[Any, dict[int, int]] = {}
        self.here: dict[Any, dict[int, int]] = {}
        order, missing = [bucket for buckets in ready.values() for bucket in buckets], dict(missing)
        for bucket in order:  # grows while it is read
            for user in users.get(bucket, ()):
                missing[user] -= 1
                if not missing[user]:
                    order.append(user)
        self.of: dict[Any, int] = {bucket: bucket.generation for bucket in order}
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys([kinds[bucket] for bucket in order]))}
        if len(order) * len(numbers) <= self._MOST:
            self._count(order, users, numbers)
        for bucket, generation in self.of.items():
            counts = self.left.setdefault(kinds[bucket], {})
            counts[generation] = counts.get(generation, 0) + 1
        for kind, buckets in ready.items():
            for bucket in buckets:
                self.arrive(kind, bucket)

    def _count(self, order: list[Any], users: dict[Any, list[Any]], numbers: dict[Any, int]) -> None:
        """Finds the generations from what waits now."""
        before = dict(zip(order, numpy.zeros((len(order), len(numbers)), numpy.int32), strict=True))
        maximum = numpy.maximum
        for bucket in order:
            row, number = before.pop(bucket), numbers[self.kinds[bucket]]
            generation = self.of[bucket] = int(row[number])
            row[number] = generation + 1
            for user in users.get(bucket, ()):
                other = before[user]
                maximum(other, row, out=other)

    def arrive(self, kind: Any, bucket: Any) -> None:
        """The bucket is ready."""
        if bucket in self.of:
            counts, generation = self.here.setdefault(kind, {}), self.of[bucket]
            counts[generation] = counts.get(generation, 0) + 1

    def leave(self, bucket: Any) -> None:
        """The bucket has run."""
        if bucket in self.of:
            kind, generation = self.kinds[bucket], self.of.pop(bucket)
            for counts in (self.left[kind], self.here.get(kind, {})):
                left = counts.get(generation, 1) - 1
                if left:
                    counts[generation] = left
                else:
                    counts.pop(generation, None)

    def complete(self, ready: dict[Any, list[Any]]) -> tuple[Any, int | None]:
        """A kind whose earliest generation is all ready, and which that is; (None, None) where there is none."""
        for kind in ready:
            left = self.left.get(kind)
            if not left:
                continue
            earliest = min(left)
            if self.here[kind].get(earliest) == left[earliest]:
                return kind, earliest
        return None, None


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
    heights: dict[Any, int] = {}
    for bucket in reversed(order):
        heights[bucket] = 1 + max([heights[user] for user in users.get(bucket, ())], default=0)
    return heights
