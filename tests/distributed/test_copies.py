"""Copies of modules that belong to several processes: they train as the module does, or are refused with the way out."""

import copy
import pickle

import pytest

import dynograd as dg
from dynograd import distributed, nn
from dynograd.distributed.fsdp import fully_shard
from dynograd.distributed.splits import splits_of, whole_of
from dynograd.distributed.tensor import Replicate, Shard
from dynograd.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from dynograd.nn.parallel import DistributedDataParallel


def _in_parts():
    model = nn.Sequential(nn.Embedding(7, 4), nn.LayerNorm(4), nn.Linear(4, 6), nn.Linear(6, 2)).double()
    plan = {
        "0": RowwiseParallel(output_layouts=Shard(1)),
        "1": SequenceParallel(),
        "2": ColwiseParallel(input_layouts=Shard(1)),
        "3": RowwiseParallel(),
    }
    return parallelize_module(model, distributed.init_device_mesh("cpu", (2,)), plan)


def _with_prepared_inputs():
    model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 2)).double()
    style = PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Replicate())
    return parallelize_module(model, distributed.init_device_mesh("cpu", (2,)), {"1": style})


def _with_batches(**options):
    model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 2)).double()
    return DistributedDataParallel(model, **options)


def _hooked():
    model = _with_batches()

    def hook(group, bucket):
        joined = 2 * bucket.buffer()
        distributed.all_reduce(joined, distributed.ReduceOp.SUM, group)
        return joined

    model.register_comm_hook(None, hook)
    return model


def _steps(model, batch):
    optimizer = dg.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(batch).square().sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return [whole_of(parameter.detach(), splits_of(parameter)).tolist() for parameter in model.parameters()]


COPIED = {
    "parts": (_in_parts, False),
    "prepared inputs": (_with_prepared_inputs, False),
    "batches": (_with_batches, True),
    "batches by tokens": (lambda: _with_batches(average="tokens"), True),
    "batches by a hook": (_hooked, True),
}


@pytest.mark.parametrize("name", COPIED)
def test_a_copy_trains_as_the_module(name):
    make, has_own_batch = COPIED[name]

    def program():
        dg.manual_seed(0)
        model = make()
        rank = distributed.get_rank() if has_own_batch else 0
        batch = (
            dg.ragged_tensor([[1, 2, 3], [4]][rank : rank + 1]) if "tokens" in name else dg.tensor([[1, 2, 3, rank]])
        )
        second = copy.deepcopy(model)
        before = [parameter.tolist() for parameter in model.parameters()]
        of_copy = _steps(second, batch)
        assert before == [parameter.tolist() for parameter in model.parameters()]
        return of_copy, _steps(model, batch)

    (first, expected), (second, _) = distributed.simulate(program, ranks=2)
    assert first == expected
    assert second == first


DIVIDED = "fully_shard: Linear is divided and cannot be copied.*get_model_state_dict.*full_state_dict=True"
GROUP = "cannot be pickled. Save states: model.module.state_dict.*get_model_state_dict"


@pytest.mark.parametrize(
    ("make", "how", "words"),
    [
        (lambda: fully_shard(nn.Linear(2, 1)), copy.deepcopy, DIVIDED),
        (lambda: fully_shard(nn.Linear(2, 1)), dg.optim.swa_utils.AveragedModel, DIVIDED),
        (lambda: fully_shard(nn.Linear(2, 1)), pickle.dumps, GROUP),
        (_in_parts, pickle.dumps, GROUP),
        (_with_batches, pickle.dumps, GROUP),
    ],
)
def test_what_is_refused(make, how, words):
    with pytest.raises(TypeError, match=words):
        distributed.simulate(lambda: how(make()), ranks=2)
