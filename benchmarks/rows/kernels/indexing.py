"""Reading and adding by index."""

from __future__ import annotations

from benchmarks.kernel import Kernel, draw, kernel
from benchmarks.workload import generator


def positions(torch, high, *shape):
    return torch.from_numpy(generator(23).integers(0, high, shape))


@kernel("embedding", (4096, 30000, 256), small=(6, 5, 4))
def embedding(torch, count, vocabulary, features):
    """Backward writes a gradient of the whole table."""
    (table,) = draw(torch, (vocabulary, features))
    lookup = torch.nn.functional.embedding
    chosen = 4 * count * features
    return Kernel(
        lookup,
        (positions(torch, vocabulary, count), table),
        moved=2 * chosen,
        backward_moved=3 * chosen + 4 * vocabulary * features,
    )


@kernel("gather", (4096, 1024), small=(4, 5), forms="forward")
def gather(torch, rows, columns):
    """Along the rows, an index for each element."""
    (x,) = draw(torch, (rows, columns))
    return Kernel(lambda x, index: torch.gather(x, 1, index), (x, positions(torch, columns, rows, columns)))


@kernel("index_rows", (50000, 5000, 64), small=(6, 5, 4))
def index_rows(torch, count, rows, columns):
    """x[index]; backward adds up what fell on the same row."""
    (x,) = draw(torch, (rows, columns))
    return Kernel(
        lambda x, index: x[index],
        (x, positions(torch, rows, count)),
        backward_moved=2 * 4 * (count + rows) * columns + 2 * 8 * count,
    )


@kernel("index_add", (50000, 5000, 64), small=(6, 5, 4), forms="forward")
def index_add(torch, count, rows, columns):
    x, y = draw(torch, (rows, columns), (count, columns))
    return Kernel(lambda x, index, y: x.index_add(0, index, y), (x, positions(torch, rows, count), y))


@kernel("scatter_add", (50000, 5000, 64), small=(6, 5, 4), forms="forward")
def scatter_add(torch, count, rows, columns):
    """The same sum, the index repeated for each column as a view."""
    x, y = draw(torch, (rows, columns), (count, columns))
    index = positions(torch, rows, count)
    wide = index[:, None].expand(count, columns)
    moved = 4 * (2 * rows + count) * columns + 8 * count
    return Kernel(lambda x, index, y: torch.scatter_add(x, 0, index, y), (x, wide, y), moved=moved)


@kernel("scatter_amax", (2**20, 1000), small=(9, 4), forms="forward")
def scatter_amax(torch, count, groups):
    """The largest of each of many groups."""
    x, y = draw(torch, (groups,), (count,))
    index = positions(torch, groups, count)
    return Kernel(lambda x, index, y: x.scatter_reduce(0, index, y, "amax"), (x, index, y))


@kernel("searchsorted", (2**20, 2**20), small=(5, 7), forms="forward")
def searchsorted(torch, count, size):
    """Random values among as many sorted ones: memory that is waited for."""
    x, y = draw(torch, (count,), (size,))
    return Kernel(torch.searchsorted, (torch.sort(y)[0], x))


@kernel("bincount", (2**20, 1000), small=(9, 4), forms="forward")
def bincount(torch, count, groups):
    return Kernel(torch.bincount, (positions(torch, groups, count),))


@kernel("unique", (2**20, 1000), (2**20, 2**40), small=(9, 4), forms="forward")
def unique(torch, count, high):
    """Of few numbers, and of numbers that are nearly all different."""
    return Kernel(torch.unique, (positions(torch, high, count),))


@kernel("sort.line", (2**20,), small=(9,), forms="forward")
def sort_line(torch, count):
    (x,) = draw(torch, (count,))
    return Kernel(lambda x: tuple(torch.sort(x)), (x,))


@kernel("sort.whole", (2**20, 2**31), small=(9, 4), forms="forward")
def sort_whole(torch, count, high):
    """Whole numbers on both sides of zero."""
    return Kernel(lambda x: tuple(torch.sort(x)), (positions(torch, high, count) - high // 2,))


@kernel("scatter_columns", (1024, 1024), (16384, 64), small=(4, 5), forms="forward")
def scatter_columns(torch, rows, columns):
    """Each element to a row of its own: every write is to another cache line."""
    x, y = draw(torch, (rows, columns), (rows, columns))
    index = positions(torch, rows, rows, columns)
    return Kernel(lambda x, index, y: torch.scatter(x, 0, index, y), (x, index, y))


@kernel("gather_columns", (1024, 1024), (350000, 3), small=(4, 3), forms="forward")
def gather_columns(torch, rows, columns):
    """Each element from a row of its own."""
    (x,) = draw(torch, (rows, columns))
    return Kernel(lambda x, index: torch.gather(x, 0, index), (x, positions(torch, rows, rows, columns)))


@kernel("index_copy_columns", (1024, 1024), small=(4, 5), forms="forward")
def index_copy_columns(torch, rows, columns):
    x, y = draw(torch, (rows, columns), (rows, columns))
    return Kernel(lambda x, index, y: x.index_copy(1, index, y), (x, positions(torch, columns, columns), y))


@kernel("nonzero_plane", (1024, 1024), small=(4, 5), forms="forward")
def nonzero_plane(torch, rows, columns):
    (x,) = draw(torch, (rows, columns))
    return Kernel(lambda x: torch.nonzero(x > 0), (x,))


@kernel("flip_line", (2**20,), (100000,), small=(9,), forms="forward")
def flip_line(torch, count):
    (x,) = draw(torch, (count,))
    return Kernel(lambda x: torch.flip(x, (0,)), (x,))
