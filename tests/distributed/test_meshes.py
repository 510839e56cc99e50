"""Meshes, and collectives of ragged tensors and of uneven sizes."""

import pytest

import dynograd
from dynograd import distributed
from dynograd.distributed.device_mesh import DeviceMesh, init_device_mesh
from tests.distributed.ragged_cases import failures


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
def test_what_ranks_get(ranks):
    wrong = [text for texts in distributed.simulate(failures, ranks=ranks) for text in texts]
    assert not wrong, "\n".join(wrong)


def test_a_mesh_of_three_dims():
    def program():
        mesh = init_device_mesh("cpu", (2, 2, 3), mesh_dim_names=("pp", "dp", "tp"))
        part = mesh["dp", "tp"]
        flat = mesh["pp", "tp"].flatten()
        return (
            part.mesh.tolist(),
            part["tp"].mesh.tolist(),
            mesh["pp_tp"] is flat and flat.mesh.tolist() == distributed.get_process_group_ranks(flat.get_group()),
            flat.mesh.tolist(),
            (mesh.size(), mesh.size("dp"), mesh.shape, part.shape, mesh.ndim),
        )

    results = distributed.simulate(program, ranks=12)
    assert results[7] == ([[6, 7, 8], [9, 10, 11]], [6, 7, 8], True, [0, 1, 2, 6, 7, 8], (12, 2, (2, 2, 3), (2, 3), 3))
    assert results[3][3] == [3, 4, 5, 9, 10, 11]


def test_processes_outside_a_mesh():
    def program():
        mesh = DeviceMesh("cpu", dynograd.tensor([2, 0]), mesh_dim_names=("dp",))
        if distributed.get_rank() == 1:
            with pytest.raises(RuntimeError, match=r"rank 1 has no place in DeviceMesh\(\(dp=2\), 'cpu', \[2, 0\]\)"):
                mesh.get_group()
            return mesh.get_coordinate(), None
        return mesh.get_coordinate(), mesh.get_local_rank()

    assert distributed.simulate(program, ranks=3) == [([1], 1), (None, None), ([0], 0)]


def test_meshes_are_equal_where_they_say_the_same():
    def program():
        first, second = (init_device_mesh("cpu", (2,), mesh_dim_names=("dp",)) for _ in range(2))
        other = init_device_mesh("cpu", (2,))
        return first == second and hash(first) == hash(second), first == other

    assert distributed.simulate(program, ranks=2) == [(True, False)] * 2


@pytest.mark.parametrize(
    ("program", "error", "words"),
    [
        (
            lambda: init_device_mesh("cpu", (3,)),
            ValueError,
            r"mesh_shape \(3,\) has 3 places, and there are 2 processes",
        ),
        (lambda: DeviceMesh("cpu", [0, 2]), ValueError, r"ranks from 0 to 1, each once, got \[0, 2\]"),
        (lambda: DeviceMesh("cpu", [0, 0]), ValueError, r"each once, got \[0, 0\]"),
        (lambda: DeviceMesh("cpu", "ab"), ValueError, "expected mesh to be a grid of ranks"),
        (lambda: init_device_mesh("cpu", (2,), mesh_dim_names=("a", "b")), ValueError, "to be 1 different names"),
        (lambda: init_device_mesh("cpu", (2, 1)).get_group(), RuntimeError, "mesh_dim must be given where there are 2"),
        (lambda: init_device_mesh("cpu", (2,), mesh_dim_names=("a",))["b"], KeyError, "there is no dim 'b'"),
        (lambda: init_device_mesh("cpu", (2,))["a"], RuntimeError, "has no names to take"),
        (
            lambda: init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "b"))["b", "a"],
            KeyError,
            r"names among \('a', 'b'\), each once and in that order",
        ),
        (
            lambda: distributed.all_reduce(dynograd.ragged_tensor([dynograd.ones(1 + distributed.get_rank())])),
            RuntimeError,
            "is not what rank",
        ),
        (
            lambda: distributed.all_gather([None], dynograd.ragged_tensor([[1.0]])),
            ValueError,
            "tensor_list to be a list of 2 places",
        ),
        (
            lambda: distributed.broadcast(dynograd.ragged_tensor([[1.0]], requires_grad=True), 0),
            RuntimeError,
            "requires grad cannot be given other rows",
        ),
        (
            lambda: distributed.all_gather_into_tensor(dynograd.empty(3), dynograd.empty(2), output_split_sizes=[1, 2]),
            RuntimeError,
            "input_tensor has 2 elements, and the split sizes say",
        ),
    ],
)
def test_what_is_refused(program, error, words):
    with pytest.raises(error, match=words):
        distributed.simulate(program, ranks=2)
