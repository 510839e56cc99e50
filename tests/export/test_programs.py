"""Programs of functions: what they take and give, what is refused, and what a program tells."""

import copy
import dataclasses
import importlib.util
import io
import itertools

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.compat.inner import higher_order
from dynograd.compat.inner.higher_order import scan
from dynograd.errors import DtypeError, ProgramError, ShapeError
from dynograd.export import Dim
from tests.export.leaves import assert_same_bits

F, rnn = nn.functional, nn.utils.rnn


assert not torch.is_ragged(torch.ones(1))  # from the first use on, modes see that function too


def randn(*shape):
    return torch.randn(*shape)


def through_a_file(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def check(function, args, *others, dims=({0: "n"},), kwargs=None, **options):
    """The program gives the bits of the function, for these arguments and others."""
    program = through_a_file(torch.export.export(function, args, kwargs, dynamic_shapes=dims, **options))
    for arguments in (args, *others):
        state = torch.get_rng_state()
        with torch.no_grad():
            expected = function(*copy.deepcopy(arguments), **(kwargs or {}))
        torch.set_rng_state(state)
        result = program(*copy.deepcopy(arguments), **(kwargs or {}))
        assert isinstance(expected, tuple) or type(result) is type(expected)
        assert_same_bits(result, expected)
    return program


def writes(x):
    y = torch.zeros(x.shape[0], 4)
    y[:, 1] = x[:, 0]
    y[:, 2:].add_(1)
    y += 2
    y.relu_()
    y[0].zero_()
    return y


class Cached(nn.Module):
    """Makes a tensor in its first call."""

    def __init__(self):
        super().__init__()
        self.cache = None

    def forward(self, x):
        if self.cache is None:
            self.cache = torch.arange(2).float()
        return x + self.cache


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


WEIGHT, CONSTANT, SPARSE = nn.Parameter(torch.ones(2, 2)), torch.arange(2.0), torch.eye(6).to_sparse()
FUNCTIONS = {
    "nested results": lambda x: {"a": (x + 1, [x * 2]), "b": x.sum()},
    "numbers among the results": lambda x: (x, 3, None, "text", x.shape[0]),
    "writes": writes,
    "writes into an input": lambda x: x.add_(1) * 2,
    "halves": lambda x: x[: x.shape[0] // 2] + x[-(x.shape[0] // 2) :],
    "divided by the root of a size": lambda x: x / x.shape[0] ** 0.5,
    "times one part of a size": lambda x: x.sum(0) * (1 / x.shape[0]),
    "times the logarithm of a size": lambda x: x * numpy.log(x.shape[0]).item(),
    "at a mask": lambda x: x[x > 0].sum(),
    "places": lambda x: x.nonzero(),
    "several results": lambda x: (x.sort(1), x.topk(1, 1), x.max(1), torch.var_mean(x, 1)),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "dtypes": lambda x: (x.double(), x.bfloat16() * 2, x.half() + 1, x.to(torch.complex64), (x > 0).to(torch.int32)),
    "attributes": lambda x: x.T @ x,
    "closures": lambda x: x @ WEIGHT + CONSTANT,
    "a tensor made once": Cached(),
    "an autograd function": lambda x: Doubled.apply(x) + 1,
    "a compiled function": torch.compile(lambda x: x.sum() * 2),
    "out": lambda x: torch.add(x, 1, out=torch.empty(x.shape[0], 2)),
    "the input itself": lambda x: x,
    "a mask of sizes that is read": lambda x: x * 2 if bool((torch.ones(x.shape[0], 3).triu(1) == 0).any()) else x,
    "meshgrid": lambda x: torch.meshgrid(x[:, 0], x[:, 1], indexing="ij"),
    "indices": lambda x: x[torch.tensor([0, 1]), None, ::1],
    "a tensor of sizes": lambda x: x * torch.tensor([x.shape[0], 2]),
    "infinity": lambda x: torch.full_like(x, float("-inf")).maximum(x),
    "methods that make tensors": lambda x: x.new_zeros(x.size(0)),
    "rows of another dim": lambda x: sum(list(x.T.contiguous())),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_gives_the_bits_of_its_function(name):
    torch.manual_seed(0)
    check(FUNCTIONS[name], (randn(6, 2),), (randn(4, 2),), (randn(9, 2),))


def test_arguments_in_lists_and_dicts_and_by_name():
    torch.manual_seed(0)

    def function(xs, y, scale=2.0, *, flag=False):
        return torch.cat(xs) + y["a"].sum() * scale if flag else xs[0]

    dims = {"xs": [{0: "a"}, {0: "b"}]}
    arguments = ([randn(2, 3), randn(4, 3)], {"a": randn(3)})
    others = ([randn(6, 3), randn(1, 3)], {"a": randn(3)})
    program = check(function, arguments, others, dims=dims, kwargs={"flag": True})
    with pytest.raises(ProgramError, match="expected flag=True, with which it was exported, got False"):
        program(*arguments, flag=False)
    with pytest.raises(TypeError, match="expected the arguments xs, y, flag, got 2"):
        program(*arguments)
    with pytest.raises(TypeError, match="expected 2 values in a list or tuple for xs, got list of 1"):
        program([randn(2, 3)], arguments[1], flag=True)
    with pytest.raises(TypeError, match=r"expected a dict with \['a'\] for y, got a dict with \['b'\]"):
        program(arguments[0], {"b": randn(3)}, flag=True)


def test_states_of_recurrent_layers():
    torch.manual_seed(0)
    layer = nn.LSTM(2, 3).eval()

    def example(t, n):
        return randn(t, n, 2), (randn(1, n, 3), randn(1, n, 3))

    check(layer, example(6, 2), example(4, 5), dims=({0: "t", 1: "n"}, [{1: "n"}, {1: "n"}]))


def rows(*lengths):
    return torch.ragged_tensor([randn(length, 2) for length in lengths])


RAGGED = {
    "elementwise": lambda x: torch.relu(x).sum(1),
    "linear": nn.Linear(2, 3),
    "lstm": nn.LSTM(2, 3, batch_first=True).eval(),
    "attention": nn.TransformerEncoderLayer(2, 1, 4, batch_first=True).eval(),
    "values": lambda x: x.values * 2,
    "lengths": lambda x: x.sum(1) / x.lengths[:, None],
    "padded": lambda x: x.to_padded(0.0),
    "rows as a number": lambda x: x.sum(1).reshape(x.shape[0] * 2),
    "like another": lambda x: torch.ragged_like(x, x.values[:, 0]).softmax(1),
}


@pytest.mark.parametrize("name", RAGGED)
def test_ragged_inputs(name):
    torch.manual_seed(0)
    check(RAGGED[name], (rows(3, 1, 4),), (rows(2, 5),), (rows(1, 1, 1, 7, 2),), dims=None)


def test_a_ragged_input_is_given_as_values_and_offsets_too():
    program = torch.export.export(lambda x: x.sum(1), (rows(3, 1),))
    x = rows(2, 4, 1)
    assert_same_bits(program((x.values, x.offsets)), x.sum(1))
    with pytest.raises(TypeError, match=r"expected a ragged tensor for x, float32\(x_rows, j, 2\), or a pair"):
        program(randn(3, 2))


def test_ragged_tensors_that_the_program_makes():
    torch.manual_seed(0)
    offsets, others = torch.tensor([0, 3, 4, 8]), torch.tensor([0, 2, 4, 8])
    function = lambda values, offsets: (torch.RaggedTensor(values, offsets=offsets) * 2).sum(1)  # noqa: E731
    check(function, (randn(8, 2), offsets), (randn(8, 2), others), dims=None)


def test_draws_are_those_of_the_process():
    function = lambda x: F.dropout(x + torch.randn(2), 0.5)  # noqa: E731
    torch.manual_seed(3)
    program = check(function, (randn(6, 2),), (randn(3, 2),), draws=True)
    assert "it draws random numbers" in str(program)
    x = torch.ones(4, 2)
    torch.manual_seed(1)
    first = program(x)
    torch.manual_seed(1)
    assert torch.equal(program(x), first) and not torch.equal(program(x), first)


def written_to(y, x):
    """The sum of a tensor that the input is written into by way of a view."""
    y[:1].add_(x[0, 0])
    return y.sum()


REFUSED = [
    (lambda x: x * x.sum().item(), r"reads values that depend on its inputs \(item\).*test_programs.py:\d+.*dynograd.where"),
    (lambda x: x if x.sum() > 0 else -x, r"reads values that depend on its inputs \(__bool__\)"),
    (lambda x: x if written_to(torch.zeros(2), x) > 0 else -x, r"reads values that depend on its inputs \(__bool__\)"),
    (lambda x: torch.from_numpy(numpy.exp(x.numpy())), r"reads values that depend on its inputs \(numpy\)"),
    (lambda x: torch.zeros(x.nonzero().shape[0]), "reads a size that depends on values"),
    (lambda x: x + torch.randn(2), "torch.randn draws random numbers.*draws=True"),
    (nn.Dropout(), r"dropout.* draws random numbers.*model.eval\(\)"),
    (nn.BatchNorm1d(2), r"writes into num_batches_tracked.*model.eval\(\)"),
    (lambda x: sum([x[place] for place in range(x.shape[0])]), "how many functions .* calls depends on the sizes.*leave that dim out"),
    (lambda x: x.unbind(0), "how many tensors unbind.* gives depends on the sizes"),
    (lambda x: torch.sparse.mm(SPARSE, x), "a tensor of type"),
    (lambda x: torch.cond(x.sum() > 0, lambda x: x.sum(), lambda x: x, (x,)), "torch.cond: what true_fn and false_fn give must be alike"),
    (lambda x: torch.cond(x.sum() > 0, lambda x: 1, lambda x: 2, (x,)), "what true_fn and false_fn give must be tensors, got int 1"),
    (lambda x: torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, torch.cat([x, x])), (torch.tensor(0), x)), "the carried inputs and what body_fn gives must be alike"),
    (lambda x: scan(lambda state, row: (state + 1, row), 0, x), "init and the state that combine_fn gives must be tensors, got int 0"),
    (lambda x: torch.cond(x.sum() > 0, lambda: CONSTANT.add_(1), lambda: CONSTANT + 1), "writes into CONSTANT"),
    (lambda x: torch.vmap(lambda row: row if row.sum() > 0 else -row)(x), r"reads values that depend on its inputs \(__bool__\)"),
    (lambda x: torch.zeros(torch.cond(x.sum() > 0, lambda x: x[1:], lambda x: x, (x,)).shape[0]), "reads a size that depends on values"),
    (lambda x: x * (x.shape[0] ** 3.3), "depends on the sizes, and is no formula of them"),
    (lambda x: torch.autograd.grad((x * x).sum(), x)[0], "takes gradients while it runs.*Write the derivative"),
    (lambda x: x.to_sparse().sum(), "to_sparse is no function that a program may call"),
    (lambda x: (x, object()), "gives object, which a file cannot hold"),
    (lambda x: CONSTANT.add_(x[0, 0] * 0), "writes into CONSTANT"),
]  # fmt: skip


@pytest.mark.parametrize("function, message", REFUSED)
def test_what_cannot_be_a_program_is_refused_with_the_line(function, message):
    with pytest.raises(ProgramError, match=message):
        torch.export.export(function, (randn(6, 2),), dynamic_shapes=({0: "n"},))


def under_autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        return x @ x.T


def test_autocast_is_refused():
    with pytest.raises(ProgramError, match=r"under autocast.*model.bfloat16\(\)"):
        torch.export.export(under_autocast, (randn(3, 2),))


@pytest.mark.parametrize("dims", [None, ({0: "n"},)])
def test_what_follows_from_no_input_is_refused(dims):
    calls = []

    def counting(x):
        calls.append(0)
        return x + len(calls)

    with pytest.raises(ProgramError, match="a counter"):
        torch.export.export(counting, (randn(3, 2),), dynamic_shapes=dims)


def steps(x):
    """A scan with a branch in each step, which takes a weight from around it."""

    def step(state, row):
        state = torch.cond(
            row.sum() > 0, lambda state: state @ WEIGHT, lambda state: state - row * x.shape[0], (state,)
        )
        return state, {"sum": state.sum()}

    return scan(step, torch.zeros(2), x)


STRUCTURES = {
    "cond": lambda x: torch.cond(x.sum() > 0, lambda x: x.exp(), lambda x: -x, (x,)),
    "cond, captured": lambda x: torch.cond(x.sum() > 0, lambda: x @ WEIGHT, lambda: x * x.shape[0]),
    "cond, nested results": lambda x: torch.cond(
        x.sum() > 0, lambda x: {"a": x * 2, "b": (x,)}, lambda x: {"a": x, "b": (-x,)}, (x,)
    ),
    "cond of weights": lambda x: torch.cond(x.sum() > 0, lambda: WEIGHT, lambda: WEIGHT.T) @ x.T,
    "cond of a number": lambda x: torch.cond(x.shape[1] > 1, lambda: x + 1, lambda: x),
    "while_loop": lambda x: torch.while_loop(
        lambda i, y: (i < 5) & (y.sum() < 20), lambda i, y: (i + 1, y * 2 + x), (torch.tensor(0), x)
    ),
    "scan": steps,
    "scan backwards": lambda x: scan(lambda state, row: (state + row, state * row), torch.zeros(2), x.T, dim=1, reverse=True),
    "map": lambda x: higher_order.map(lambda row, y: row.softmax(0) + y.sum(), x, x),
    "vmap": lambda x: torch.vmap(lambda row: (row @ WEIGHT).softmax(-1) * x.shape[0])(x),
    "vmap in vmap": lambda x: torch.func.vmap(
        torch.func.vmap(lambda a, b: a * b + CONSTANT.sum(), in_dims=(None, 0)), in_dims=(0, None), out_dims=1
    )(x[:, 0], x[:, 1]),
    "vmap, in chunks": lambda x: torch.vmap(lambda row, scale: row * scale.sum(), chunk_size=2)(x, scale=x),
    "a bound in a branch": lambda x: torch.cond(x.sum() > 0, lambda x: x[: min(x.shape[0], 20)] * 2, lambda x: x[: min(x.shape[0], 20)], (x,)),
}  # fmt: skip


@pytest.mark.parametrize("name", STRUCTURES)
def test_branches_loops_and_maps_are_calls_with_functions(name):
    torch.manual_seed(0)
    check(
        STRUCTURES[name],
        (randn(6, 2).abs(),),
        *[(randn(size, 2) + by,) for size, by in ((4, -2), (1, 2), (9, 0), (30, 3), (30, -3))],
    )


def test_functions_in_code():
    code = torch.export.export(steps, (randn(6, 2),), dynamic_shapes=({0: "n"},)).code
    for line in [
        "    def f0(a0, a1):",
        "        def g0(b0):",
        "            b1 = torch.matmul(b0, weights['WEIGHT'])",
        "        a4 = torch.cond(a3, g0, g1, (a0,))",
        "    (v1, (v2,)) = torch.higher_order.scan(f0, v0, x)",
    ]:
        assert line in code.splitlines()


def test_draws_in_a_loop_are_those_of_the_process():
    function = lambda x: higher_order.map(lambda row: row + torch.randn(2), x)  # noqa: E731
    check(function, (randn(6, 2),), (randn(3, 2),), draws=True)


LSTM, GRU = nn.LSTM(2, 3, num_layers=2, bidirectional=True, batch_first=True).eval(), nn.GRU(6, 3, batch_first=True)
PACKED = {
    "sorted": lambda x, lengths: rnn.pad_packed_sequence(LSTM(rnn.pack_padded_sequence(x, lengths, True))[0], True),
    "total_length": lambda x, lengths: rnn.pad_packed_sequence(
        LSTM(rnn.pack_padded_sequence(x, lengths, True))[0], True, total_length=x.shape[1]
    )[0].reshape(x.shape[0], -1),
    "two layers": lambda x, lengths: GRU(LSTM(rnn.pack_padded_sequence(x, lengths, True))[0])[1].squeeze(0),
    "data": lambda x, lengths: rnn.pack_padded_sequence(x, lengths, True)._replace(data=lengths.sum()),
    "a sequence of rows": lambda x, lengths: rnn.pack_sequence([x[0], x[0, :1]]),
    "padded rows": lambda x, lengths: rnn.pad_sequence([x[0], x[0, :1]]),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_sequences(name):
    torch.manual_seed(0)
    others = [(randn(len(lengths), 8, 2), torch.tensor(lengths)) for lengths in ([3], [8, 8, 5, 1], [2, 1])]
    check(PACKED[name], (randn(3, 6, 2), torch.tensor([6, 4, 2])), *others, dims=({0: "n", 1: "t"}, {0: "n"}))


def test_packed_sequences_in_any_order():
    def function(x, lengths):
        return LSTM(rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False))

    program = check(
        function,
        (randn(3, 6, 2), torch.tensor([4, 6, 2])),
        (randn(2, 5, 2), torch.tensor([1, 5])),
        dims=({0: "n", 1: "t"}, {0: "n"}),
    )
    assert type(program(randn(1, 1, 2), torch.tensor([1]))[0]) is rnn.PackedSequence
    assert "PackedSequence(v" in program.code


def test_the_length_of_padded_rows_follows_from_values():
    def function(x, lengths):
        rows = rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, lengths, True), True)[0]
        return rows.reshape(rows.shape[0], -1)

    with pytest.raises(ProgramError, match="reads a size that depends on values"):
        torch.export.export(function, (randn(3, 6, 2), torch.tensor([6, 4, 2])), dynamic_shapes=({0: "n"}, {0: "n"}))


