"""Collectives and messages of ragged tensors, of uneven sizes, and of a mesh: what each rank gets, run by ranks in threads and over MPI."""

import ml_dtypes
import numpy as np

import dynograd
from dynograd import distributed
from dynograd.distributed.device_mesh import init_device_mesh

DTYPES = ("float32", "float64", "bfloat16", "int64")


def rows_of(rank, dtype):
    """The rows of a rank: as many as its number and one more, of other lengths than those of the others, some of them empty."""
    lengths = [(rank + 2 * place) % 4 for place in range(rank + 1)]
    return [(np.arange(2 * length) + 10 * rank).reshape(length, 2).astype(_kind(dtype)) for length in lengths]


def _kind(dtype):
    return getattr(ml_dtypes, dtype, dtype)


def _ragged(rows):
    x = dynograd.ragged_tensor([dynograd.tensor(row) for row in rows], ragged_dims=1)
    assert [len(row) for row in rows] == x.lengths.tolist()
    return x


def _shown(x):
    """A ragged tensor as lists of rows, with its dtype."""
    return [str(x.dtype).rpartition(".")[2], [row.double().tolist() for row in x.unbind()]]


def _expected(rows, dtype):
    return [dtype, [row.astype(np.float64).tolist() for row in rows]]


def _broadcast(x, rank, size):
    distributed.broadcast(x, size - 1)
    return _shown(x)


def _all_gather(x, rank, size):
    places = [None] * size
    distributed.all_gather(places, x)
    return [_shown(y) for y in places]


def _gather_async(x, rank, size):
    places = [None] * size if rank == 0 else None
    work = distributed.gather(x, places, dst=0, async_op=True)
    work.wait()
    return [_shown(y) for y in work.result()]


def _scatter(x, rank, size):
    parts = [_ragged(rows_of(place, str(x.dtype).rpartition(".")[2])) for place in range(size)] if rank == 0 else None
    distributed.scatter(x, parts, src=0)
    return _shown(x)


def _all_to_all(x, rank, size):
    places = [None] * size
    distributed.all_to_all(places, [x[: place + 1] for place in range(size)])
    return [_shown(y) for y in places]


def _in_a_ring(x, rank, size):
    y = _ragged(rows_of(0, str(x.dtype).rpartition(".")[2]))
    ops = [
        distributed.P2POp(distributed.isend, x, (rank + 1) % size),
        distributed.P2POp(distributed.irecv, y, (rank - 1) % size),
    ]
    for work in distributed.batch_isend_irecv(ops):
        work.wait()
    return _shown(y)


def _from_any(x, rank, size):
    if rank:
        distributed.send(x, 0, tag=rank)
        return []
    received = []
    for source in range(1, size):
        y = _ragged(rows_of(0, str(x.dtype).rpartition(".")[2]))
        assert distributed.recv(y, None, tag=source) == source
        received.append(_shown(y))
    return received


def _levels(x, rank, size):
    """Documents of sentences."""
    documents = dynograd.ragged_tensor([[[1.0] * (rank + 1), [2.0]], [[3.0]] * rank + [[4.0]]])
    distributed.broadcast(documents, size - 1)
    return str(documents.tolist() if hasattr(documents, "tolist") else documents)


def _pictures(x, rank, size):
    """Rows with two ragged dims."""
    pictures = dynograd.ragged_tensor([dynograd.ones(rank + 1, 2), dynograd.ones(1, rank + 3)])
    places = [None] * size
    distributed.all_gather(places, pictures)
    return [[tuple(row.shape) for row in y.unbind()] for y in places]


def _same_rows(x, rank, size):
    y = dynograd.ragged_tensor([dynograd.ones(2, 2), dynograd.ones(1, 2)]) * (rank + 1)
    distributed.all_reduce(y)
    return _shown(y)


def _uneven_gather(x, rank, size):
    result = dynograd.empty(sum(range(1, size + 1)), 2, dtype=x.dtype)
    own = dynograd.full((rank + 1, 2), rank, dtype=x.dtype)
    distributed.all_gather_into_tensor(result, own, output_split_sizes=range(1, size + 1))
    return result[:, 0].double().tolist()


def _uneven_reduce_scatter(x, rank, size):
    total = sum(range(1, size + 1))
    result = dynograd.empty(rank + 1, dtype=x.dtype)
    distributed.reduce_scatter_tensor(result, dynograd.arange(total).to(x.dtype), input_split_sizes=range(1, size + 1))
    return result.double().tolist()


