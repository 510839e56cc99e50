"""What goes wrong between processes, under PyTorch's names."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError"]


class DistError(RuntimeError):
    """Something between processes went wrong.

    >>> issubclass(dynograd.distributed.DistStoreError, dynograd.distributed.DistError)
    True
    """


class DistBackendError(DistError):
    """What carries the numbers failed.

    >>> issubclass(dynograd.distributed.DistBackendError, dynograd.distributed.DistError)
    True
    """


class DistNetworkError(DistError):
    """No connection, or one that broke.

    >>> issubclass(dynograd.distributed.DistNetworkError, dynograd.distributed.DistError)
    True
    """


class DistStoreError(DistError):
    """A store did not get what was waited for.

    >>> issubclass(dynograd.distributed.DistStoreError, RuntimeError)
    True
    """


class QueueEmptyError(DistStoreError):
    """Nothing is in a queue, and nobody waits for it.

    >>> dynograd.distributed.HashStore().queue_pop("jobs", block=False)
    Traceback (most recent call last):
    dynograd.distributed.stores.failures.QueueEmptyError: queue_pop: queue is empty: 'jobs'. With block=True it is waited for.
    """
