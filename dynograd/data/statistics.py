"""What an epoch's batches consisted of so far: how much was padding, and how long the program waited for them."""

from __future__ import annotations

from typing import Any

__all__ = ["Statistics", "progress"]


class Statistics:
    """`loader.statistics`: of the epoch that is under way, or the last one.

    Sequences are counted by `collate_pad` and `collate_ragged` (and by a collate_fn of yours that sets an attribute
    `counts`): `elements` is what the samples held, `places` what the batches had room for.

    >>> loader = dynograd.data.DataLoader([[1, 2, 3], [4]], batch_size=2, collate_fn=dynograd.data.collate_pad())
    >>> for batch in loader:
    ...     pass
    >>> loader.statistics.elements, loader.statistics.places, str(loader.statistics)
    (4, 6, 'padding 33.3%')
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begins at 0.

        >>> statistics = dynograd.data.Statistics()
        >>> statistics.add((2, 4, 6), 0.1)
        >>> statistics.reset()
        >>> statistics.elements
        0
        """
        self.batches = self.samples = self.elements = self.places = 0
        self.seconds_waited = 0.0

    @property
    def padding(self) -> float:
        """The share of places that hold padding, from 0 to 1.

        >>> statistics = dynograd.data.Statistics()
        >>> statistics.add((2, 4, 8), 0.1)
        >>> statistics.padding
        0.5
        """
        return 1 - self.elements / self.places if self.places else 0.0

    def add(self, counts: tuple[int, int, int], seconds: float) -> None:
        """Counts one more batch; the loader calls it.

        Args:
            counts: (samples, elements, places).
            seconds: how long the program waited for it.

        >>> statistics = dynograd.data.Statistics()
        >>> statistics.add((2, 4, 6), 0.1)
        >>> statistics.elements, statistics.places
        (4, 6)
        """
        self.batches += 1
        self.samples += counts[0]
        self.elements += counts[1]
        self.places += counts[2]
        self.seconds_waited += seconds

    def state(self) -> list[Any]:
        """What `set_state` takes.

        Returns:
            a list of numbers.

        >>> statistics = dynograd.data.Statistics()
        >>> statistics.add((2, 4, 6), 0.1)
        >>> len(statistics.state()) > 0
        True
        """
        return [self.batches, self.samples, self.elements, self.places, self.seconds_waited]

    def set_state(self, state: list[Any]) -> None:
        """Goes on from another's `state()`.

        Args:
            state: what `state()` gave.

        >>> statistics, other = dynograd.data.Statistics(), dynograd.data.Statistics()
        >>> statistics.add((2, 4, 6), 0.1)
        >>> other.set_state(statistics.state())
        >>> other.elements
        4
        """
        self.batches, self.samples, self.elements, self.places, self.seconds_waited = state

    def __str__(self) -> str:
        return f"padding {self.padding:.1%}" if self.places else f"{self.samples} samples"

    def __repr__(self) -> str:
        return (
            f"Statistics(batches={self.batches}, samples={self.samples}, elements={self.elements}, places={self.places}, "
            f"padding={self.padding:.4f}, seconds_waited={self.seconds_waited:.3f})"
        )


def progress(loader: Any, **options: Any) -> Any:
    """A tqdm bar over a loader, with the share of padding in its line.

    In a resumed epoch it begins where the epoch was left. What you set by `bar.set_postfix(...)` stands behind the padding.

    Args:
        loader: a DataLoader.
        options: tqdm's.
    Returns:
        the bar: an iterable of the loader's batches.

    >>> loader = dynograd.data.DataLoader([[1, 2, 3], [4]], batch_size=2, collate_fn=dynograd.data.collate_pad())
    >>> bar = dynograd.data.progress(loader, desc="epoch 1", disable=True)
    >>> for padded, lengths in bar:
    ...     print(lengths)
    tensor([3, 1])
    """
    from tqdm.auto import tqdm

    class Bar(tqdm):
        @property
        def format_dict(self) -> dict[str, Any]:
            fields = super().format_dict
            fields["postfix"] = ", ".join(filter(None, [str(loader.statistics), fields.get("postfix")]))
            return fields

    resumed = loader._resumed
    options.setdefault("initial", resumed["batches"] if resumed else 0)
    return Bar(loader, **options)
