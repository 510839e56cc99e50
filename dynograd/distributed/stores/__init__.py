"""What processes tell each other by names, before there is a group and beside it: `HashStore`, `FileStore`, `TCPStore`, `PrefixStore`."""

from __future__ import annotations

from dynograd.distributed.stores.base import PrefixStore, Store
from dynograd.distributed.stores.failures import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
)
from dynograd.distributed.stores.files import FileStore
from dynograd.distributed.stores.tables import HashStore
from dynograd.distributed.stores.tcp import TCPStore

__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "HashStore",
    "PrefixStore",
    "QueueEmptyError",
    "Store",
    "TCPStore",
]
