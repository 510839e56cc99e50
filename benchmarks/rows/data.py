"""Loading data: an epoch of sentences, a batch of images, and how long the first batch takes.

A step of `data.text` is an epoch over 10,000 made-up sentences in padded batches of 64, from starting the workers to ending them; with
`.kept` they persist. torch pads by its usual collate_fn around `pad_sequence`, dynograd by `collate_pad`. `data.plain` is an epoch over
10,000 samples cut from an array of rows, in batches of 16, with the same code for both: `tensor(rows[i:j])`, `pad_sequence`. A step of
`data.images` is one batch of 32 pictures of 3x256x256, 25 MB, stacked (of `data.bytes`: of 3x64x64 bytes, made float and scaled); the
epoch under way goes on from step to step. A step of `data.first` starts two workers on small samples and waits for the first batch.
"""

from __future__ import annotations

import collections
import functools
from itertools import islice

import numpy

from benchmarks.workload import Workload, fingerprint, generator, row

SENTENCES = 10_000
BATCH = 64
PICTURES = 32


class Text:
    """Token sequences of 2 to 100 (median 20) with a label."""

    def __init__(self, torch, count):
        random = generator(3)
        lengths = numpy.clip(random.lognormal(3, 0.6, count), 2, 100).astype(int)
        self.samples = [(torch.from_numpy(random.integers(1, 10_000, size)), int(size % 2)) for size in lengths]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


class Pictures:
    def __init__(self, torch):
        self.torch = torch
        self.pictures = generator(4).standard_normal((8, 3, 256, 256), dtype=numpy.float32)

    def __len__(self):
        return 1 << 40

    def __getitem__(self, index):
        return self.torch.from_numpy(self.pictures[index % 8]), index


class Plain:
    """What a program writes first: pieces of 5 to 60 rows of 8 numbers."""

    def __init__(self, torch, count):
        random = generator(5)
        self.tensor = torch.tensor
        self.places = numpy.concatenate([[0], random.integers(5, 61, count).cumsum()])
        self.rows = random.standard_normal((self.places[-1], 8), dtype=numpy.float32)

    def __len__(self):
        return len(self.places) - 1

    def __getitem__(self, index):
        return self.tensor(self.rows[self.places[index] : self.places[index + 1]]), index


class Bytes:
    def __init__(self, torch):
        self.torch = torch
        self.pictures = generator(6).integers(0, 256, (64, 3, 64, 64), dtype=numpy.uint8)

    def __len__(self):
        return 1 << 40

    def __getitem__(self, index):
        return self.torch.from_numpy(self.pictures[index % 64]).float() / 255, index


class Small:
    def __len__(self):
        return 6400

    def __getitem__(self, index):
        return numpy.full(10, index, numpy.float32), index


def padded(torch, batch):
    """torch's usual way."""
    sequences = [sequence for sequence, _ in batch]
    return (
        torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True),
        torch.tensor([len(sequence) for sequence in sequences]),
        torch.tensor([label for _, label in batch]),
    )


def text(torch, workers, kept=False, count=SENTENCES):
    collate = torch.data.collate_pad() if hasattr(torch, "data") else functools.partial(padded, torch)
    loader = torch.utils.data.DataLoader(
        Text(torch, count), BATCH, collate_fn=collate, num_workers=workers, persistent_workers=kept
    )

    def epoch():
        return collections.deque(loader, maxlen=1).pop()

    def checksum():
        return fingerprint(float(sum(batch[1].sum().item() for batch in loader)), epoch()[0].float())

    return Workload(epoch, checksum)


def plain(torch, workers, count=SENTENCES):
    loader = torch.utils.data.DataLoader(
        Plain(torch, count), 16, collate_fn=functools.partial(padded, torch), num_workers=workers
    )

    def epoch():
        return collections.deque(loader, maxlen=1).pop()

    return Workload(epoch, lambda: fingerprint(*[batch[0].sum().item() for batch in islice(loader, 4)]))


def images(torch, workers, pictures=Pictures):
    loader = torch.utils.data.DataLoader(pictures(torch), PICTURES, sampler=range(1 << 40), num_workers=workers)
    batches = iter(loader)

    def step():
        pictures, _ = next(batches)
        return float(pictures[0, 0, 0, 0])

    return Workload(
        step,
        lambda: fingerprint(*[numpy.float64(sum(pictures[0, 0, 0].tolist())) for pictures, _ in islice(loader, 2)]),
    )


def first(torch, method):
    loader = torch.utils.data.DataLoader(Small(), 32, num_workers=2, multiprocessing_context=method)
    return Workload(lambda: next(iter(loader)), lambda: fingerprint(next(iter(loader))[0]))


def register():
    for workers in (0, 1, 2):
        row(
            f"data.text.{workers}",
            group="data",
            compiles=False,
            small=functools.partial(text, workers=workers, count=200),
        )(functools.partial(text, workers=workers))
        row(f"data.images.{workers}", group="data", compiles=False)(functools.partial(images, workers=workers))
        row(f"data.bytes.{workers}", group="data", compiles=False)(
            functools.partial(images, workers=workers, pictures=Bytes)
        )
        row(
            f"data.plain.{workers}",
            group="data",
            compiles=False,
            small=functools.partial(plain, workers=workers, count=200),
        )(functools.partial(plain, workers=workers))
        if workers:
            row(
                f"data.text.{workers}.kept",
                group="data",
                compiles=False,
                small=functools.partial(text, workers=workers, kept=True, count=200),
            )(functools.partial(text, workers=workers, kept=True))
    for method in ("fork", "forkserver"):
        row(f"data.first.{method}", group="data", compiles=False)(functools.partial(first, method=method))


register()
