"""Several ranks with a GPU each: collectives by NCCL's stand-in, and through the memory of the host."""

import sys
import warnings

import pytest

import dynograd as dg
from dynograd import distributed, nn
from dynograd.cuda import driver
from dynograd.distributed.device_mesh import init_device_mesh
from dynograd.distributed.splits import splits_of, whole_of
from dynograd.distributed.tensor import Replicate
from dynograd.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from dynograd.nn.sharding.fully_sharded import fully_shard
from dynograd.nn.sharding.states import StateDictOptions, get_model_state_dict
from dynograd.optim.sharded import ZeroRedundancyOptimizer
from tests.distributed import ragged_cases
from tests.distributed.rows import cases, failure
from tests.support import standin_nccl

COUNT = dg.cuda.device_count()
pytestmark = [
    pytest.mark.skipif(COUNT < 2, reason="needs two devices: DYNOGRAD_CUDA=emulated:3"),
    pytest.mark.skipif(not driver.is_emulated(), reason="the stand-in for NCCL reads the memory of emulated devices"),
]
RANKS = min(COUNT, 3)


@pytest.fixture(params=["by NCCL", "by the host"])
def engine(request, monkeypatch):
    if request.param == "by NCCL":
        monkeypatch.setitem(sys.modules, "nccl", None)
        monkeypatch.setitem(sys.modules, "nccl.core", None)
        standin_nccl.install()
    else:
        monkeypatch.setitem(sys.modules, "nccl", None)
        monkeypatch.delitem(sys.modules, "nccl.core", raising=False)
    standin_nccl.calls.clear()
    yield request.param
    assert bool(standin_nccl.calls) == (request.param == "by NCCL")


def run(program, *arguments):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "distributed: arrays of GPUs go through the memory of the host")
        return distributed.simulate(program, *arguments, ranks=RANKS)


def test_what_ranks_get(engine):
    def program():
        return [text for name, dtype in cases(RANKS) if (text := failure(name, dtype, RANKS))]

    failures = [text for part in run(program) for text in part]
    assert not failures, "\n".join(failures)


def model_of(device):
    dg.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4), nn.LayerNorm(4), nn.Linear(4, 2)
    )
    return model.to(device)


def batches():
    dg.manual_seed(1)
    return [dg.randn(4 * RANKS, 6) for _ in range(3)]


def train(model, optimizer, inputs, device, clip=None):
    for x in inputs:
        optimizer.zero_grad()
        loss = model(x.to(device)).square().mean()
        loss.backward()
        if clip is not None:
            clip(model)
        optimizer.step()


def own_part(x):
    return x.chunk(RANKS)[distributed.get_rank()]


def plain():
    model = model_of("cpu")
    train(model, dg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), batches(), "cpu")
    return model.state_dict()


def with_ddp(device, **options):
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model_of(device))
    ddp = nn.parallel.DistributedDataParallel(model, device_ids=[device.index], **options)
    train(ddp, dg.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9), [own_part(x) for x in batches()], device)
    return model.state_dict()


def _averaged(state, bucket):
    distributed.all_reduce(bucket.buffer(), distributed.ReduceOp.AVG)
    return bucket.buffer()


def with_a_hook(device):
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model_of(device))
    ddp = nn.parallel.DistributedDataParallel(model)
    ddp.register_comm_hook(None, _averaged)
    train(ddp, dg.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9), [own_part(x) for x in batches()], device)
    return model.state_dict()


def with_zero(device):
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model_of(device))
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(ddp.parameters(), dg.optim.SGD, lr=0.1, momentum=0.9)
    train(ddp, optimizer, [own_part(x) for x in batches()], device)
    return model.state_dict()


def with_shards(device):
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model_of(device))
    fully_shard(model)
    train(model, dg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), [own_part(x) for x in batches()], device)
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))


def in_parts(device):
    """The linear layers in parts."""
    mesh = init_device_mesh("cuda", (RANKS,))
    model = model_of(device)
    parallelize_module(
        model, mesh, {"0": ColwiseParallel(output_layouts=Replicate()), "3": RowwiseParallel(input_layouts=Replicate())}
    )
    train(model, dg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), batches(), device)
    return {
        name: whole_of(value, splits_of(model.get_parameter(name))) if name in dict(model.named_parameters()) else value
        for name, value in model.state_dict().items()
    }


