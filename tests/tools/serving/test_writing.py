"""How the parts of answers go into sockets: two in one write, none later than the loop's next turn, none lost."""

import asyncio

import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from dynograd.tools.web.writing import _LONG, _Joining

LONG = b"x" * _LONG


class Socket:
    """A transport that notes what is written."""

    def __init__(self):
        self.written, self.closed = [], False

    def write(self, data):
        self.written.append(data)

    def close(self):
        self.closed = True
        self.written.append("closed")

    def is_closing(self):
        return self.closed

    def get_extra_info(self, name):
        return name


TURNS = {  # what is written in each turn of the loop: what the socket gets
    "head and body": ([[b"head ", b"body"]], [b"head body"]),
    "a part alone": ([[b"head "], [b"event"]], [b"head ", b"event"]),
    "two answers": ([[b"a", b"b"], [b"c", b"d"]], [b"ab", b"cd"]),
    "two in a turn": ([[b"a", b"b", b"c", b"d"]], [b"ab", b"cd"]),
    "three parts": ([[b"a", b"b", b"c"]], [b"ab", b"c"]),
    "a long body": ([[b"head ", LONG]], [b"head ", LONG]),
    "no body": ([[b"head ", b""]], [b"head "]),
    "nothing": ([[b""], [b"a"]], [b"a"]),
}


@pytest.mark.parametrize(("turns", "expected"), TURNS.values(), ids=TURNS)
def test_parts_of_a_turn_go_out_in_pairs(turns, expected):
    async def main():
        socket = Socket()
        joining = _Joining(socket, asyncio.get_running_loop())
        for parts in turns:
            for part in parts:
                joining.write(part)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return socket.written

    assert asyncio.run(main()) == expected


def test_what_is_kept_is_written_before_the_end():
    async def main():
        socket = Socket()
        joining = _Joining(socket, asyncio.get_running_loop())
        joining.write(b"head")
        joining.close()
        await asyncio.sleep(0)
        return socket.written

    assert asyncio.run(main()) == [b"head", "closed"]


def test_nothing_is_written_to_who_has_gone():
    async def main():
        socket = Socket()
        _Joining(socket, asyncio.get_running_loop()).write(b"head")
        socket.close()  # the other side did
        await asyncio.sleep(0)
        return socket.written

    assert asyncio.run(main()) == ["closed"]


def test_lines_come_behind_what_is_kept():
    async def main():
        socket = Socket()
        joining = _Joining(socket, asyncio.get_running_loop())
        joining.write(b"head ")
        joining.writelines([b"a", b"b"])
        return socket.written

    assert asyncio.run(main()) == [b"head ab"]


def test_all_else_is_the_transports():
    assert _Joining(Socket(), None).get_extra_info("peername") == "peername"
