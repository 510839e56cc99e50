"""Where processes meet: from an address to a store, this process's number and how many there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from dynograd.distributed.stores.base import Store
from dynograd.distributed.stores.files import FileStore
from dynograd.distributed.stores.tcp import TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

Meeting = Iterator[tuple[Store, int, int]]
_WAIT = timedelta(minutes=30)
_handlers: dict[str, Callable[..., Meeting]] = {}


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Meeting:
    """Where the processes of a program meet: an iterator, of which the first (store, rank, world size) is meant.

    Args:
        url: "tcp://host:port?rank=0&world_size=2" (rank 0 keeps the store), "file:///path?rank=0&world_size=2", or "env://", which reads
            MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE; or a scheme of `register_rendezvous_handler`.
        rank, world_size: in place of those in the address.
        timeout: a `timedelta`, of the store.
    Returns:
        An iterator of triples.
    Raises:
        RuntimeError: a scheme that nobody knows. ValueError: the address lacks something.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "store")
    >>> store, rank, size = next(dynograd.distributed.rendezvous(f"file://{path}?rank=0&world_size=1"))
    >>> rank, size
    (0, 1)
    """
    if not isinstance(url, str):
        raise RuntimeError(f"rendezvous: `url` must be a string, got {type(url).__name__}: {url!r}.")
    parts = urlsplit(url)
    if rank != -1 or world_size != -1:
        query = dict(parse_qsl(parts.query))
        if "rank" in query or "world_size" in query:
            raise AssertionError(
                f"rendezvous: the url {url} has node-specific arguments (rank, world_size) already. Give them once."
            )
        query |= {name: str(value) for name, value in (("rank", rank), ("world_size", world_size)) if value != -1}
        url = f"{url.partition('?')[0]}?{'&'.join([f'{name}={value}' for name, value in query.items()])}"
    if parts.scheme not in _handlers:
        raise RuntimeError(
            f"No rendezvous handler for {parts.scheme}:// ({url}). There are {', '.join(sorted(_handlers))}; "
            f"register_rendezvous_handler adds others."
        )
    return _handlers[parts.scheme](url, **kwargs)


def register_rendezvous_handler(scheme: str, handler: Callable[..., Meeting]) -> None:
    """Another kind of address for `rendezvous`.

    Args:
        scheme: what stands before "://".
        handler: a function of the address (and keywords) that gives an iterator of (store, rank, world size).
    Raises:
        RuntimeError: there is one of that kind.

    >>> dynograd.distributed.register_rendezvous_handler("memory", lambda url: iter([(dynograd.distributed.HashStore(), 0, 1)]))
    >>> next(dynograd.distributed.rendezvous("memory://"))[1:]
    (0, 1)
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered. Take another name.")
    _handlers[scheme] = handler


def _asked(kind: str, url: str, query: dict[str, str], name: str, stands_in: str | None = None) -> str:
    value = query.get(name, stands_in)
    if value is None:
        said = {"rank": "rank parameter", "world_size": "world size parameter"}.get(name, name)
        raise ValueError(f"Error initializing torch.distributed using {kind} rendezvous: {said} missing in {url}.")
    return value


def _by_file(url: str, timeout: timedelta = _WAIT, **kwargs: Any) -> Meeting:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    path = parts.netloc + parts.path
    if not path:
        raise ValueError(f"Error initializing torch.distributed using file:// rendezvous: path missing in {url}.")
    rank, size = [int(_asked("file://", url, query, name)) for name in ("rank", "world_size")]
    store = FileStore(path, size)
    store.set_timeout(timeout)
    yield store, rank, size


def _by_port(url: str, timeout: timedelta = _WAIT, **kwargs: Any) -> Meeting:
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if not parts.port:
        raise ValueError(f"Error initializing torch.distributed using tcp:// rendezvous: port number missing in {url}.")
    rank, size = [int(_asked("tcp://", url, query, name)) for name in ("rank", "world_size")]
    yield _store_at(parts.hostname or "", parts.port, rank, size, timeout, query), rank, size


def _by_environment(url: str, timeout: timedelta = _WAIT, **kwargs: Any) -> Meeting:
    query = dict(parse_qsl(urlsplit(url).query))
    rank, size = [
        int(_asked("env://", url, query, name, os.environ.get(name.upper()))) for name in ("rank", "world_size")
    ]
    address, port = [_asked("env://", url, dict(os.environ), f"MASTER_{name}") for name in ("ADDR", "PORT")]
    yield _store_at(address, int(port), rank, size, timeout, query), rank, size


def _store_at(host: str, port: int, rank: int, size: int, timeout: timedelta, query: dict[str, str]) -> TCPStore:
    libuv = query.get("use_libuv", os.environ.get("USE_LIBUV", "1")) == "1"
    return TCPStore(host, port, size, rank == 0, timeout, multi_tenant=True, use_libuv=libuv)


register_rendezvous_handler("file", _by_file)
register_rendezvous_handler("tcp", _by_port)
register_rendezvous_handler("env", _by_environment)
