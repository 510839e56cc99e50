"""Operations by module, counted by hand."""

import pytest

import dynograd
from dynograd import nn
from dynograd.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula

aten = dynograd.ops.aten


def counted(run, **options):
    with FlopCounterMode(display=False, **options) as counter:
        run()
    return counter


def leaf(*shape):
    return dynograd.rand(*shape, requires_grad=True)


CALLS = {
    "mm": (lambda: leaf(3, 4) @ leaf(4, 5), aten.mm, 2 * 3 * 4 * 5),
    "bmm": (lambda: leaf(2, 3, 4) @ leaf(2, 4, 5), aten.bmm, 2 * 2 * 3 * 4 * 5),
    "rows": (lambda: leaf(2, 3, 4) @ leaf(4, 5), aten.mm, 2 * 2 * 3 * 4 * 5),
    "mv": (lambda: leaf(3, 4) @ leaf(4), aten.mv, 2 * 3 * 4),
    "dot": (lambda: leaf(4) @ leaf(4), aten.dot, 2 * 4),
    "linear": (lambda: nn.functional.linear(leaf(2, 3, 4), leaf(5, 4)), aten.mm, 2 * 2 * 3 * 4 * 5),
    "linear with bias": (lambda: nn.functional.linear(leaf(3, 4), leaf(5, 4), leaf(5)), aten.addmm, 2 * 3 * 4 * 5),
    "conv2d": (
        lambda: nn.functional.conv2d(leaf(2, 4, 7, 7), leaf(6, 2, 3, 3), groups=2),
        aten.convolution,
        2 * 2 * 25 * 6 * 2 * 9,
    ),
    "lstm": (lambda: nn.LSTM(3, 5)(leaf(7, 2, 3))[0], aten.mm, 2 * 7 * 2 * (20 * 3 + 20 * 5)),
    "gru": (lambda: nn.GRU(3, 5)(leaf(7, 2, 3))[0], aten.mm, 2 * 7 * 2 * (15 * 3 + 15 * 5)),
    "rnn": (lambda: nn.RNN(3, 5)(leaf(7, 2, 3))[0], aten.mm, 2 * 7 * 2 * (5 * 3 + 5 * 5)),
}


@pytest.mark.parametrize("name", CALLS)
def test_forward_and_backward(name):
    call, operator, count = CALLS[name]
    counter = counted(call)
    assert counter.get_flop_counts()["Global"] == {operator: count}
    assert counted(lambda: call().sum().backward()).get_total_flops() == 3 * count


def test_attention_counts_both_products_whatever_computes_it():
    query, key, value = leaf(2, 3, 40, 16), leaf(2, 3, 50, 16), leaf(2, 3, 50, 8)
    call = lambda: nn.functional.scaled_dot_product_attention(query, key, value)  # noqa: E731
    count = 2 * 2 * 3 * 40 * 50 * (16 + 8)
    assert counted(call).get_total_flops() == count
    assert counted(lambda: call().sum().backward()).get_total_flops() in (3 * count, count + count * 5 // 2)


def test_sentences_count_their_own_lengths():
    lengths, size = [3, 50, 7], 16
    x = dynograd.ragged_tensor([dynograd.rand(length, size) for length in lengths])
    layer = nn.MultiheadAttention(size, 2, batch_first=True)
    counter = counted(lambda: layer(x, x, x, need_weights=False))
    products = 4 * 2 * sum(lengths) * size * size
    assert counter.get_total_flops() == products + 4 * sum(length * length for length in lengths) * size


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.encoder(x)).sum()


def test_modules_forward_and_backward():
    counter = counted(lambda: Net()(dynograd.rand(3, 8)).backward())
    counts = {path: sum(ops.values()) for path, ops in counter.get_flop_counts().items()}
    encoder, head = 2 * 3 * 8 * 4, 2 * 3 * 4 * 2
    assert counts == {
        "Global": 2 * encoder + 3 * head,
        "Net": 2 * encoder + 3 * head,
        "Net.encoder": 2 * encoder,
        "Net.encoder.0": 2 * encoder,
        "Net.head": 3 * head,
    }


def test_a_module_that_raises_is_left():
    class Fails(nn.Module):
        def forward(self, x):
            raise KeyError("x")

    def run():
        with pytest.raises(KeyError):
            Fails()(1)
        return leaf(2, 2) @ leaf(2, 2)

    assert set(counted(run).get_flop_counts()) == {"Global"}


def test_second_order_counts_each_product_once():
    x, weight = leaf(3, 4), leaf(4, 5)

    def run():
        (g,) = dynograd.autograd.grad((x @ weight).pow(2).sum(), x, create_graph=True)
        g.sum().backward()

    forward, first = 2 * 3 * 4 * 5, 2 * 3 * 4 * 5
    assert counted(run).get_total_flops() >= forward + first + 2 * first


def test_the_table_and_its_depth(capsys):
    with FlopCounterMode(depth=1):
        Net()(dynograd.rand(3, 8))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["Module", "FLOP", "%", "Total"],
        ["-" * 14, "-" * 7, "-" * 7],
        ["Global", "240.000", "100.00%"],
        ["-", "aten.addmm", "240.000", "100.00%"],
        ["Net", "240.000", "100.00%"],
        ["-", "aten.addmm", "240.000", "100.00%"],
    ]


def test_formulas_of_a_program():
    counter = counted(
        lambda: dynograd.rand(2, 3).cumsum(0),
        custom_mapping={aten.cumsum: lambda shape, *_, out_shape, **__: out_shape.numel()},
    )
    assert counter.get_flop_counts() == {"Global": {aten.cumsum: 6}}
    register_flop_formula(aten.mm, get_raw=True)(lambda a, b, out_val: a.size(0))
    try:
        assert counted(lambda: leaf(3, 4) @ leaf(4, 5)).get_total_flops() == 3
    finally:
        del flop_registry[aten.mm]
    with pytest.raises(ValueError, match=r"expected operators such as torch\.ops\.aten\.mm, got 'mm'"):
        register_flop_formula(["mm"])


def test_a_mode_is_used_again():
    counter = FlopCounterMode(display=False)
    for _ in range(2):
        with counter:
            leaf(3, 4) @ leaf(4, 5)
        assert counter.get_total_flops() == 120
    leaf(3, 4) @ leaf(4, 5)
    assert counter.get_total_flops() == 120
