"""Starts a program several times, as ranks of one job: `python -m dynograd.run -n 4 train.py --lr 0.1`.

MPI starts the processes (mpi4py and an MPI: `pip install 'dynograd[mpi]'`), on this machine or on several (`--hosts a,b`). torchrun's options are
understood. If a rank ends badly, all end, and one message says which one, where it was, and in which collective the others were.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from dynograd.distributed import starting
from dynograd.distributed.jobs.first_end import FirstEnd
from dynograd.distributed.jobs.orphans import Orphans
from dynograd.distributed.jobs.post_mortem import report, running

__all__ = ["main"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m dynograd.run", description=(__doc__ or "").split("\n\n")[0])
    add = parser.add_argument
    add(
        "-n",
        "--nproc-per-node",
        "--nproc_per_node",
        "--nproc",
        default="1",
        help="processes on each host: a number, or `auto` (one a core)",
    )
    add("--nnodes", default="1", help="how many hosts")
    add("--hosts", default="", help="their names, with commas between; as many as --nnodes")
    add(
        "--restarts",
        "--max-restarts",
        "--max_restarts",
        type=int,
        default=0,
        help="start again so often if a rank ends badly",
    )
    add("--watch", type=float, default=None, help="seconds that ranks wait for each other; 1800 unless given")
    add("-m", "--module", action="store_true", help="the program is a module")
    for name in "--node-rank --master-addr --master-port --rdzv-backend --rdzv-endpoint --rdzv-id --rdzv-conf --log-dir --role --start-method".split():
        add(
            name,
            "--" + name[2:].replace("-", "_"),
            default=None,
            help="understood for torchrun's sake; MPI finds the processes",
        )
    add("--standalone", action="store_true", help="understood for torchrun's sake")
    add("program", help="a file, or a module with -m")
    add("arguments", nargs=argparse.REMAINDER, help="for the program")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Starts a job and waits for it.

    Args:
        arguments: of the command line.
    Returns:
        0, or the exit status of the job.
    """
    options = _parser().parse_args(arguments)
    count = _count(options.nproc_per_node)
    hosts = [host for host in options.hosts.split(",") if host]
    nodes = int(str(options.nnodes).split(":")[-1])
    if hosts and nodes not in (1, len(hosts)):
        sys.exit(f"dynograd.run: --nnodes {nodes}, but --hosts names {len(hosts)}: {options.hosts}")
    if nodes > 1 and not hosts:
        sys.exit(
            f"dynograd.run: --nnodes {nodes} needs their names: --hosts a,b. In a job of SLURM leave both out and start with "
            f"`srun python -m dynograd.distributed.child {options.program}`."
        )
    size = count * max(len(hosts), 1)
    received: list[int] = []  # signals
    options.began = repr(time.time())
    for attempt in range(options.restarts + 1):
        code = _run(options, count, size, hosts, attempt, received)
        if code == 0 or received or attempt == options.restarts:
            return code
        print(f"dynograd.run: starts again ({attempt + 1} of {options.restarts} times)", file=sys.stderr, flush=True)
    return code


def _count(text: str) -> int:
    if text in ("auto", "cpu"):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.isdigit() or int(text) < 1:
        sys.exit(f"dynograd.run: expected -n to be a number of processes from 1, or auto; got {text!r}")
    return int(text)


def _run(
    options: argparse.Namespace, count: int, size: int, hosts: list[str], attempt: int, received: list[int]
) -> int:
    with tempfile.TemporaryDirectory(prefix="dynograd-run-") as folder, Orphans() as orphans:
        board = Path(folder) / "board"
        board.touch(0o600)
        environment = {name: value for name, value in os.environ.items() if name not in _OF_AN_OUTER_JOB} | {
            starting.BOARD: str(board),
            starting.BEGAN: options.began,
            "TORCHELASTIC_RESTART_COUNT": str(attempt),
        }
        if size == 1:
            environment |= {"RANK": "0", "WORLD_SIZE": "1"}
        if options.watch is not None:
            environment["DYNOGRAD_WATCH"] = str(options.watch)
        command = [
            sys.executable,
            "-m",
            "dynograd.distributed.child",
            *(["-m"] if options.module else []),
            options.program,
        ]
        command += options.arguments
        if size > 1:
            command = [*_mpiexec(size, count, hosts), *command]
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=False
        )
        outputs = [_Output(process.stdout, sys.stdout), _Output(process.stderr, sys.stderr)]
        with FirstEnd(board, count) as first_end:
            code = _wait(process, board, count, received)
        if code:
            orphans.end()
        for output in outputs:
            output.finish()
        if code:
            first = first_end.pid or next((output.pid for output in outputs if output.pid is not None), None)
            number = (
                -code if code < 0 else next((output.signal for output in outputs if output.signal is not None), None)
            )
            print(report(board, count, abs(code), first, platform.node(), number), file=sys.stderr, flush=True)
        return abs(code)