PROGRAMS = {
    "DDP": with_ddp,
    "DDP in small buckets": lambda device: with_ddp(device, bucket_cap_mb=1e-4),
    "DDP with a hook": with_a_hook,
    "ZeRO": with_zero,
    "fully_shard": with_shards,
    "layers in parts": in_parts,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_training_equals_that_of_the_whole_batch(engine, name):
    def program():
        device = dg.device("cuda", distributed.get_rank())
        with dg.cuda.device(device):
            return {key: value.cpu() for key, value in PROGRAMS[name](device).items()}

    expected = plain()
    for state in run(program):
        assert set(state) == set(expected)
        for key, value in expected.items():
            if "num_batches" not in key:
                assert dg.allclose(state[key], value, atol=1e-5), key


def test_ragged_tensors_and_messages(engine):
    def program():
        with dg.device("cuda", distributed.get_rank()):
            x = dg.zeros(2)
            distributed.all_reduce(x)
            return [str(x.device), *ragged_cases.failures()]

    assert run(program) == [[f"cuda:{rank}"] for rank in range(RANKS)]


def test_virtual_shards_have_the_bits_of_one_process(engine):
    ranks = 2

    def program():
        device = dg.device("cuda", distributed.get_rank())
        dg.manual_seed(0)
        model = nn.Linear(6, 3).to(device)
        dg.ones(1, device=device)
        distributed.all_reduce(dg.ones(1, device=device))
        shards = distributed.VirtualShards(model, 4)
        optimizer = dg.optim.SGD(model.parameters(), lr=0.1)
        for x in dg.arange(96.0).view(2, 8, 6) / 50:
            optimizer.zero_grad()
            for part in shards.of(x.to(device)):
                model(part).square().mean().backward()
            optimizer.step()
        return model.weight.detach().cpu().numpy().tobytes()

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "distributed: arrays of GPUs go through the memory of the host")
        (alone,) = distributed.simulate(program, ranks=1)
        assert distributed.simulate(program, ranks=ranks) == [alone] * ranks


def test_calls_that_cannot_be(engine):
    def program(call):
        rank = distributed.get_rank()
        distributed.all_reduce(dg.ones(1, device=f"cuda:{rank}"))
        call(rank)

    def two_gpus(rank):
        distributed.all_reduce(dg.ones(1, device=f"cuda:{(rank + 1) % RANKS}"))

    def two_kinds(rank):
        distributed.all_gather([dg.ones(1) for _ in range(RANKS)], dg.ones(1, device=f"cuda:{rank}"))

    with pytest.raises(
        RuntimeError, match=r"rank \d uses cuda:(\d) for its group, got an array on cuda:\d.*\.to\('cuda:\1'\)"
    ):
        run(program, two_gpus)
    with pytest.raises(RuntimeError, match="a call has tensors on the CPU and on a GPU; move them to one device"):
        run(program, two_kinds)


REASONS = {
    "by NCCL": (
        lambda rank: 0,
        "the ranks \\[0, 1.*\\] share a GPU, and NCCL wants one for each: call cuda.set_device",
    ),
    "by the host": (lambda rank: rank, "nccl4py is not installed \\(pip install 'dynograd\\[nccl\\]'\\)"),
}


def test_it_is_said_why_arrays_go_through_the_memory_of_the_host(engine):
    place, reason = REASONS[engine]

    def program():
        x = dg.ones(2, device=f"cuda:{place(distributed.get_rank())}")
        distributed.all_reduce(x)
        distributed.all_reduce(x)
        return x.tolist()

    with pytest.warns(UserWarning, match=f"go through the memory of the host, which is slow, since {reason}") as told:
        assert distributed.simulate(program, ranks=RANKS) == [[float(RANKS**2)] * 2] * RANKS
    assert len(told) == 1
    standin_nccl.calls[:] = ["none"] * (engine == "by NCCL")


def test_work_is_waited_for_by_streams(engine):
    """The host goes on; what the caller's stream gets behind `wait` comes behind the sum."""

    def program():
        rank = distributed.get_rank()
        x = dg.ones(1000, device=f"cuda:{rank}")
        distributed.all_reduce(x)
        work = distributed.all_reduce(x, async_op=True)
        y = dg.ones(1000, device=f"cuda:{rank}")
        distributed.all_reduce(y)
        assert work.wait() and work.is_completed() and work.is_success()
        return x.sum().item() + y.sum().item()

    assert run(program) == [1000.0 * RANKS**2 + 1000.0 * RANKS] * RANKS
