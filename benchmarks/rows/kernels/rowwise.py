"""What works along rows: softmax, losses, norms, reductions, scans, sorting."""

from __future__ import annotations

from benchmarks.kernel import Kernel, draw, kernel
from benchmarks.workload import generator

TABLE = (4096, 1024)
SHORT = (64, 100)
SMALL = (4, 5)
PICTURES = (32, 64, 56, 56)


@kernel("softmax", SHORT, TABLE, small=SMALL)
def softmax(torch, rows, columns):
    return Kernel(lambda x: torch.softmax(x, -1), draw(torch, (rows, columns)))


@kernel("log_softmax", SHORT, TABLE, small=SMALL)
def log_softmax(torch, rows, columns):
    return Kernel(lambda x: torch.log_softmax(x, -1), draw(torch, (rows, columns)))


@kernel("cross_entropy", SHORT, TABLE, (512, 32000), small=SMALL, forms="backward")
def cross_entropy(torch, rows, columns):
    """Scores read once, their gradient written once."""
    (x,) = draw(torch, (rows, columns))
    y = torch.from_numpy(generator(22).integers(0, columns, rows))
    return Kernel(torch.nn.functional.cross_entropy, (x, y), backward_moved=2 * 4 * rows * columns)


@kernel("ctc_loss", (150, 32, 60, 30), small=(6, 2, 4, 2), forms="backward")
def ctc_loss(torch, steps, batch, classes, labels):
    """The recursion over states is what costs; moved are log-probabilities and their gradient."""
    (x,) = draw(torch, (steps, batch, classes))
    log_probs = torch.log_softmax(x, -1)
    targets = torch.from_numpy(generator(22).integers(1, classes, (batch, labels)))
    inputs, lengths = torch.full((batch,), steps), torch.full((batch,), labels)

    def loss(log_probs, targets):
        return torch.nn.functional.ctc_loss(log_probs, targets, inputs, lengths)

    return Kernel(loss, (log_probs, targets), backward_moved=3 * 4 * steps * batch * classes)


@kernel("segment_reduce", (1_000_000, 20_000), (200_000, 64, 5_000), small=(20, 4))
def segment_reduce(torch, rows, *rest):
    """Maxima of segments of random lengths, some empty."""
    *columns, count = rest
    (x,) = draw(torch, (rows, *columns))
    cuts = sorted(generator(22).integers(0, rows + 1, count - 1).tolist())
    lengths = torch.tensor([last - first for first, last in zip([0, *cuts], [*cuts, rows], strict=True)])
    return Kernel(lambda x: torch.segment_reduce(x, "max", lengths=lengths, initial=-9), (x,))


@kernel("layer_norm", (1024, 256), TABLE, small=SMALL)
def layer_norm(torch, rows, columns):
    norm = torch.nn.functional.layer_norm
    return Kernel(lambda x, w, b: norm(x, (columns,), w, b), draw(torch, (rows, columns), (columns,), (columns,)))


@kernel("rms_norm", (1024, 256), TABLE, small=SMALL)
def rms_norm(torch, rows, columns):
    norm = torch.nn.functional.rms_norm
    return Kernel(lambda x, w: norm(x, (columns,), w, 1e-6), draw(torch, (rows, columns), (columns,)))


@kernel("batch_norm", (32, 16, 32, 32), PICTURES, small=(2, 4, 3, 3))
def batch_norm(torch, batch, channels, height, width):
    """In training: statistics of the batch, running statistics brought up to date."""
    norm = torch.nn.functional.batch_norm
    mean, variance = torch.zeros(channels), torch.ones(channels)
    return Kernel(
        lambda x, w, b: norm(x, mean, variance, w, b, training=True),
        draw(torch, (batch, channels, height, width), (channels,), (channels,)),
    )


@kernel("group_norm", PICTURES, small=(2, 8, 3, 3))
def group_norm(torch, batch, channels, height, width):
    """Eight groups."""
    norm = torch.nn.functional.group_norm
    return Kernel(
        lambda x, w, b: norm(x, 8, w, b), draw(torch, (batch, channels, height, width), (channels,), (channels,))
    )


def reduction(name, function, **options):
    kernel(name, TABLE, small=SMALL, forms="forward", **options)(
        lambda torch, rows, columns: Kernel(lambda x: function(torch, x), draw(torch, (rows, columns)))
    )


reduction("sum_rows", lambda torch, x: torch.sum(x, -1))
reduction("sum_columns", lambda torch, x: torch.sum(x, 0))
reduction("max", lambda torch, x: tuple(torch.max(x, -1)))
reduction("argmax", lambda torch, x: torch.argmax(x, -1))
reduction("cumsum", lambda torch, x: torch.cumsum(x, -1))
reduction("sort", lambda torch, x: tuple(torch.sort(x, -1)))
reduction("topk", lambda torch, x: tuple(torch.topk(x, 3, -1)))
