"""Compares `distributed.Network` with real ranks: python -m dynograd.run -n 2 -m tests.support.network_model

Latency and bandwidth are taken from two sizes, and the others are foretold: in shared memory, and by messages.
"""

from __future__ import annotations

import time

import numpy as np

from dynograd import distributed
from dynograd.distributed import Network, ReduceOp
from dynograd.distributed.communicators.protocol import Communicator
from dynograd.distributed.communicators.windows import CHUNK

SIZES = (1 << 12, 1 << 16, 1 << 20, 1 << 22, 25 << 20, 100 << 20)
FROM = (1 << 12, 1 << 23)


def seconds(all_reduce, communicator: Communicator, size: int) -> float:
    """The best time of an all-reduce, of the slowest rank."""
    array, best = np.ones(size // 4, np.float32), np.inf
    for _ in range(max(5, min(300, (200 << 20) // size))):
        communicator.barrier()
        begun = time.perf_counter()
        all_reduce(communicator, [array], ReduceOp.MAX)
        best = min(best, time.perf_counter() - begun)
    slowest = np.array([best])
    communicator.all_reduce([slowest], ReduceOp.MAX)
    return float(slowest[0])


def main() -> None:
    distributed.init_process_group()
    world = distributed.group.WORLD
    communicator, ranks = world.communicator, world.size()
    ways = {"shared memory": type(communicator).all_reduce, "messages": Communicator.all_reduce}
    for way, all_reduce in ways.items():
        small, large = [seconds(all_reduce, communicator, size) for size in FROM]
        if way == "messages":
            latency = small / (2 * (ranks - 1))
            bandwidth = 2 * FROM[1] * (ranks - 1) / ranks / (large - small)
            network = Network(latency=latency, bandwidth=bandwidth, per_host=1)
            constants = f"latency {1e6 * latency:.0f} us, {bandwidth / 1e9:.1f} GB/s"
        else:
            meeting = small / 2
            memory = 4 * FROM[1] * ranks / (large - 2 * meeting * (FROM[1] // CHUNK))
            network = Network(per_host=ranks, meeting=meeting, memory=memory)
            constants = f"meeting {1e6 * meeting:.0f} us, memory {memory / 1e9:.1f} GB/s"
        for size in SIZES:
            real = seconds(all_reduce, communicator, size)
            model = network.seconds("all_reduce", size, ranks)
            if world.rank() == 0:
                print(f"{way}, {constants}: {size >> 10:7} KiB {1e3 * real:9.3f} ms, foretold {1e3 * model:9.3f} ms")


if __name__ == "__main__":
    main()
