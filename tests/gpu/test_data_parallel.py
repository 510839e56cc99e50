"""DataParallel over two and three devices: results, gradients and buffers are those of the module alone."""

import copy
from collections import namedtuple

import pytest

import dynograd as dg
from dynograd import amp, nn
from dynograd.cuda import comm
from dynograd.nn.parallel import gather, parallel_apply, replicate, scatter
from dynograd.nn.parallel.scatter_gather import scatter_kwargs
from dynograd.nn.utils.rnn import pack_sequence

COUNT = dg.cuda.device_count()
pytestmark = pytest.mark.skipif(COUNT < 2, reason="needs two GPUs, or DYNOGRAD_CUDA=emulated:3")
GPUS = range(min(COUNT, 3))
Pair = namedtuple("Pair", "scores size")


class Sentences(nn.Module):
    """An embedding under two names, an LSTM, and several kinds of arguments and results."""

    def __init__(self):
        super().__init__()
        self.words, self.recurrent = nn.Embedding(10, 6), nn.LSTM(6, 6, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(12, 6)
        self.scores = nn.Linear(6, 10, bias=False)
        self.scores.weight = self.words.weight
        self.register_buffer("scale", dg.tensor(0.5))
        self.gains = nn.ParameterList([dg.ones(6)])

    def forward(self, words, *, factor=1.0, others=None):
        states = self.tags(self.recurrent(self.words(words))[0]) * self.gains[0] * self.scale * factor
        if others is not None:
            states = states + others["more"][0].unsqueeze(1)
        return {"scores": Pair(self.scores(states), states.mean((1, 2))), "none": None}


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.recurrent = nn.Embedding(9, 8), nn.LSTM(8, 3, batch_first=True)

    def forward(self, words):
        return self.recurrent(self.words(words))[0]


def tensors(structure):
    if isinstance(structure, dg.Tensor):
        return [structure.values() if isinstance(structure, dg.RaggedTensor) else structure]
    values = structure.values() if isinstance(structure, dict) else structure or ()
    return [tensor for value in values for tensor in tensors(value)]


def rows(count):
    return dg.ragged_tensor([dg.arange(1, 2 + number % 4) for number in range(count)])


# (title, a module, its arguments for a number of rows, keyword arguments)
ROWS = [
    ("mlp", lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), lambda n: [dg.randn(n, 8)], {}),
    ("batch norm, eval", lambda: nn.BatchNorm1d(8).eval(), lambda n: [dg.randn(n, 8)], {}),
    ("dropout, eval", lambda: nn.Sequential(nn.Linear(8, 2), nn.Dropout()).eval(), lambda n: [dg.randn(n, 8)], {}),
    ("images", lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten()), lambda n: [dg.randn(n, 2, 5, 5)], {}),
    ("sentences", Sentences, lambda n: [dg.randint(10, (n, 4))], lambda n: {"factor": 2.0}),
    ("structures", Sentences, lambda n: [dg.randint(10, (n, 4))], lambda n: {"others": {"more": [dg.randn(n, 6)]}}),
    ("ragged", lambda: nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 3)), lambda n: [rows(n)], {}),
    ("ragged lstm", Reader, lambda n: [rows(n)], {}),
    ("weight norm", lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 2)), lambda n: [dg.randn(n, 8)], {}),
]  # fmt: skip


