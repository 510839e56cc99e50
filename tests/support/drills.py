"""Drills: a job whose rank is killed, raises, exits, hangs, is told to stop or finds the disk full at a random moment, and is started again.

python -m tests.support.drills 100 [seed]      so many of them, with what was seen
"""

from __future__ import annotations

import collections
import hashlib
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
STEPS = 60

# what a rank does: what the launcher says of it, if ranks wait {watch} seconds for one that hangs
WAYS = {
    "kill": "was killed by SIGKILL",
    "raise": "ended with ValueError: a drill",
    "exit": "ended with SystemExit: 3",
    "hang": "has not come for {watch} s",
    "term": "was stopped by SIGTERM",
    "full": "ended with CheckpointError: save",
}


class Fault:
    """What is to happen in a rank, a while after its first step."""

    def __init__(self, how: str, delay: float, folder: Path) -> None:
        self.how, self.delay, self.folder = how, delay, folder
        self.is_due = False
        threading.Thread(target=self._wait, daemon=True).start()

    def _note(self) -> None:
        (self.folder / "moment").write_text(str(time.time()))

    def _wait(self) -> None:
        time.sleep(self.delay)
        if self.how in ("raise", "exit"):
            self.is_due = True
            return
        self._note()
        if self.how == "full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
            return
        names = {"kill": signal.SIGKILL, "hang": signal.SIGSTOP, "term": signal.SIGTERM}
        os.kill(os.getpid(), names[self.how])

    def happen(self) -> None:
        """Called by the program here and there."""
        if self.is_due:
            self._note()
            if self.how == "exit":
                sys.exit(3)
            raise ValueError("a drill")


def program(folder: Path) -> None:
    """Trains as a rank."""
    import dynograd
    from dynograd import distributed, nn
    from dynograd.distributed import board

    distributed.init_process_group()
    dynograd.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(0.1), nn.GELU(), nn.Linear(64, 16))
    optimizer = dynograd.optim.AdamW(model.parameters(), lr=1e-3)
    loader = dynograd.data.DataLoader(dynograd.randn(160, 16), 16, shuffle=True)
    shards = distributed.VirtualShards(model, 4)
    fault = None
    with dynograd.Run(folder / "run", model=model, optimizer=optimizer, loader=loader, save_every=3) as run:
        how, rank, delay = os.environ.get("DRILL", "none 0 0").split()
        is_meant = int(rank) == distributed.get_rank() and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
        for _ in run.epochs(STEPS // 10):
            for x in run.steps():
                optimizer.zero_grad()
                for part in shards.of(x):
                    time.sleep(0.01)
                    nn.functional.mse_loss(model(part), part).backward()
                    if fault is not None:
                        fault.happen()
                optimizer.step()
                if run.step < 2:  # MPI's memory is there
                    (folder / f"names-{os.getpid()}").write_text("\n".join(board.shared_files()))
                if fault is None and how != "none" and is_meant:
                    fault = Fault(how, float(delay), folder)
    weights = b"".join([parameter.detach().numpy().tobytes() for parameter in model.parameters()])
    print("weights", hashlib.sha256(weights).hexdigest()[:16], "of step", run.step, flush=True)


class Drill:
    """One job: how it ended, and what it came to when it was started again."""

    def __init__(self, how: str, rank: int, delay: float, ranks: int = 2, watch: int = 2) -> None:
        self.how, self.rank, self.watch = how, rank, watch
        self.seconds: float | None = None
        self.left: list[str] = []
        self.processes: list[str] = []
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"PYTHONPATH": str(ROOT), "DRILL": f"{how} {rank} {delay}"}
            command = f"-m dynograd.run -n {ranks} --watch {watch} --restarts 1 -m tests.support.drills train {folder}"
            job = subprocess.Popen(
                [sys.executable, *command.split()],
                env=environment,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert job.stdout is not None and job.stderr is not None
            lines = []
            for line in job.stderr:
                lines.append(line)
                if line.startswith("dynograd.run: the job has ended"):
                    self.seconds = time.time() - float((Path(folder) / "moment").read_text())
                if line.startswith("dynograd.run: starts again"):
                    self.left = _left(folder)
                    self.processes = [pid for pid in _pids(lines) if Path(f"/proc/{pid}").exists()]
            self.written, self.code = "".join(lines), job.wait()
            self.weights = re.findall(r"^weights (.*)$", job.stdout.read(), re.M)
            job.stdout.close()
            job.stderr.close()
            self.left_behind = _left(folder)
            self.running = [entry for entry in _command_lines() if folder in entry]

    def problems(self, weights: str, limit: float = 5) -> list[str]:
        """What was not as it should be; `weights` are those of a job that nothing happened to, `limit` the seconds that the end may take."""
        problems = []
        if self.how != "none":
            where = r"in step \d+, (in|behind) .* at \S*drills\.py:\d+ in program"
            named = rf"ended with exit status \d+\.\n  rank {self.rank} \(pid \d+ on \S+\) {re.escape(WAYS[self.how].format(watch=self.watch))}.*{where}\n"
            if not re.search(named, self.written):
                problems.append("the rank is not named")
            if not re.search(rf"  rank {1 - self.rank} \(pid \d+ on \S+\) .*{where}", self.written):
                problems.append("where the other rank was is not said")
            if self.seconds is None or self.seconds > limit:
                problems.append(f"took {self.seconds} s to end")
            elif self.left or self.processes:
                problems.append(f"left {self.left} and the processes {self.processes}")
        if self.code or self.weights != [weights]:
            problems.append(f"came to {self.weights} with exit status {self.code}")
        if self.left_behind or self.running:
            problems.append(f"left {self.left_behind} and {self.running}")
        return problems


def _left(folder: str) -> list[str]:
    """Of the names in shared memory that the job's processes have used those that are there still."""
    names = [name for path in Path(folder).glob("names-*") for name in path.read_text().splitlines()]
    return sorted({name for name in names if os.path.exists(name)})


def _pids(lines: list[str]) -> list[str]:
    return re.findall(r"\(pid (\d+) on", "".join(lines))


def _command_lines() -> list[str]:
    texts = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            texts.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return texts


def undisturbed() -> str:
    """The weights of a job that nothing happens to."""
    drill = Drill("none", 0, 0)
    if drill.code or len(drill.weights) != 1:
        raise RuntimeError(f"a job without a fault ended with {drill.code}:\n{drill.written}")
    return str(drill.weights[0])


def main(count: int, seed: int) -> int:
    """Runs `count` drills; gives the number of those with problems."""
    draw = random.Random(seed)
    weights = undisturbed()
    seconds = collections.defaultdict(list)
    bad = 0
    for number in range(count):
        how = list(WAYS)[number % len(WAYS)]
        drill = Drill(how, draw.randrange(2), draw.uniform(0, 0.8))
        problems = drill.problems(weights)
        seconds[how].append(drill.seconds or float("inf"))
        if problems:
            bad += 1
            print(f"drill {number}: {how} in rank {drill.rank}: {'; '.join(problems)}\n{drill.written}", flush=True)
    for how, times in seconds.items():
        print(
            f"{how:6} {len(times):4} drills, ended after {sum(times) / len(times):.2f} s on average, {max(times):.2f} s at most"
        )
    print(
        f"{count - bad} of {count} ended with the right rank named within 5 s, nothing left, and went on to the same bits"
    )
    return bad


if __name__ == "__main__":
    if sys.argv[1] == "train":
        program(Path(sys.argv[2]))
    else:
        sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0) > 0)