CUT = {  # of 64, which 8 divides as it does the sizes near to it
    "an eighth": lambda x: x[: x.shape[0] // 8],
    "a multiple of eight": lambda x: x.new_zeros(-(-x.shape[0] // 8) * 8),
    "thirds": lambda x: x[x.shape[0] // 3 : 2 * (x.shape[0] // 3)],
    "a part of forty": lambda x: x[:40][: (x.shape[0] - 1) // 5],
}


@pytest.mark.parametrize("name", CUT)
def test_numbers_that_are_cut_off_are_told_apart_by_further_runs(name):
    check(CUT[name], (randn(64),), *[(randn(size),) for size in (1, 7, 8, 16, 63, 65, 100, 200)])


@dataclasses.dataclass
class Scores:
    logits: torch.Tensor
    states: list
    loss: torch.Tensor | None = None


def test_a_dataclass_among_the_results_is_a_dict_of_its_fields():
    function = lambda x: (Scores(x * 2, [x + 1, Scores(x, [])]), x.sum())  # noqa: E731
    program = torch.export.export(function, (randn(3),), dynamic_shapes=({0: "n"},))
    x = randn(5)
    (scores, total), expected = program(x), function(x)
    assert list(scores) == ["logits", "states", "loss"] and scores["loss"] is None
    assert_same_bits(
        [scores["logits"], scores["states"][0], total], [expected[0].logits, expected[0].states[0], x.sum()]
    )
    assert scores["states"][1]["states"] == []


@pytest.mark.parametrize("reverse", [False, True])
def test_an_lstm_with_a_projection_is_a_call_at_any_time(reverse):
    layer = nn.LSTM(4, 6, proj_size=3, batch_first=True, bidirectional=reverse)
    check(layer, (randn(2, 5, 4),), (randn(1, 1, 4),), (randn(3, 9, 4),), dims=({0: "n", 1: "t"},))


COMPOSED = {
    "at most": lambda x, y: x[: min(x.shape[0], 20)],
    "at least one": lambda x, y: x[: max(x.shape[0] // 2, 1)],
    "at least none": lambda x, y: x[: max(x.shape[0] - 4, 0)],
    "between": lambda x, y: x.new_zeros(min(max(x.shape[0], 4), 9)),
    "the last": lambda x, y: x[-min(x.shape[0], 5) :],
    "up to a multiple": lambda x, y: x.new_zeros(-x.shape[0] % 4 + 1),
    "what is left": lambda x, y: x[: x.shape[0] % 3],
    "together": lambda x, y: torch.arange(x.shape[0] + 2 * y.shape[0]),
    "of both": lambda x, y: x.new_zeros(x.shape[0] * y.shape[0] + x.shape[0]),
    "the shorter": lambda x, y: x[: min(x.shape[0], y.shape[0])] + 0,
    "three tenths": lambda x, y: x.new_zeros(3 * x.shape[0] // 10),
    "sevenths, rounded up": lambda x, y: x.new_zeros(-(-x.shape[0] * 3 // 7)),
    "the distance": lambda x, y: x.new_zeros(abs(x.shape[0] - y.shape[0])),
    "pairs": lambda x, y: x.new_zeros(x.shape[0] * (x.shape[0] - 1) // 2),
    "a share of a product": lambda x, y: x.new_zeros(x.shape[0] * y.shape[0] // 4, 0),
    "half the longer": lambda x, y: x.new_zeros(max(x.shape[0], y.shape[0]) // 2),
    "a rest of a share": lambda x, y: x.new_zeros(x.shape[0] // 3 % 4),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_numbers_that_are_bounded_rests_and_sums_are_so_at_any_size(name):
    function = COMPOSED[name]
    program = torch.export.export(function, (randn(6), randn(9)), dynamic_shapes=({0: "n"}, {0: "m"}))
    assert program.dims["n"].least <= 1 and program.dims["n"].most is None
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    for n, m in itertools.product((1, 2, 5, 19, 20, 21, 47), (1, 8, 30)):
        args = randn(n), randn(m)
        torch.testing.assert_close(loaded(*args), function(*args), rtol=0, atol=0)


@pytest.mark.parametrize(
    "function, least, most",
    [
        (lambda x: x * 2 if x.shape[0] < 100 else x + 1, 0, 99),
        (lambda x: x * 2 if x.size(0) % 64 else x + 1, 0, 63),
        (lambda x: x * 2 if x.shape[0] > 3 else x + 1, 4, None),
    ],
)
def test_a_comparison_of_sizes_by_which_the_program_goes_another_way_bounds_the_dim(function, least, most):
    program = torch.export.export(function, (randn(6),), dynamic_shapes=({0: "n"},))
    assert (program.dims["n"].least, program.dims["n"].most) == (max(least, 1), most)
    for size in [number for number in (least - 1, most and most + 1) if number and number > 0]:
        with pytest.raises(ShapeError, match="expected (4 or more|1 to (99|63)|at most|between)"):
            program(randn(size))


DERIVED = [
    (lambda x, m: torch.cat([x, x[:1]]) * m, lambda n: (n, n + 1), ({0: "n"}, {0: "n + 1"})),
    (lambda x, m: torch.cat([x, x[:1]]) * m, lambda n: (n, n + 1), ({0: Dim("n")}, {0: Dim("n") + 1})),
    (lambda x, m: x[1:] * m, lambda n: (n + 1, n), ({0: "n"}, {0: Dim("n") - 1})),
    (lambda x, m: torch.cat([x, x]) + m, lambda n: (n, 2 * n), ({0: Dim("n", max=60)}, {0: 2 * Dim("n")})),
    (lambda x, m: x[: x.shape[0] // 2] + m[0], lambda n: (2 * n, 1), ({0: "2 * n"}, None)),
    (lambda x, m: torch.cat([m, m, m, x[:1]]) * x, lambda n: (3 * n + 1, n), ({0: 3 * Dim("n") + 1}, {0: "n"})),
]


@pytest.mark.parametrize("function, sizes, dims", DERIVED)
def test_sizes_that_follow_from_a_dim(function, sizes, dims):
    example, *others = [tuple([randn(size) for size in sizes(n)]) for n in (5, 1, 2, 17)]
    program = check(function, example, *others, dims=dims)
    assert list(program.dims) == ["n"]
    with pytest.raises(ShapeError, match=r"expected one size for n, got|expected [23]\*n.* for axis 0 of (x|m), got"):
        program(randn(5), randn(99))


def in_patches(x):
    assert x.shape[0] % 4 == 0, "no whole patches"
    return x.reshape(-1, 4).sum(1)


def test_sizes_that_are_multiples():
    check(in_patches, (randn(12),), (randn(4),), (randn(40),), dims=({0: 4 * Dim("n")},))
    with pytest.raises(ProgramError, match=r"(?s)not at .*AssertionError: no whole patches.*16 \* Dim\('n'\)"):
        torch.export.export(in_patches, (randn(12),), dynamic_shapes=({0: "n"},))


def test_what_is_refused_of_sizes_that_follow_from_a_dim():
    for size, dim, message in [
        (5, "2*n", r"axis 0 of x has size 5, which is 2\*n for no n"),
        (5, "n**2", "expected a Dim, a name or None"),
        (5, "0*n", "expected a Dim, a name or None"),
    ]:
        with pytest.raises(ProgramError, match=message):
            torch.export.export(lambda x: x + 1, (randn(size),), dynamic_shapes=({0: dim},))
    with pytest.raises(ProgramError, match="the dim 'n' has size 5 in x and 4 in y"):
        torch.export.export(lambda x, y: x, (randn(5), randn(5)), dynamic_shapes=({0: "n"}, {0: "n + 1"}))
    with pytest.raises(ProgramError, match="expected whole numbers, and none below 1 as a factor, got 0"):
        Dim("n") * 0
    with pytest.raises(ProgramError, match="expected whole numbers.*got 1.5"):
        Dim("n") + 1.5


def test_a_size_at_which_the_function_fails_is_not_needed():
    table = randn(20, 2)
    check(lambda x: x + table[: x.shape[0]], (randn(10, 2),), (randn(1, 2),), (randn(20, 2),))


NESTED = [
    ((randn(3), None, randn(4)), ({0: "n"}, None, {0: "m"})),
    ((randn(3), 2.0, randn(4)), {"x": {0: "n"}, "y": None, "rest_0": {0: "m"}}),
    ((randn(3), [randn(2), None, {"a": randn(4)}]), ({0: "n"}, [None, None, {"a": {0: "m"}}])),
    ((randn(3), None, randn(4), randn(2)), ({0: "n"}, None, ({0: "m"}, None))),
]


@pytest.mark.parametrize("args, dims", NESTED)
def test_dynamic_shapes_stand_as_the_arguments_do(args, dims):
    def function(x, y=None, *rest):
        return [tensor * 2 for tensor in torch.utils._pytree.tree_leaves((x, y, rest)) if torch.is_tensor(tensor)]

    program = torch.export.export(function, args, dynamic_shapes=dims)
    shapes = {each.shape[0] for each in program.arguments.inputs}
    assert {"n", "m"} <= shapes <= {"n", "m", 2}
    if importlib.util.find_spec("onnx"):
        inputs = torch.onnx.export(function, args, dynamic_shapes=dims).model_proto.graph.input
        assert [value.type.tensor_type.shape.dim[0].dim_param or 2 for value in inputs] == [
            each.shape[0] for each in program.arguments.inputs
        ]


ARGUMENTS = [
    ((3,), None, "expected a tensor among the arguments"),
    ((randn(3), object()), None, "an object of type object"),
    ((torch.empty(3, device="meta"),), None, "expected x on the CPU, got meta"),
    ((randn(3),), {"z": {0: "n"}}, "dynamic_shapes has 'z', but the arguments are x"),
    ((randn(3),), {"x": {3: "n"}}, r"x has 1 dims \(shape \(3,\)\), and no axis 3"),
    ((randn(3), randn(4)), ({0: "n"}, {0: "n"}), "'n' has size 3 in x and 4 in y"),
    ((randn(3),), ({0: "n"}, None, None), "has 3 entries, but the arguments are x"),
    ((randn(3), [randn(2)]), (None, [{0: "n"}, {0: "m"}]), r"of the tensors y\[0\] in y, got .*Nest them"),
    ((randn(3),), ({0: 2.5},), "expected a Dim, a name or None"),
    ((randn(3),), ({0: Dim("n", max=2)},), "the dim 'n' is 1 to 2, but the example has 3"),
    ((randn(3), randn(3), randn(3)), None, "the example does not fit"),
]


@pytest.mark.parametrize("args, dims, message", ARGUMENTS)
def test_arguments_of_export(args, dims, message):
    with pytest.raises(ProgramError, match=message):
        torch.export.export(lambda x, y=None: x + 1, args, dynamic_shapes=dims)


def test_dims():
    assert repr(torch.export.dims("batch", "time", max=9)) == "(batch, time)"
    with pytest.raises(ProgramError, match="expected a name that is an identifier, got 'a b'"):
        Dim("a b")
    with pytest.raises(ProgramError, match="expected 0 <= min < max, got min=4 and max=3"):
        Dim("n", min=4, max=3)
    assert Dim("n", max=3) == Dim("n", max=3) != Dim("n")


def test_inputs_of_a_call_are_checked():
    program = torch.export.export(
        lambda x, y: x + y,
        (randn(3, 2), randn(3, 1)),
        dynamic_shapes=({0: Dim("n", min=2, max=20)}, {0: Dim("n", min=2, max=20)}),
    )
    y = randn(3, 1)
    for x, error, message in [
        (randn(3, 4), ShapeError, r"expected size 2 for axis 1 of x, float32\(n, 2\), got 4 \(shape \(3, 4\)\)"),
        (randn(3), ShapeError, r"expected x of 2 dims, float32\(n, 2\), got 1"),
        (randn(4, 2), ShapeError, r"expected one size for n, got 4 \(axis 0 of x\) and 3 \(axis 0 of y\)"),
        (randn(21, 2), ShapeError, r"expected 2 to 20 for n \(axis 0 of x\), got 21"),
        (randn(1, 2), ShapeError, r"expected 2 to 20 for n \(axis 0 of x\), got 1"),
        (randn(3, 2).double(), DtypeError, r"expected float32 for x, got float64. x.to\(dynograd.float32\)"),
        ("x", TypeError, r"expected a tensor for x, float32\(n, 2\), got str"),
    ]:
        with pytest.raises(error, match=message):
            program(x, y)
    array = numpy.ones((3, 2), numpy.float32)
    assert_same_bits(program(array, y), torch.from_numpy(array) + y)


def test_a_size_at_which_the_program_goes_another_way_is_out_of_bounds():
    program = torch.export.export(lambda x: x * 2 if x.shape[0] > 1 else x, (randn(6, 2),), dynamic_shapes=({0: "n"},))
    with pytest.raises(ShapeError, match="expected 2 or more for n"):
        program(randn(1, 2))


def test_an_op_that_fails_says_which_and_where():
    program = torch.export.export(nn.Embedding(8, 2), (torch.tensor([1, 2]),))
    with pytest.raises(ProgramError, match=r"Embedding: embedding\S* at test_programs.py:\d+ in .*IndexRangeError"):
        program(torch.tensor([1, 9]))


def checked(x):
    assert not torch.onnx.is_in_onnx_export()
    if not torch.compiler.is_exporting() and x.sum() < 0:
        raise ValueError("less than nothing")
    return x * 2


def test_models_are_told_that_they_are_exported():
    program = torch.export.export(checked, (torch.ones(2),))
    assert program(-torch.ones(2)).tolist() == [-2.0, -2.0]
    assert not torch.compiler.is_exporting() and not torch.compiler.is_compiling()
    with pytest.raises(ValueError, match="less than nothing"):
        checked(-torch.ones(2))


def test_another_default_dtype_is_refused():
    program = torch.export.export(lambda x: x + torch.zeros(2), (randn(2),))
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(
            ProgramError, match="expected the default dtype float32, with which it was exported, got float64"
        ):
            program(randn(2).float())
    finally:
        torch.set_default_dtype(torch.float32)


def test_sizes_of_the_example_are_no_comparisons():
    sizes = []

    def doubled(x):
        sizes.append(len(x))
        return x * 2

    torch.export.export(doubled, (randn(3, 2),), dynamic_shapes=({0: "n"},))
    assert sorted(set(sizes)) == [1, 3, 5, 6, 8, 15] and len(sizes) == 11


def test_tied_weights_are_held_once():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    program = through_a_file(torch.export.export(model, (randn(2, 4),)))
    assert [weight.name for weight in program.weights] == ["0.weight"]


def test_weights_keep_the_order_of_their_dims():
    weight = nn.Parameter(randn(3, 4).T)
    program = through_a_file(torch.export.export(lambda x: x @ weight, (randn(2, 4),)))
    assert program.weights[0].tensor.stride() == weight.stride() == (1, 4)


def test_what_a_program_tells():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).eval()
    program = torch.export.export(model, (randn(2, 4),), dynamic_shapes=({0: Dim("batch", max=32)},))
    assert sorted(program.state_dict) == ["0.bias", "0.weight", "1.bias", "1.running_mean", "1.running_var", "1.weight"]
    assert [name for name, _ in program.named_buffers()] == ["1.running_mean", "1.running_var"]
    assert len(list(program.parameters())) == 4 and len(list(program.buffers())) == 2 and program.constants == {}
    assert str(program.range_constraints["batch"]) == "1 to 32"
    assert repr(program) == "<exported program Sequential: 2 calls, 6 weights>"
    assert program.code.splitlines() == [
        "def Sequential(input):  # float32(batch, 4)",
        "    v0 = torch.linear(input, weights['0.weight'], weights['0.bias'])",
        "    v1 = torch.batch_norm(v0, weights['1.running_mean'], weights['1.running_var'], weights['1.weight'], weights['1.bias'], False, 0.1, 1e-05)",
        "    return v1",
    ]  # fmt: skip
    module = program.module()
    x = randn(5, 4)
    assert_same_bits(module(x), model(x))
    assert set(module.state_dict()) == set(program.state_dict) and not module.training
    assert not module(x).requires_grad


def test_formulas_of_sizes_in_code():
    function = lambda x: (x.reshape(x.shape[0] * 2, -1), x[: x.shape[0] // 2], x / x.shape[0] ** 0.5)  # noqa: E731
    code = torch.export.export(function, (randn(6, 2),), dynamic_shapes=({0: "n"},)).code
    assert "(2 * n, -1)" in code or "2 * n, -1" in code
    assert "slice(None, n // 2, None)" in code and "(n) ** 0.5" in code


class Remembers(nn.Module):
    """Keeps a mean, by another tensor, in place, or as an attribute."""

    def __init__(self, way):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.way, self.last = way, None

    def forward(self, x):
        mean = x.mean(0)
        if self.way == "assigned":
            self.mean = self.mean * 0.9 + mean
        elif self.way == "in place":
            self.mean.copy_(mean)
        else:
            self.last = x if self.last is None else torch.cat([self.last, x])
            return self.last.sum(0)
        return x - self.mean


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (
            "assigned",
            "Holder assigns other tensors to inner.mean while it runs.*as an argument, and return what it becomes",
        ),
        ("attribute", "Holder assigns other tensors to inner.last while it runs"),
        ("in place", "it writes into inner.mean, which is no input"),
    ],
)
def test_a_module_that_remembers_is_refused_and_stays_as_it_was(way, words):
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Remembers(way)

        def forward(self, x):
            return self.inner(x) * 2

    model = Holder().eval()
    mean = model.inner.mean
    with pytest.raises(ProgramError, match=words):
        torch.export.export(model, (randn(3, 4),), dynamic_shapes=({0: "n"},))
    assert model.inner.mean is mean and mean.tolist() == [0.0] * 4


def test_ragged_rows_are_as_many_as_an_axis_is_long():
    def function(x, y, z):
        return x.mean(1) + y, (x * y[:, None]).sum(1), z.amax(1) * y

    def example(lengths):
        count = sum(lengths)
        return (
            torch.RaggedTensor(randn(count, 4), lengths),
            randn(len(lengths), 4),
            torch.RaggedTensor(randn(count, 4), lengths),
        )

    check(function, example([3, 1, 2]), example([4]), example([2, 1, 1, 5, 7]), dims=({0: "batch"},) * 3)
    program = torch.export.export(function, example([3, 1, 2]), dynamic_shapes=({0: "batch"},) * 3)
    with pytest.raises(ShapeError, match="expected one size for batch, got 2 .the rows of x. and 3"):
        program(*example([1, 2])[:1], *example([1, 1, 2])[1:])
    with pytest.raises(ProgramError, match="x is ragged.*Name axis 0, if other axes are as long"):
        torch.export.export(function, example([3, 1, 2]), dynamic_shapes=({1: "time"}, None, None))