@pytest.mark.parametrize("count", [7, 6, 2, 1])
@pytest.mark.parametrize(("make", "arguments", "named"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_equal_to_the_module_alone(make, arguments, named, count):
    dg.manual_seed(0)
    alone = make().to("cuda:0")
    module = copy.deepcopy(alone)
    args, kwargs = arguments(count), named(count) if named else {}
    whole = alone(*scatter(args, [0])[0], **(scatter(kwargs, [0])[0]))
    parts = nn.DataParallel(module, [*GPUS])(*args, **kwargs)
    results = list(zip(tensors(parts), tensors(whole), strict=True))
    for part, expected in results:
        assert part.device == dg.device("cuda:0")
        dg.testing.assert_close(part, expected, rtol=1e-5, atol=1e-6)
    sum([part.square().sum() for part, _ in results]).backward()
    sum([expected.square().sum() for _, expected in results]).backward()
    for (name, parameter), twin in zip(module.named_parameters(), alone.parameters(), strict=True):
        assert parameter.grad.device == dg.device("cuda:0"), name
        dg.testing.assert_close(parameter.grad, twin.grad, rtol=1e-5, atol=1e-6)


def test_statistics_of_batch_norm_are_those_of_the_first_part():
    module = nn.BatchNorm1d(3, affine=False).to("cuda:0")
    x = dg.randn(4, 3)
    y = nn.DataParallel(module, [0, 1])(x)
    for part in (slice(0, 2), slice(2, 4)):
        twin = nn.BatchNorm1d(3, affine=False)
        dg.testing.assert_close(y[part].cpu(), twin(x[part]))
        if part.start == 0:
            dg.testing.assert_close(module.running_mean.cpu(), twin.running_mean)
    assert module.num_batches_tracked == 1


def test_random_numbers_differ_between_devices_and_repeat():
    model = nn.DataParallel(nn.Dropout(0.5), [0, 1])
    x = dg.ones(2, 64)
    dg.manual_seed(3)
    first, second = model(x), model(x)
    assert not dg.equal(first[0], first[1]) and not dg.equal(first, second)
    dg.manual_seed(3)
    for _ in range(5):  # whichever thread is faster
        dg.manual_seed(3)
        assert dg.equal(model(x), first) and dg.equal(model(x), second)


def test_threads_take_over_modes():
    seen = []

    class Modes(nn.Module):
        def forward(self, x):
            modes = dg.is_grad_enabled(), dg.is_inference_mode_enabled(), amp.is_autocast_enabled("cuda")
            seen.append((*modes, amp.get_autocast_dtype("cuda"), dg.cuda.current_device() == x.device.index))
            return x

    model = nn.DataParallel(Modes(), [0, 1])
    with dg.no_grad(), dg.autocast("cuda", dg.bfloat16):
        model(dg.zeros(2))
    with dg.inference_mode():
        model(dg.zeros(2))
    model(dg.zeros(2))
    default = amp.get_autocast_dtype("cuda")
    assert (
        seen
        == [(False, False, True, dg.bfloat16, True)] * 2
        + [(False, True, False, default, True)] * 2
        + [(True, False, False, default, True)] * 2
    )
    with dg.no_grad():
        assert not nn.DataParallel(nn.Linear(2, 1).cuda(), [0, 1])(dg.zeros(2, 2)).requires_grad


def test_numbers_and_modules_without_inputs():
    model = nn.DataParallel(nn.Linear(2, 1).cuda(), [0, 1])

    class Loss(nn.Module):
        def forward(self, x=None):
            return dg.ones(1, device="cuda") if x is None else x.sum()

    with pytest.warns(UserWarning, match="all input tensors were scalars"):
        loss = nn.DataParallel(Loss(), [0, 1])(dg.tensor([1.0, 2.0]))
    assert loss.tolist() == [1.0, 2.0] and nn.DataParallel(Loss(), [0, 1])().item() == 1.0
    assert nn.DataParallel(nn.Identity(), [0, 1], dim=1)(dg.zeros(3, 2)).shape == (3, 2)
    assert nn.DataParallel(nn.Identity(), [0, 1], output_device="cuda:1")(dg.zeros(3)).device == dg.device("cuda:1")
    assert nn.DataParallel(nn.Linear(2, 1), ["cuda:1"])(dg.zeros(3, 2)).device == dg.device("cuda:1")
    assert dg.equal(nn.parallel.data_parallel(model.module, dg.ones(3, 2)), model(dg.ones(3, 2)))
    assert (
        list(model.state_dict()) == ["module.weight", "module.bias"]
        and len(nn.DataParallel(Loss()).device_ids) == COUNT
    )


def test_replicas_have_parameters_of_their_device():
    network = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1)).to("cuda:0")
    first, second = replicate(network, [0, 1])
    assert first[0].weight is network[0].weight and first[1].running_mean is network[1].running_mean
    assert {tensor.device.index for tensor in (*second.parameters(), *second.buffers())} == {1}
    assert not any(tensor.requires_grad for tensor in replicate(network, [0, 1], detach=True)[1].parameters())
    with pytest.raises(ValueError, match="for each of 2 modules, got 1"):
        parallel_apply([first, second], [dg.zeros(2)])


