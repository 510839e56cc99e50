"""Whether files whose contents are run, or that must not be another's, are the user's own: what others can exchange is theirs to choose."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

__all__ = ["NotOwn", "open_own", "why_not_alone"]

_UNKNOWN = 65534  # the owner of what belongs to users outside a container: root, for folders above a user's
_READ = os.O_RDONLY
for _flag in ("O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"):  # Windows has the last alone
    _READ |= getattr(os, _flag, 0)


class NotOwn(ValueError):
    """A file that others could have written, and why."""


def open_own(path: str | Path, owners: tuple[int, ...] = (), group: int | None = None) -> BinaryIO:
    """The file, open for reading; it is looked at when it is open, so that no other one is read than the one looked at.

    A link is not followed, and a pipe is not waited for.

    Args:
        owners: users beside this one who may have written it.
        group: one that may write it.
    Raises:
        NotOwn: others can write it, or it is no ordinary file.
        OSError: it cannot be opened.
    """
    try:
        handle = os.open(path, _READ)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK) and os.path.islink(path):
            raise NotOwn("is a link") from None
        raise
    status = os.fstat(handle)
    why = _why_not(status, owners, "chmod go-w", group) if stat.S_ISREG(status.st_mode) else "is no ordinary file"
    if why is not None:
        os.close(handle)
        raise NotOwn(why)
    return os.fdopen(handle, "rb")


def why_not_alone(folder: str | Path, mend: str, owners: tuple[int, ...] = (), group: int | None = None) -> str | None:
    """Why others could exchange what is in a folder; None where only the user (root, `owners`) can.

    The folders above count too: who can write one of them can rename what is below, unless it is one like /tmp, where only owners can.

    Args:
        mend: the command that is told.
        group: one that may write the folder.
    """
    if not hasattr(os, "geteuid"):
        return None
    place = os.path.realpath(folder)
    why = _why_not(os.stat(place), owners, mend, group)
    while why is None and (above := os.path.dirname(place)) != place:
        place = above
        status = os.stat(place)
        if status.st_uid not in (os.geteuid(), 0, _UNKNOWN, *owners):
            why = f"lies in {place}, which belongs to user {status.st_uid}, not to you ({os.geteuid()})"
        elif status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            why = f"lies in {place}, which can be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return why


def _why_not(status: os.stat_result, owners: tuple[int, ...], mend: str, group: int | None = None) -> str | None:
    """Why others could write a file or folder of this status."""
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid not in (os.geteuid(), *owners):
        others = ", root or the owner of dynograd" if owners else ""
        return f"belongs to user {status.st_uid}, not to you ({os.geteuid()}){others}"
    if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid != group):
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):o}; {mend} mends it)"
    return None
