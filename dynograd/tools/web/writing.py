"""Answers on their way into the sockets: what uvicorn writes in two parts goes out in one system call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["JoiningProtocol"]

_LONG = 1 << 16  # bytes that are not copied to be joined


class JoiningProtocol(HttpToolsProtocol):
    """uvicorn's protocol over a transport that joins two writes: uvicorn writes the head of an answer, and then its body.

    Each write is a system call that wakes the client, and no other thread of the server runs meanwhile.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        joining = _Joining(cast(asyncio.Transport, transport), self.loop)
        super().connection_made(cast(asyncio.Transport, joining))


class _Joining:
    """A transport that keeps a part until another one is written, or until the event loop's next turn; all else is the transport's own."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self.is_closing, self._write = transport.is_closing, transport.write
        self._part = b""
        self._is_due = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)

    def write(self, part: bytes) -> None:
        """Writes, together with the part that is kept, or keeps this one."""
        if not self._part:
            self._part = part
            if not self._is_due:
                self._is_due = True
                self._loop.call_soon(self._in_the_next_turn)
        elif len(part) < _LONG:
            before, self._part = self._part, b""
            self._write(before + part)
        else:
            self._flush()
            self._write(part)

    def writelines(self, parts: Iterable[bytes]) -> None:
        """Writes them all."""
        self.write(b"".join(parts))

    def _in_the_next_turn(self) -> None:
        self._is_due = False
        if not self.is_closing():  # who would have read it has gone
            self._flush()

    def _flush(self) -> None:
        if self._part:
            part, self._part = self._part, b""
            self._write(part)

    def close(self) -> None:
        """Writes what is kept, and closes the transport."""
        self._flush()
        self._transport.close()
