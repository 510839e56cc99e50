"""`device_ids` and `output_device` of DistributedDataParallel: where inputs go, and what does not fit."""

import re
from typing import NamedTuple

import pytest

import dynograd as dg
from dynograd import distributed, nn
from dynograd.distributed.synchronizing import broadcast_tensors
from dynograd.nn.utils.rnn import pack_sequence

pytestmark = [
    pytest.mark.skipif(dg.cuda.device_count() < 2, reason="needs two devices: DYNOGRAD_CUDA=emulated:2"),
    pytest.mark.filterwarnings("ignore:distributed. arrays of GPUs go through the memory of the host"),
]


class Pair(NamedTuple):
    x: object
    name: str


class Looks(nn.Module):
    """Gives the devices of what it is called with."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(dg.ones(1))

    def forward(self, pair, packed, *, options):
        ragged = options["ragged"][0]
        return [str(x.device) for x in (pair.x, packed.data, ragged, self.weight)], pair.name, options["number"]


def called(device, **options):
    model = nn.parallel.DistributedDataParallel(Looks().to(device), **options)
    ragged = dg.ragged_tensor([dg.ones(2), dg.ones(1)])
    packed = pack_sequence([dg.ones(2), dg.ones(1)])
    return model(Pair(dg.ones(1), "a"), packed, options={"ragged": [ragged], "number": 3})


@pytest.mark.parametrize("how", ["number", "device", "text", "both"])
def test_inputs_are_moved(how):
    def program():
        index = 1 - distributed.get_rank()
        device = dg.device("cuda", index)
        options = {
            "number": {"device_ids": [index]},
            "device": {"device_ids": [device]},
            "text": {"device_ids": [str(device)]},
            "both": {"device_ids": [index], "output_device": index},
        }
        assert called(device, **options[how]) == ([str(device)] * 4, "a", 3)
        model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1).to(device), **options[how])
        return model.device_ids == [index] and model.output_device == index

    assert distributed.simulate(program, ranks=2) == [True, True]


def test_inputs_stay_where_they_are_otherwise():
    def program():
        devices = called(f"cuda:{distributed.get_rank()}")[0]
        return devices[:3]

    assert distributed.simulate(program, ranks=2) == [["cpu"] * 3] * 2


@pytest.mark.parametrize(
    ("where", "options", "words"),
    [
        (["cpu"], {"device_ids": [0]}, "only work with single-device GPU modules, but got device_ids [0]"),
        (["cpu"], {"output_device": 0}, "got device_ids [], output_device 0, and module parameters ['cpu']"),
        (["cuda:0"], {"device_ids": [0, 1]}, "device_ids can only be None or contain a single element, got [0, 1]"),
        (["cuda:0"], {"device_ids": [1]}, "the module is on cuda:0, got device_ids=1. Move it there before"),
        (["cuda:0"], {"device_ids": [0], "output_device": 1}, "the module is on cuda:0, got output_device=1."),
        (["cuda:0", "cuda:1"], {"device_ids": [0]}, "module parameters ['cuda:0', 'cuda:1']. Leave them out"),
        (["cuda:0", "cpu"], {}, "must be on the same type of devices"),
    ],
)
def test_what_does_not_fit(where, options, words):
    distributed.init_process_group()
    try:
        model = nn.Sequential(*[nn.Linear(1, 1).to(device) for device in where])
        with pytest.raises(ValueError, match=re.escape(words)):
            nn.parallel.DistributedDataParallel(model, **options)
    finally:
        distributed.destroy_process_group()


def test_tensors_of_several_dtypes_are_broadcast():
    def program():
        rank = distributed.get_rank()
        device = dg.device("cuda", rank)
        tensors = [
            dg.full((3,), float(rank + 1), device=device),
            dg.full((), rank + 5, device=device),
            dg.full((2, 3), float(rank + 1), device=device, dtype=dg.bfloat16).t(),
            dg.full((2,), float(rank + 3)),
            dg.full((2,), rank == 1, device=device),
            dg.zeros(0, device=device),
        ]
        broadcast_tensors(tensors, distributed.group.WORLD, 1)
        return [tensor.tolist() for tensor in tensors]

    expected = [[2.0] * 3, 6, [[2.0, 2.0]] * 3, [4.0] * 2, [True] * 2, []]
    assert distributed.simulate(program, ranks=2) == [expected, expected]
