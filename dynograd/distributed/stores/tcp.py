"""TCPStore: one process keeps the values, all others ask it over a port.

A message is eight bytes, its length, and JSON of that length; bytes in it are {"bytes": text}. A connection begins with `_HELLO`, so that
what is no store is sent away. Each thread has a connection of its own: one that waits keeps none of the others from setting a value.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
import time
import weakref
from datetime import timedelta
from typing import Any

from dynograd.distributed.stores import failures
from dynograd.distributed.stores.base import seconds
from dynograd.distributed.stores.failures import DistNetworkError, DistStoreError
from dynograd.distributed.stores.tables import Answer, AskingStore, Table

__all__ = ["TCPStore"]

_HELLO = b"dynograd store 1\n"
_LONGEST = 1 << 31  # bytes of a message: what is longer is none of ours
_ASKED = frozenset(
    """set get add compare_set check wait delete_key list_keys append multi_get multi_set queue_push queue_pop queue_len""".split()
)
_JOINED = "init/"  # under which those who come are counted
_PAUSE = 0.02  # seconds between two tries to connect


def _sent(connection: socket.socket, message: Any) -> None:
    data = json.dumps(message, default=lambda value: {"bytes": value.decode("latin-1")}).encode()
    connection.sendall(struct.pack(">Q", len(data)) + data)


def _received(connection: socket.socket) -> Answer:
    (length,) = struct.unpack(">Q", _exactly(connection, 8))
    if length > _LONGEST:
        raise ConnectionError(f"a message of {length} bytes")
    return json.loads(_exactly(connection, length), object_hook=lambda entry: entry["bytes"].encode("latin-1"))


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise ConnectionError("the other side has closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


class _Server:
    """What keeps the values; closed when no store of this process refers to it any more."""

    def __init__(self, listening: socket.socket) -> None:
        self.port = listening.getsockname()[1]
        connections: set[socket.socket] = set()
        _in_thread(_accept, listening, Table(), connections)
        weakref.finalize(self, _close, listening, connections)


def _in_thread(function: Any, *arguments: Any) -> None:
    threading.Thread(target=function, args=arguments, name="dynograd store", daemon=True).start()


def _accept(listening: socket.socket, table: Table, connections: set[socket.socket]) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:  # closed
            return
        connections.add(connection)
        _in_thread(_serve, connection, table, connections)


def _serve(connection: socket.socket, table: Table, connections: set[socket.socket]) -> None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if _exactly(connection, len(_HELLO)) != _HELLO:
            return
        connection.sendall(_HELLO)
        while True:
            name, *arguments = _received(connection)
            if name not in _ASKED:
                break
            try:
                answer = [None, getattr(table, name)(*arguments)]
            except (DistStoreError, ValueError) as error:
                answer = [type(error).__name__, str(error)]
            _sent(connection, answer)
    connections.discard(connection)


def _close(listening: socket.socket, connections: set[socket.socket]) -> None:
    for each in (listening, *list(connections)):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


_servers: weakref.WeakValueDictionary[int, _Server] = weakref.WeakValueDictionary()  # by port, for `multi_tenant`


class TCPStore(AskingStore):
    """A store that one process keeps and all reach by its name and port.

    Args:
        host_name: where the process is that keeps it. It listens on the address of that name, so "localhost" is for this machine alone.
        port: the port; 0 takes a free one, which `port` names then.
        world_size: how many processes there will be; None is any number.
        is_master: whether this process keeps it.
        timeout: how long to wait for the connection, and what `get` and `wait` wait.
        wait_for_workers: whether the master waits here until all are connected.
        multi_tenant: whether a second master in this process shares the first one's server.
        master_listen_fd: a socket of the master that is bound already; it is the store's from now on.
        use_libuv: accepted; the server has a thread for each connection.
    Raises:
        DistNetworkError: the port is taken, or nobody answers in time. DistStoreError: not all came in time.

    >>> store = dynograd.distributed.TCPStore("localhost", 0, is_master=True)
    >>> other = dynograd.distributed.TCPStore("localhost", store.port)
    >>> store.set("name", "value")
    >>> other.get("name")
    b'value'
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300),
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        if world_size == 0:
            raise ValueError("TCPStore: TCPStore world size cannot be 0. Leave it out where it is not known.")
        self.set_timeout(timeout)
        self._host, self._libuv = host_name, bool(use_libuv)
        self._server = _server(host_name, port, multi_tenant, master_listen_fd) if is_master else None
        self._port = port if self._server is None else self._server.port
        self._connections: dict[tuple[int, int], socket.socket] = {}
        weakref.finalize(self, _hang_up, self._connections)
        self._connection()
        if world_size is not None and wait_for_workers:
            self._join(world_size)

    def _join(self, world_size: int) -> None:
        joined, end = self.add(_JOINED, 1), time.monotonic() + seconds(self.timeout)
        while self._server is not None and joined < world_size:
            if time.monotonic() > end:
                raise DistStoreError(
                    f"TCPStore: Timed out after {round(seconds(self.timeout))} seconds waiting for clients. {joined}/{world_size} clients "
                    f"joined. Start the others, or pass wait_for_workers=False."
                )
            time.sleep(_PAUSE)
            joined = self.add(_JOINED, 0)

    @property
    def host(self) -> str:
        """The name of the machine that keeps it."""
        return self._host

    @property
    def port(self) -> int:
        """The port."""
        return self._port

    @property
    def libuvBackend(self) -> bool:
        """What `use_libuv` was."""
        return self._libuv

    def __repr__(self) -> str:
        keeps = "kept here" if self._server is not None else "kept elsewhere"
        return f"TCPStore({self._host}:{self._port}, {keeps})"

    def clone(self) -> TCPStore:
        clone = TCPStore(self._host, self._port, timeout=self.timeout, use_libuv=self._libuv)
        clone._server = self._server
        return clone

    def _connection(self) -> socket.socket:
        """This thread's; after a fork the child has its own."""
        who = (os.getpid(), threading.get_ident())
        if who not in self._connections:
            running = {(os.getpid(), thread.ident) for thread in threading.enumerate()}
            for other in [other for other in self._connections if other not in running]:
                self._connections.pop(other).close()
            self._connections[who] = _connected(self._host, self._port, seconds(self.timeout))
        return self._connections[who]

    def _ask(self, name: str, *arguments: Any) -> Answer:
        connection = self._connection()
        try:
            _sent(connection, [name, *arguments])
            failure, answer = _received(connection)
        except (OSError, ValueError) as error:
            self._forget()
            raise DistNetworkError(
                f"TCPStore: {name} had no answer from {self._host}:{self._port} ({error}). The process that keeps it has ended."
            ) from None
        except BaseException:  # interrupted: what comes later on this connection answers another question
            self._forget()
            raise
        if failure is not None:
            raise getattr(failures, failure, ValueError)(answer)
        return answer

    def _forget(self) -> None:
        connection = self._connections.pop((os.getpid(), threading.get_ident()), None)
        if connection is not None:
            connection.close()