def _uneven_lists(x, rank, size):
    result = dynograd.empty(rank + 1, dtype=x.dtype)
    distributed.reduce_scatter(result, [dynograd.full((place + 1,), place, dtype=x.dtype) for place in range(size)])
    targets = [dynograd.empty(place + 1, dtype=x.dtype) for place in range(size)] if rank == 0 else None
    distributed.gather(result, targets, dst=0)
    part = dynograd.empty(rank + 1, dtype=x.dtype)
    distributed.scatter(part, targets, src=0)
    return part.double().tolist()


def _lines(x, rank, size):
    """Sums along both dims of a mesh, and over all of it."""
    mesh = init_device_mesh("cpu", (2, size // 2) if size % 2 == 0 else (1, size), mesh_dim_names=("dp", "tp"))
    every = mesh["dp", "tp"].flatten("every")
    sums = []
    for group in (mesh.get_group("dp"), mesh["tp"].get_group(), mesh["every"].get_group()):
        y = dynograd.tensor([1 << rank])
        distributed.all_reduce(y, group=group)
        sums.append(y.item())
    return [*sums, mesh.get_coordinate(), mesh["tp"].get_local_rank(), every.size()]


def _lines_reference(rank, size, dtype):
    grid = np.arange(size).reshape((2, size // 2) if size % 2 == 0 else (1, size))
    row, column = (int(place[0]) for place in np.where(grid == rank))
    sums = [sum(1 << int(other) for other in line) for line in (grid[:, column], grid[row], grid.reshape(-1))]
    return [*sums, [row, column], column, size]


# name: (what a rank does, what it gets as a function of its rank, the number of ranks and the dtype)
CASES = {
    "broadcast": (_broadcast, lambda r, n, d: _expected(rows_of(n - 1, d), d)),
    "all_gather": (_all_gather, lambda r, n, d: [_expected(rows_of(k, d), d) for k in range(n)]),
    "gather": (_gather_async, lambda r, n, d: [_expected(rows_of(k, d), d) for k in range(n)] if r == 0 else []),
    "scatter": (_scatter, lambda r, n, d: _expected(rows_of(r, d), d)),
    "all_to_all": (_all_to_all, lambda r, n, d: [_expected(rows_of(k, d)[: r + 1], d) for k in range(n)]),
    "isend and irecv": (_in_a_ring, lambda r, n, d: _expected(rows_of((r - 1) % n, d), d)),
    "recv of any": (_from_any, lambda r, n, d: [_expected(rows_of(k, d), d) for k in range(1, n)] if r == 0 else []),
    "levels": (
        _levels,
        lambda r, n, d: str(dynograd.ragged_tensor([[[1.0] * n, [2.0]], [[3.0]] * (n - 1) + [[4.0]]]).tolist()),
    ),
    "pictures": (_pictures, lambda r, n, d: [[(k + 1, 2), (1, k + 3)] for k in range(n)]),
    "all_reduce of the same rows": (
        _same_rows,
        lambda r, n, d: _expected([np.full((2, 2), n * (n + 1) / 2), np.full((1, 2), n * (n + 1) / 2)], "float32"),
    ),
    "all_gather_into_tensor": (_uneven_gather, lambda r, n, d: [float(k) for k in range(n) for _ in range(k + 1)]),
    "reduce_scatter_tensor": (
        _uneven_reduce_scatter,
        lambda r, n, d: [float(n * k) for k in range(r * (r + 1) // 2, (r + 1) * (r + 2) // 2)],
    ),
    "lists of uneven sizes": (_uneven_lists, lambda r, n, d: [float(n * r)] * (r + 1)),
    "mesh": (_lines, _lines_reference),
}


def failures() -> list[str]:
    """What is wrong in this rank, in a group that is there."""
    rank, size = distributed.get_rank(), distributed.get_world_size()
    wrong = []
    for name, (call, reference) in CASES.items():
        for dtype in DTYPES:
            if size == 1 and name == "isend and irecv":
                continue
            result = call(_ragged(rows_of(rank, dtype)), rank, size)
            expected = reference(rank, size, dtype)
            if result != expected:
                wrong.append(f"{name} {dtype}, rank {rank} of {size}: got {result!r}, expected {expected!r}")
    return wrong
