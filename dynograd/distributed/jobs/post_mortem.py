"""What a job's board tells when the job has ended badly: who ended how, and where the others were."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from dynograd.distributed import board as boards
from dynograd.distributed.board import Board

__all__ = ["report", "running"]


def report(path: Path, size: int, code: int, first: int | None, host: str, signal_number: int | None = None) -> str:
    """A text of the job's end; what the job has left in shared memory is deleted.

    Args:
        path: of the board.
        size: how many processes this host had.
        code: the job's exit status.
        first: the number of the process that MPI has seen end first, or None.
        host: the name of this machine.
        signal_number: of the signal that ended that process, or None for one that has exited.
    """
    board = Board(path, size)
    _delete_files(board)
    lines = [f"dynograd.run: the job has ended with exit status {code}."]
    places = [place for place in range(size) if board.records["state"][place] != boards.ABSENT]
    end = f"ended with exit status {code}" if signal_number is None else f"was killed by {_signal_name(signal_number)}"
    ends = _ends(board, places, end, first)
    for place in sorted(places, key=lambda place: place not in ends):
        lines.append(_line(board, place, ends.get(place) or _other(board, place), host))
    if size == 1 and not places:
        lines.append(f"  The process {end}: what it wrote above says why.")
    elif not places:
        lines.append("  No rank had called distributed.init_process_group: what they wrote above says why.")
    board.close()
    return "\n".join(lines)


def running(path: Path, size: int) -> list[int]:
    """The numbers of the processes that have entered the board and still run.

    Args:
        path: of the board.
        size: how many processes this host has.
    """
    board = Board(path, size)
    pids = [
        int(record["pid"])
        for place, record in enumerate(board.records)
        if record["state"] != boards.ABSENT and board.is_alive(place)
    ]
    board.close()
    return pids


def _ends(board: Board, places: list[int], end: str, first: int | None) -> dict[int, str]:
    """How those have ended that the others could not wait for."""
    records = board.records
    failed = [place for place in places if records["state"][place] == boards.FAILED]
    ends = {place: board.text(place, "error") for place in failed if records["blamed"][place] < 0}
    ends |= {place: end for place in places if records["pid"][place] == first and place not in failed}
    for place in failed:
        blamed = int(records["blamed"][place])
        if blamed >= 0:
            ends.setdefault(blamed, board.text(place, "error"))
    return ends


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _other(board: Board, place: int) -> str:
    return "waited" if board.records["waits"][place] or board.records["blamed"][place] >= 0 else "ran"


def _line(board: Board, place: int, what: str, host: str) -> str:
    record = board.records[place]
    step = f" in step {record['step']}" if record["step"] >= 0 else ""
    call, line = board.text(place, "call"), board.text(place, "line")
    where = "before its first collective"
    if call:
        where = f"in {call} at {line}" if record["waits"] else f"behind {call} at {line}"
    return f"  rank {record['rank']} (pid {record['pid']} on {host}) {what}{step}, {where}"


def _delete_files(board: Board) -> None:
    for place in range(board.size):
        for path in board.text(place, "files").splitlines():
            if path.startswith("/dev/shm/"):
                with contextlib.suppress(OSError):
                    os.unlink(path)