def _hang_up(connections: dict[tuple[int, int], socket.socket]) -> None:
    for connection in connections.values():
        connection.close()


def _connected(host: str, port: int, waited: float) -> socket.socket:
    end, error = time.monotonic() + waited, None
    while True:
        try:
            connection = socket.create_connection((host, port), max(end - time.monotonic(), _PAUSE))
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(_HELLO)
                if _exactly(connection, len(_HELLO)) == _HELLO:
                    connection.settimeout(None)
                    return connection
                raise ConnectionError("what listens there is no store")
            except BaseException:
                connection.close()
                raise
        except OSError as failure:
            error = failure
        if time.monotonic() + _PAUSE > end:
            raise DistNetworkError(
                f"TCPStore: The client socket has timed out after {round(waited * 1000)}ms while trying to connect to ({host}, {port}): "
                f"{error}. Start the process with is_master=True, and see that the port is open."
            ) from None
        time.sleep(_PAUSE)


def _server(host: str, port: int, shared: bool, listening_fd: int | None) -> _Server:
    if shared and port in _servers:
        return _servers[port]
    try:
        listening = _listening(host, port) if listening_fd is None else socket.socket(fileno=listening_fd)
        listening.listen()  # a socket that was handed over may be bound and no more
    except OSError as error:
        raise DistNetworkError(
            f"TCPStore: The server socket has failed to listen on any local network address. port: {port} ({error}). Take another one; 0 "
            f"finds a free one."
        ) from None
    server = _Server(listening)
    if shared:
        _servers[server.port] = server
    return server


def _listening(host: str, port: int) -> socket.socket:
    """A socket on the address of `host`, or on all where that is the address of something in front of this machine."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=128)
    except socket.gaierror:
        raise
    except OSError as error:
        import errno

        if error.errno != errno.EADDRNOTAVAIL:
            raise
        return socket.create_server(("", port), backlog=128)
