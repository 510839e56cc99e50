"""What each process of `test_mpi.py` trains: divided models beside whole ones, and how much memory a process keeps."""

import gc
import sys
from pathlib import Path

import numpy as np

import dynograd
from dynograd import distributed, nn
from dynograd.distributed.device_mesh import init_device_mesh
from dynograd.distributed.fsdp import fully_shard
from tests.distributed import test_fully_sharded, test_tensor_parallel

LAYERS, SIZE = 12, 1024


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


def own_bytes():
    """Memory of this process that it shares with none."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def memory(divide):
    """What a model, its gradients and the states of its optimizer take, in layers."""
    small = nn.Linear(300, 300, bias=False)  # kernels are there
    optimizer = dynograd.optim.AdamW(small.parameters())
    small(dynograd.ones(2, 300)).square().sum().backward()
    optimizer.step()
    before = own_bytes()
    layers = []
    for _ in range(LAYERS):
        layers.append(nn.Linear(SIZE, SIZE, bias=False))
        if divide:
            fully_shard(layers[-1], prefetch=False)
    model = nn.Sequential(*layers)
    if divide:
        fully_shard(model, prefetch=False)
    optimizer = dynograd.optim.AdamW(model.parameters())
    for _ in range(2):
        model(dynograd.ones(2, SIZE)).square().sum().backward()
        optimizer.step()
    gc.collect()
    taken = own_bytes() - before
    if divide:  # the parts lie in memory that others see
        taken += 4 * sum(parameter.numel() for parameter in model.parameters())
    return taken / (4 * SIZE * SIZE)


if __name__ == "__main__":
    distributed.init_process_group()
    if "remote" in sys.argv:  # as on several hosts: by messages, and reads of remote memory
        distributed.group.WORLD.communicator._is_one_host = False
    if sys.argv[1] == "memory":
        taken = memory(sys.argv[2] == "part")
        if distributed.get_rank() == 0:
            print(taken)
        distributed.destroy_process_group()
        sys.exit()
    failures = trained()
    gathered = [None] * distributed.get_world_size()
    distributed.all_gather_object(gathered, failures)
    rank = distributed.get_rank()
    distributed.destroy_process_group()
    if any(gathered):
        sys.exit("\n".join(text for texts in gathered for text in texts))
    if rank == 0:
        print("done")
