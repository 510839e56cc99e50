"""What a DataLoader accepts: arguments that exclude each other or are out of range are refused here, with PyTorch's words."""

from __future__ import annotations

from typing import Any

__all__ = ["as_context", "check_exclusive", "check_iterable", "check_workers"]


def check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError(
            f"DataLoader: num_workers option should be non-negative, got {num_workers}; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout option should be non-negative, got {timeout}. 0 waits for ever.")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            f"DataLoader: prefetch_factor option could only be specified in multiprocessing, got {prefetch_factor} with num_workers=0. "
            f"Let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"DataLoader: prefetch_factor option should be positive, got {prefetch_factor}.")
    if persistent_workers and num_workers == 0:
        raise ValueError("DataLoader: persistent_workers option needs num_workers > 0, got num_workers=0.")


def check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    if shuffle not in (False, None):
        raise ValueError(
            f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}. "
            f"Shuffle in its __iter__."
        )
    for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}. "
                f"A stream has no indices."
            )


def check_exclusive(batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    if sampler is not None and shuffle:
        raise ValueError(
            f"DataLoader: sampler option is mutually exclusive with shuffle, got sampler={sampler} and shuffle={shuffle}."
        )
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            f"DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last, got "
            f"batch_size={batch_size}, shuffle={shuffle}, sampler={sampler}, drop_last={drop_last}."
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "DataLoader: batch_size=None option disables auto-batching and is mutually exclusive with drop_last, got drop_last=True."
        )


def as_context(chosen: Any, num_workers: int) -> Any:
    if num_workers == 0:
        raise ValueError(
            f"DataLoader: multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}."
        )
    import multiprocessing
    from multiprocessing.context import BaseContext

    if isinstance(chosen, str):
        methods = multiprocessing.get_all_start_methods()
        if chosen not in methods:
            raise ValueError(
                f"DataLoader: multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={chosen!r}."
            )
        return multiprocessing.get_context(chosen)
    if not isinstance(chosen, BaseContext):
        raise TypeError(
            f"DataLoader: multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={chosen!r}."
        )
    return chosen
