"""What each process of `test_mpi.py` runs with an emulated GPU of its own and a stand-in for NCCL."""

import sys

import dynograd
from dynograd import distributed, nn
from tests.distributed.rows import cases, failure
from tests.support import standin_nccl


def weights(device):
    """Of a model that has been trained a little by all processes."""
    dynograd.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2).to(device))
    optimizer = dynograd.optim.SGD(model.parameters(), lr=0.1)
    rank, size = distributed.get_rank(), distributed.get_world_size()
    for x in dynograd.arange(96.0).view(3, 8, 4) / 50:
        optimizer.zero_grad()
        model(x.chunk(size)[rank].to(device)).square().mean().backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


if __name__ == "__main__":
    standin_nccl.install()
    distributed.init_process_group("nccl")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    failures = [
        text
        for name, dtype in cases(size)
        if name != "all_reduce.of_groups"
        and (text := failure(name, dtype, size))  # the stand-in has no parts of a world
    ]
    for on_gpu, on_cpu in zip(weights(f"cuda:{rank}"), weights("cpu")):
        if not dynograd.allclose(on_gpu, on_cpu, atol=1e-6):
            failures.append(f"weights {on_gpu} and {on_cpu}")
    if not standin_nccl.calls:
        failures.append("NCCL was not used")
    gathered = [None] * size
    distributed.all_gather_object(gathered, failures)
    distributed.destroy_process_group()
    if failures:
        sys.exit("\n".join(failures))
    if rank == 0:
        print("done")
