"""The two processes that are compared, seen from the one that compares."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.machine import thread_settings

__all__ = ["ROOT", "RowFailed", "Side", "environment", "output_of"]

ROOT = Path(__file__).parent.parent


class RowFailed(Exception):
    """What a worker said when it could not do as told."""


def environment(threads: int, **more: str) -> dict[str, str]:
    """The environment of every process that is measured; the project's folder is importable in it.

    Bytecode is kept for the next process, as installing a package does: a machine that forbids it would measure Python's parser.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return own | thread_settings(threads) | {"PYTHONPATH": path} | more


def output_of(arguments: list[str], threads: int, **more: str) -> str:
    """What a new Python prints; raises RowFailed with what it said when it could not."""
    result = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT, env=environment(threads, **more)
    )
    if result.returncode:
        raise RowFailed(result.stderr or f"the process ended with status {result.returncode}")
    return result.stdout


class Side:
    """A library in a worker process. The worker starts at the first request, and again after a crash."""

    def __init__(
        self,
        label: str,
        library: str,
        threads: int,
        realtime: bool = False,
        compiles: bool = False,
        checkout: Path | None = None,
        mode: str = "",
        dynamic: str = "",
        everywhere: bool = False,
        patience: float | None = None,
    ):
        self.label = label
        self.library = library
        self.threads = threads
        self.realtime = realtime
        self.compiles = compiles
        """Whether its models go through `library.compile`."""
        self.mode = mode
        """Of `library.compile`, if it is not the usual one."""
        self.dynamic = dynamic
        """The same: "yes" or "no"."""
        self.everywhere = everywhere
        """Whether rows that are usually left out of compiling take part."""
        self.patience = patience
        """Seconds until an answer is not waited for any more, and the worker is ended; None: no end."""
        self.checkout = checkout
        """Another checkout whose package is timed, with the rows of this one."""
        self.only_package: tempfile.TemporaryDirectory[str] | None = None
        self.process = None

    def ask(self, do: str, **request):
        """Sends a request and waits for its answer; raises RowFailed with the worker's traceback."""
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(json.dumps({"do": do} | request) + "\n")
            self.process.stdin.flush()
            answers, *_ = select.select([self.process.stdout], [], [], self.patience)
            if not answers:
                self.process.kill()
                self.close()
                raise RowFailed(f"not ready within {self.patience:g} s (--patience)")
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self.process.wait()
            self.close()
            raise RowFailed(f"the worker of {self.label} ended with status {status}")
        reply = json.loads(line)
        if "error" in reply:
            raise RowFailed(reply["error"])
        return reply["answer"]

    def start(self):
        wishes = ["realtime"] * self.realtime + ["compile"] * self.compiles + ["everywhere"] * self.everywhere
        wishes += [f"mode={self.mode}"] * bool(self.mode) + [f"dynamic={self.dynamic}"] * bool(self.dynamic)
        variables, flags = environment(self.threads), []
        if self.checkout is not None:
            self.only_package = tempfile.TemporaryDirectory()  # its benchmarks must not come before ours
            os.symlink(self.checkout / self.library, Path(self.only_package.name) / self.library)
            variables["PYTHONPATH"] = os.pathsep.join([self.only_package.name, variables["PYTHONPATH"]])
            flags = ["-P"]  # else the working directory would come first
        self.process = subprocess.Popen(
            [sys.executable, *flags, "-m", "benchmarks.worker", self.library, str(self.threads), *wishes],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=variables,
        )

    def close(self):
        if self.process is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
            self.process = None
        if self.only_package is not None:
            self.only_package.cleanup()
            self.only_package = None
