"""What a job's board tells when the job has ended badly: who ended how, and where the others were."""

from __future__ import annotations

import signal
from pathlib import Path

from dynograd.distributed import board as boards
from dynograd.distributed.board import Board

__all__ = ["report"]


def report(path: Path, size: int, code: int, first: int | None, host: str) -> str:
    """A text of the job's end.

    Args:
        path: of the board.
        size: how many processes this host had.
        code: the job's exit status.
        first: the number of the process that MPI has seen end first, or None.
        host: the name of this machine.
    """
    board = Board(path, size)
    records = board.records
    lines = [f"dynograd.run: the job has ended with exit status {code}."]
    places = [place for place in range(size) if records["state"][place] != boards.ABSENT]
    # A rank that only tells of another one is none to blame, if there is one that does not.
    failed = [place for place in places if records["state"][place] == boards.FAILED]
    causes = [place for place in failed if not board.text(place, "error").startswith("RankError")] or failed
    killed = [place for place in places if records["pid"][place] == first and place not in failed]
    for place in killed or causes:
        lines.append(_line(board, place, _end(board, place, code, place in killed), host))
    for place in places:
        if place not in (killed or causes):
            state = board.text(place, "error") if place in failed else "was ended" if records["waits"][place] else "ran"
            lines.append(_line(board, place, state, host))
    if not places:
        lines.append("  No rank had called distributed.init_process_group: what they wrote above says why.")
    board.close()
    return "\n".join(lines)


def _end(board: Board, place: int, code: int, is_killed: bool) -> str:
    if not is_killed:
        return f"ended with {board.text(place, 'error')}"
    try:
        return f"was killed by {signal.Signals(code).name}"
    except ValueError:
        return f"ended with exit status {code}"


def _line(board: Board, place: int, what: str, host: str) -> str:
    record = board.records[place]
    step = f" in step {record['step']}" if record["step"] >= 0 else ""
    call, line = board.text(place, "call"), board.text(place, "line")
    where = "before its first collective"
    if call:
        where = f"in {call} at {line}" if record["waits"] else f"behind {call} at {line}"
    return f"  rank {record['rank']} (pid {record['pid']} on {host}) {what}{step}, {where}"
