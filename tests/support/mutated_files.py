"""Damaged files of every format that `load` reads: each is refused by a `CheckpointError`, or read; nothing crashes, hangs, or runs.

python -m tests.support.mutated_files --count 10000          all formats; prints what became of the files
python -m tests.support.mutated_files --count 10000 gguf     one of them
"""

from __future__ import annotations

import argparse
import io
import random
import resource
import struct
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy
import safetensors.numpy

import dynograd as dg
from dynograd.errors import CheckpointError
from tests.saving import test_gguf_files as gguf

SECONDS = 5.0  # the longest that a file of some thousand bytes may take; far more than it does on a busy machine
BYTES = 4 << 30  # of address space beyond what the process has


def state():
    values = dg.arange(48.0).view(6, 8)
    return {
        "a.weight": values,
        "view": values[1:3].t(),
        "half": dg.ones(5).bfloat16(),
        "n": dg.arange(7),
        "empty": dg.zeros(0, 2),
    }


def by_save(form, **more):
    file = io.BytesIO()
    dg.save({**state(), **more}, file, format=form)
    return file.getvalue()


def compressed():
    file = io.BytesIO()
    numpy.savez_compressed(file, **{name: x.numpy() for name, x in state().items() if name != "half"})
    return file.getvalue()


def gguf_file():
    entries = [gguf.entry("text", 8, gguf.text("word")), gguf.entry("number", 4, struct.pack("<I", 7))]
    entries += [gguf.entry("words", 9, struct.pack("<IQ", 8, 2) + gguf.text("a") + gguf.text("bb"))]
    entries += [
        gguf.entry("numbers", 9, struct.pack("<IQ3h", 3, 3, 1, 2, 3)),
        gguf.entry("general.alignment", 4, struct.pack("<I", 32)),
    ]
    places = [gguf.place("f", (4, 2), 0, 0), gguf.place("h", (3,), 1, 32), gguf.place("b", (2,), 30, 64)]
    blocks = b""
    if gguf.has_package():
        places += [
            gguf.place(name, (2 * row[2],), row[0], 96 + 512 * i) for i, (name, row) in enumerate(gguf.BLOCKS.items())
        ]
        blocks = random.Random(0).randbytes(512 * len(gguf.BLOCKS))
    return gguf.gguf_file(entries, places, bytes(96) + blocks)


FORMATS = {
    "safetensors": lambda: by_save(None, more=[1, "two", (3.0, None)]),
    "safetensors of others": lambda: safetensors.numpy.save(
        {"a": numpy.arange(6.0).reshape(2, 3), "b": numpy.ones(3, "i1")}
    ),
    "pt": lambda: by_save("pt", more=[1, "two", (3.0, None)], parameter=dg.nn.Parameter(dg.ones(2))),
    "npz": lambda: by_save("npz"),
    "npz compressed": compressed,
    "gguf": gguf_file,
}
NUMBERS = [-1, 0, 1, 255, 65535, 1 << 30, -(1 << 31), (1 << 31) - 1]


def mutant(raw, chance):
    """`raw` with one to four changes of the kinds that fuzzers make; most at the beginning or at the end, where formats have numbers."""
    changed = bytearray(raw)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        if len(changed) < 8:
            break
        region = chance.choice([len(changed), len(changed), min(len(changed), 300)])
        begin = chance.randrange(region) if chance.random() < 0.7 else len(changed) - 1 - chance.randrange(region)
        end, other = begin + chance.choice([1, 2, 4, 8, 64, 500]), chance.randrange(len(changed))
        kind = chance.randrange(9)
        if kind == 0:
            changed[begin] ^= 1 << chance.randrange(8)
        elif kind == 1:
            changed[begin] = chance.choice(b'\x00\xff\x7f\x80"{}[]():,0123456789-\\ <>|')
        elif kind == 2:
            changed[begin:end] = chance.randbytes(end - begin)
        elif kind == 3:
            del changed[begin:end]
        elif kind == 4:
            changed[other:other] = changed[begin:end]
        elif kind == 5:
            del changed[begin:]
        elif kind == 6:
            changed[begin:end] = changed[other : other + end - begin]
        elif kind == 7:
            changed[begin : begin + 4] = struct.pack("<i", chance.choice(NUMBERS))
        else:
            changed[begin : begin + 8] = struct.pack("<q", chance.choice(NUMBERS) << chance.choice([0, 20, 31]))
    return bytes(changed)


def of_a_folder(name):
    """A file of a model's folder, which is damaged there."""

    def prepare(folder):
        dg.saving.save_folder(
            {letter: dg.ones(3) for letter in "abc"}, folder, {"model_type": "a", "list": [1, 2.5]}, max_shard_size=12
        )
        return folder / name

    return prepare


FOLDERS = {"index": of_a_folder("model.safetensors.index.json"), "config": of_a_folder("config.json")}


def damage(form, count, seed, folder):
    """How many of `count` mutants were refused and read.

    Raises:
        AssertionError: one ended in another way; its seed and number are told, and the file lies in the folder.
    """
    path, read = Path(folder) / "mutant", dg.load
    if form in FOLDERS:
        path = FOLDERS[form](Path(folder))
        raw, read = path.read_bytes(), lambda path, **options: dg.saving.load_folder(path.parent, "cpu")
    else:
        raw = FORMATS[form]()
        path.write_bytes(raw)
    read(path)
    outcomes = {"refused": 0, "read": 0}
    for number in range(count):
        path.write_bytes(mutant(raw, random.Random(f"{seed} {form} {number}")))
        begin, outcome = time.perf_counter(), "read"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                read(path, map_location="cpu", mmap=number % 3 == 0 or None)
        except CheckpointError:
            outcome = "refused"
        except Exception as error:
            if isinstance(error, ImportError) and "dynograd[gguf]" in str(error) and not gguf.has_package():
                continue
            raise AssertionError(f"{form}, seed {seed}, number {number}: {type(error).__name__}: {error}") from error
        assert time.perf_counter() - begin < SECONDS, f"{form}, seed {seed}, number {number}: too slow"
        outcomes[outcome] += 1
    return outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "formats", nargs="*", metavar="format", help=f"of {', '.join((*FORMATS, *FOLDERS))}; all when left out"
    )
    parser.add_argument("--count", type=int, default=10_000, help="mutants of each")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if sys.platform == "linux":
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + BYTES, resource.RLIM_INFINITY))
    for form in options.formats or (*FORMATS, *FOLDERS):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            outcomes = damage(form, options.count, options.seed, folder)
            print(
                f"{form:22} {outcomes['refused']:6} refused {outcomes['read']:6} read {time.perf_counter() - begin:6.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
