"""Checkpoints of 100 MB in 250 tensors: written and brought to the disk, and read again.

torch writes with `torch.save` and then `os.fsync`, dynograd with `save`, which does that itself, takes checksums and renames. The floor
writes the same bytes from one array with `fsync`. Reading is `load` on both sides; the file lies in the system's memory.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile

import numpy

from benchmarks.workload import Workload, fingerprint, generator, normal, row

TENSORS = 250
ELEMENTS = 100_000


def folder():
    folder = tempfile.mkdtemp(prefix="checkpoint-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def state_of(torch, elements):
    random = generator(5)
    return {f"layer.{number}": torch.from_numpy(normal(random, elements)) for number in range(TENSORS)}


def write(torch, state, path):
    if hasattr(torch, "save_run"):
        torch.save(state, path)
        return
    with open(path, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())


def save(torch, elements=ELEMENTS):
    path, state = os.path.join(folder(), "saved"), state_of(torch, elements)
    write(torch, state, path)
    return Workload(
        lambda: write(torch, state, path),
        lambda: fingerprint(torch.load(path)["layer.0"][:100]),
        moved=4 * elements * TENSORS,
    )


def plain(elements=ELEMENTS):
    path, values = os.path.join(folder(), "saved"), normal(generator(5), elements * TENSORS)

    def step():
        with open(path, "wb") as file:
            file.write(values.data)
            file.flush()
            os.fsync(file.fileno())

    step()
    return Workload(step, lambda: fingerprint(numpy.fromfile(path, numpy.float32, 100)), moved=values.nbytes)


def load(torch, elements=ELEMENTS):
    path = os.path.join(folder(), "saved")
    write(torch, state_of(torch, elements), path)
    return Workload(
        lambda: torch.load(path), lambda: fingerprint(torch.load(path)["layer.0"][:100]), moved=4 * elements * TENSORS
    )


row("checkpoint.save", group="data", compiles=False, floor=plain, small=functools.partial(save, elements=100))(save)
row("checkpoint.load", group="data", compiles=False, small=functools.partial(load, elements=100))(load)
