"""A stand-in for `os` in `dynograd.base.files` that fails, or ends the process, at a chosen call."""

from __future__ import annotations

import os
import signal

CALLS = ("open", "write", "lseek", "fsync", "replace", "close", "listdir", "unlink", "stat", "chmod")


class FaultyOs:
    """`os`, but call number `place` to one of `names` (counted from 0) does not do what it should.

    Args:
        fault: an errno, or "kill": the process ends there, after half of what was to be written.
    """

    def __init__(self, place, fault, names=CALLS):
        self.place, self.fault, self.names = place, fault, names
        self.count = 0
        self.failed = None

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in self.names:
            return real

        def call(*args, **kwargs):
            here = self.count
            self.count += 1
            if here != self.place:
                return real(*args, **kwargs)
            self.failed = name
            if name == "write":
                real(args[0], args[1][: len(args[1]) // 2])
            if self.fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if name == "close":
                real(*args)
            raise OSError(self.fault, os.strerror(self.fault))

        return call
