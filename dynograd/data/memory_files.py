"""Memory that processes can share, as a file without a name."""

from __future__ import annotations

import os
import tempfile

__all__ = ["shared_descriptor"]


def shared_descriptor(size: int) -> int:
    """A file of `size` bytes in memory, without a name: a memory file, or a file in /dev/shm that is unlinked at once.

    Raises:
        OSError: there is neither, or not enough of it.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("dynograd-loader")
        try:
            os.ftruncate(descriptor, size)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    descriptor, path = tempfile.mkstemp(prefix="dynograd-loader", dir=folder)
    try:
        os.unlink(path)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(
                descriptor, 0, size
            )  # a full /dev/shm says so here, and not by SIGBUS at the first write
        else:
            os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