def test_functions_of_comm():
    x = dg.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    pieces = comm.scatter(x, [0, 1], [2, 1])
    assert [(len(piece), piece.device.index) for piece in pieces] == [(2, 0), (1, 1)]
    total = comm.reduce_add([comm.gather(pieces, destination=1), comm.broadcast(x, [0, 1])[0]], 0)
    total.sum().backward()
    assert dg.equal(total.cpu(), 2 * x) and x.grad.tolist() == [[2.0, 2.0]] * 3
    (first, _), (second, _) = comm.broadcast_coalesced([x, x], [0, 1])
    assert (first.device.index, second.device.index) == (0, 1)
    assert comm.reduce_add_coalesced([[first], [second]], 1)[0].device.index == 1
    out = [dg.empty(1, 2, device="cuda:1"), dg.empty(2, 2, device="cuda:0")]
    comm.scatter(x.detach(), out=out)
    assert out[1].tolist() == [[3.0, 4.0], [5.0, 6.0]]
    assert comm.gather(out, out=dg.empty(3, 2)).tolist() == x.tolist()
    assert comm.broadcast(out[0], out=[dg.empty(1, 2)])[0].tolist() == [[1.0, 2.0]]


class Failing(nn.Module):
    def forward(self, x):
        if x.device.index == 1:
            raise KeyError("no such word")
        return x


ERRORS = [
    (lambda: nn.DataParallel(nn.Linear(2, 1))(dg.zeros(3, 2)), RuntimeError, "parameters and buffers on device cuda:0 .*: cpu"),
    (lambda: nn.parallel.data_parallel(nn.Linear(2, 1), dg.zeros(3, 2), [1]), RuntimeError, r"cuda:1 \(device_ids\[0\]\).*cpu"),
    (lambda: nn.DataParallel(nn.Linear(2, 1), ["cpu"]), RuntimeError, "Expected a cuda device, but got: cpu"),
    (lambda: nn.DataParallel(nn.Linear(2, 1), [0, 99]), RuntimeError, f"'cuda:99' was asked for, but there are {COUNT}"),
    (lambda: nn.DataParallel(nn.Identity())(pack_sequence([dg.zeros(2), dg.zeros(1)])), TypeError, "PackedSequence.*ragged tensor"),
    (lambda: gather([{"a": dg.zeros(1)}, {"b": dg.zeros(1)}], 0), ValueError, "same number of keys.*'a'.*'b'"),
    (lambda: gather([3, 4], 0), TypeError, "expected tensors.*got int"),
    (lambda: gather([None, dg.zeros(1)], 0), TypeError, "one type.*NoneType, Tensor"),
    (lambda: scatter((dg.zeros(5), dg.zeros(1)), [0, 1]), ValueError, "come to 1 and 2 parts for 2 devices.*a row for each sample"),
    (lambda: comm.scatter(dg.zeros(3), [0, 1], [3]), ValueError, "as many chunk_sizes as devices"),
    (lambda: comm.broadcast(dg.zeros(3)), RuntimeError, "Exactly one of 'devices' and 'out'"),
    (lambda: comm.reduce_add([dg.zeros(3), dg.zeros(2)]), RuntimeError, r"input 1 has invalid size: got \(2,\).*\(3,\)"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number):
    call, kind, words = ERRORS[number]
    with pytest.raises(kind, match=words):
        call()


def test_error_of_a_replica_names_it():
    with pytest.raises(KeyError, match="no such word") as caught:
        nn.DataParallel(Failing(), [0, 1])(dg.zeros(2))
    assert "in replica 1 on device cuda:1" in caught.value.__notes__
    assert caught.traceback[-1].path.name == "test_data_parallel.py"


def test_arguments_that_are_no_tensors_go_to_all():
    args, kwargs = scatter_kwargs((dg.zeros(3), "x"), {"n": 5}, [0, 1])
    assert [(len(x), word) for x, word in args] == [(2, "x"), (1, "x")] and kwargs == ({"n": 5}, {"n": 5})
