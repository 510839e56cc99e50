"""What each process of `test_mpi.py` trains: divided models beside whole ones, and how much memory a process needs."""

import sys
import tracemalloc

import numpy as np

import dynograd
from dynograd import distributed, nn
from dynograd.distributed.device_mesh import init_device_mesh
from tests.distributed import test_fully_sharded, test_tensor_parallel

LAYERS, SIZE = 16, 256


def _compare(what, results, references):
    if len(results) != len(references):
        return [f"{what}: {len(results)} results, expected {len(references)}"]
    differences = [abs(result - reference).max() for result, reference in zip(results, references)]
    return [f"{what}: differs by {max(differences)}"] if max(differences) > 1e-11 else []


def trained():
    """Where this process differs from one that trains alone."""
    rank, size = distributed.get_rank(), distributed.get_world_size()
    wrong = []
    for name in ("branches", "words", "trees", "blocks"):
        for way in ("layers", "layers, read ahead"):
            divide = test_fully_sharded.WAYS[way]
            results = test_fully_sharded._trained(name, rank, size, divide, 2.0)
            references = test_fully_sharded._trained(name, 0, 1, None, 2.0)
            wrong += _compare(f"{name}, {way}", results[0], references[0])
            wrong += _compare(f"{name}, {way}, norms", [np.array(results[2])], [np.array(references[2])])
    for name in ("language", "ragged language", "sequence", "fewer words than processes"):
        mesh = init_device_mesh("cpu", (size,))
        results, references = (test_tensor_parallel._trained(name, m) for m in (mesh, None))
        wrong += _compare(name, results, references)
    return [f"rank {rank} of {size}: {text}" for text in wrong]


def memory(divide):
    """Bytes of a model, its gradients and its optimizer's states, and the most that a step needs, in layers."""
    tracemalloc.start()
    model = nn.Sequential(*[nn.Linear(SIZE, SIZE, bias=False) for _ in range(LAYERS)])
    if divide:
        test_fully_sharded._divided(model)
    optimizer = dynograd.optim.AdamW(model.parameters())
    for step in range(3):
        if step == 2:
            tracemalloc.reset_peak()
        model(dynograd.ones(2, SIZE)).square().sum().backward()
        optimizer.step()
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if divide:  # the parts of parameters lie in memory that is shared, which is not counted
        shared = sum(parameter.numel() for parameter in model.parameters()) * 4
        kept, peak = kept + shared, peak + shared
    return kept / (4 * SIZE * SIZE), peak / (4 * SIZE * SIZE)


if __name__ == "__main__":
    distributed.init_process_group()
    if "remote" in sys.argv:  # as on several hosts: by messages, and reads of remote memory
        distributed.group.WORLD.communicator._is_one_host = False
    failures = trained()
    whole, part = memory(False), memory(True)
    gathered = [None] * distributed.get_world_size()
    distributed.all_gather_object(gathered, failures)
    rank = distributed.get_rank()
    distributed.destroy_process_group()
    if any(gathered):
        sys.exit("\n".join(text for texts in gathered for text in texts))
    if rank == 0:
        print("layers kept %.1f and %.1f, at most %.1f and %.1f" % (whole[0], part[0], whole[1], part[1]))