# What another launcher around this one has said: a job of SLURM, say.
_OF_AN_OUTER_JOB = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "PMI_RANK", "PMI_SIZE")


def _wait(process: subprocess.Popen[bytes], path: Path, count: int, received: list[int]) -> int:
    """Waits for the job and gives its exit status, or the number of the signal that ended it, negative.

    A signal goes to the ranks, which may save; the second one of a kind ends the job.
    """

    def end(number: int, frame: Any) -> None:
        pids = [] if number in received else running(path, count)
        received.append(number)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if not pids:
            process.send_signal(number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code


class _Output:
    """Hands on what a job writes, without what MPI's launcher says of the end, of which it keeps who ended first, and by which signal."""

    def __init__(self, source: Any, target: Any) -> None:
        self._source, self._target = source, target
        self._rest = b""
        self.pid: int | None = None
        self.signal: int | None = None
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        target = getattr(self._target, "buffer", None)
        kept = b""
        while data := os.read(self._source.fileno(), 1 << 16):
            if self._rest:  # MPI's last words have begun
                self._rest += data
                continue
            data, kept = kept + data, b""
            begin = _LAST_WORDS.search(data)
            if begin:
                self._rest = data[begin.start() :]
                data = data[: begin.start()]
            elif part := _PERHAPS.search(data):
                data, kept = data[: part.start()], data[part.start() :]
            if target is None:
                self._target.write(data.decode(errors="replace"))
            else:
                target.write(data)
            self._target.flush()
        if kept:
            self._target.write(kept.decode())
            self._target.flush()

    def finish(self) -> None:
        """Waits for the last line."""
        self._thread.join()
        self._source.close()
        process = re.search(rb"PID (\d+) RUNNING AT", self._rest)
        if process:
            self.pid = int(process[1])
        number = re.search(rb"\(signal (\d+)\)|exited on signal (\d+)", self._rest)
        if number:
            self.signal = int(number[1] or number[2])


# What Hydra (MPICH) and PRRTE (Open MPI) begin their reports with.
_LAST_WORDS = re.compile(
    rb"\n?={60,}\n=   BAD TERMINATION|^Abort\(\d+\) on node|\n?-{60,}\n(?:MPI_ABORT|prterun|mpirun|mpiexec)", re.M
)


_PERHAPS = re.compile(rb"\n?={8,}\n?$")  # what may be their beginning


def path_of_mpiexec() -> str | None:
    """Where MPI's own launcher is: beside this Python, or in the path; None where there is none."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def _mpiexec(size: int, count: int, hosts: list[str]) -> list[str]:
    """MPI's own command for so many processes."""
    path = path_of_mpiexec()
    if path is None:
        sys.exit(
            f"dynograd.run: {size} processes need MPI, and there is no mpiexec. Install the extra mpi (pip install 'dynograd[mpi]'), or the "
            f"MPI of your cluster."
        )
    version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    if "Open MPI" in version or "PRRTE" in version or "OpenRTE" in version:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        places = ["--host", ",".join([f"{host}:{count}" for host in hosts])] if hosts else []
        return [path, *root, "--oversubscribe", *places, "-n", str(size)]
    places = ["-hosts", ",".join(hosts), "-ppn", str(count)] if hosts else []
    return [path, *places, "-n", str(size)]


if __name__ == "__main__":
    sys.exit(main())
