"""Random numbers of rows that each have a place of their own in the stream, so that they do not depend on which rows are together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dynograd import arrays
from dynograd.base.random_streams import default_generator
from dynograd.kernels import kernel
from dynograd.tensor.tensor import wrap


class RowPlaces:
    """As the randomness of a `Level`: row k draws at `places[k]`, (seed, offset), and goes on from there."""

    __slots__ = ("places", "used")

    def __init__(self, places: list[tuple[int, int]]) -> None:
        self.places = places
        self.used = 0  # blocks of the stream that each row has drawn

    def take(self, blocks: int) -> list[tuple[int, int]]:
        """The rows' places for a draw of so many blocks."""
        used = self.used
        self.used += blocks
        return [(seed, offset + used) for seed, offset in self.places]

    def masks(self, shape: tuple[int, ...], p: float, like: Any) -> Any:
        """(n, *shape): a mask of dropout for each row, in the dtype and on the device of `like`."""
        count = 1
        for size in shape:
            count *= size
        places = self.take(kernel("random", "blocks_needed", 0)("dropout_mask", count))
        result = kernel("random", "dropout_masks", 0)(places, shape, p, like.dtype)
        return wrap(arrays.to_device(result, arrays.device_of(like.array)))

    def in_turn(self, size: int) -> Iterator[int]:
        """The numbers of the rows; in between the default generator stands where that row draws."""
        before, used = default_generator.state(), self.used
        try:
            for number, (seed, offset) in enumerate(self.places[:size]):
                default_generator.set_plain_state((seed, offset + used))
                yield number
                self.used = default_generator.state()[1] - offset
        finally:
            default_generator.set_plain_state(before)
