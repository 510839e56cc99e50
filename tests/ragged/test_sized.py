"""Ragged sizes where dense code names a size: what each row alone gives, gradients, and what is refused."""

import math

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.nn import functional as F

LENGTHS = [5, 9, 1, 0, 7]
B = len(LENGTHS)
given = {
    "table": dynograd.randn(12, 3, dtype=dynograd.float64).requires_grad_(),
    "short": dynograd.randn(6, 3, dtype=dynograd.float64).requires_grad_(),
    "square": dynograd.randn(1, 2, 12, 12, dtype=dynograd.float64).requires_grad_(),
    "heads": dynograd.randn(2, 12, 12, dtype=dynograd.float64).requires_grad_(),
    "single": dynograd.randn(1, 1, 3, dtype=dynograd.float64).requires_grad_(),
}

# expressions of the ragged size T and of the number of rows; a row alone has T = its length, B = 1
SAME = """
torch.arange(T)[None] if alone else torch.arange(T)
torch.arange(0, T)[None] if alone else torch.arange(0, T)
torch.arange(0, T, 3, dtype=torch.float64)[None] if alone else torch.arange(0, T, 3, dtype=torch.float64)
torch.arange(T).unsqueeze(0).expand(B, T)
torch.arange(end=T)[None] if alone else torch.arange(end=T)
torch.zeros(B, T, 3)
torch.zeros(size=(B, T, 3))
torch.full(size=(B, T), fill_value=-1)
torch.ones((B, 2, T))
torch.full((B, T), -1)
torch.zeros(1, T, 3)
torch.ones(B, T, T).tril()
torch.full((T, T), float("-inf")).triu(1)[None] if alone else torch.full((T, T), float("-inf")).triu(1)
nn.Transformer.generate_square_subsequent_mask(T)[None] if alone else nn.Transformer.generate_square_subsequent_mask(T)
table[:T][None] if alone else table[:T]
table[:T, 1][None] if alone else table[:T, 1]
table[None, :T]
table[None][:, :T]
table[None, :T, ::2]
table[1:T][None] if alone else table[1:T]
table[..., :T, :][None] if alone else table[..., :T, :]
short[:T][None] if alone else short[:T]
square[:, :, :T, :T]
square[..., :T, :T]
square[:, 0, :T, :T]
square[:, :, :T, :3]
heads[:, :T, :T][None] if alone else heads[:, :T, :T]
single.expand(B, T, 3)
single.expand(-1, T, -1)
single.repeat(1, T, 2)
single[0, 0].expand(B, T, 3)
torch.tile(single, (1, T, 1))
""".strip().splitlines()


@pytest.mark.parametrize("text", SAME)
def test_a_row_is_the_row_alone(text):
    x = dynograd.ragged_tensor([dynograd.zeros(length, 3) for length in LENGTHS])
    names = {"torch": dynograd, "nn": nn, **given}
    found = eval(text, {**names, "B": x.shape[0], "T": x.shape[1], "alone": False})
    assert dynograd.is_ragged(found)
    used = [one for name, one in given.items() if f"{name}[" in text or f"{name}." in text or f"({name}," in text]
    rows = [eval(text, {**names, "B": 1, "T": length, "alone": True}) for length in LENGTHS if length]
    mine = [found[number] for number, length in enumerate(LENGTHS) if length]
    for one, row in zip(mine, rows, strict=True):
        assert one.shape == row.shape[1:] and one.dtype == row.dtype
        assert numpy.array_equal(one.detach(), row[0].detach())
    if used:
        sums = [
            sum((one.double() ** 2).sum() * (place + 1) for place, one in enumerate(parts)) for parts in (mine, rows)
        ]
        for one, two in zip(*[dynograd.autograd.grad(total, used) for total in sums]):
            assert numpy.allclose(one, two)


def test_rows_of_a_padded_batch():
    x = dynograd.ragged_tensor([dynograd.zeros(length) for length in LENGTHS])
    padded = dynograd.randn(B, 12, 3)
    for number, row in enumerate(padded[:, : x.shape[1]].unbind()):
        assert numpy.array_equal(row, padded[number, : LENGTHS[number]])
    wide = dynograd.randn(B, 4, 1)
    for found in (wide.repeat(1, 1, x.shape[1]), wide.expand(-1, -1, x.shape[1])):
        for number, row in enumerate(found.unbind()):
            assert numpy.array_equal(row, wide[number].expand(-1, LENGTHS[number]))


@pytest.mark.parametrize("fused", [False, True])
def test_attention_written_by_hand(fused):
    """Sizes as B, T, C = x.size(), heads by view, a buffer of the longest causal mask, positions by arange."""
    embed, places, project = nn.Embedding(20, 8).double(), nn.Embedding(16, 8).double(), nn.Linear(8, 24).double()
    hidden = dynograd.tril(dynograd.ones(16, 16)).view(1, 1, 16, 16)
    weights = [*embed.parameters(), *places.parameters(), *project.parameters()]

    def forward(tokens):
        B, T = tokens.size()
        x = embed(tokens) + places(dynograd.arange(0, T))
        q, k, v = (one.view(B, T, 2, 4).transpose(1, 2) for one in project(x).split(8, dim=2))
        if fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            y = scores.masked_fill(hidden[:, :, :T, :T] == 0, float("-inf")).softmax(-1) @ v
        return y.transpose(1, 2).contiguous().view(B, T, 8)

    rows = [dynograd.randint(0, 20, (length,)) for length in (5, 9, 1, 7)]
    found = forward(dynograd.ragged_tensor(rows))
    alone = [forward(row[None])[0] for row in rows]
    for one, two in zip(found.unbind(), alone, strict=True):
        assert numpy.allclose(one.detach(), two.detach())
    grads = [dynograd.autograd.grad(sum((one**3).sum() for one in parts), weights) for parts in (found.unbind(), alone)]
    for one, two in zip(*grads, strict=True):
        assert numpy.allclose(one, two)


def test_tables_meet_rows_with_heads():
    q = dynograd.ragged_tensor([dynograd.randn(4, length, 6) for length in (5, 2, 4)])
    table = dynograd.randn(12, 6)
    found = q * table[: q.size(-2)] + 1
    for one, two in zip(found.unbind(), q.unbind()):
        assert numpy.allclose(one, two * table[: two.shape[1]] + 1)


ERRORS = [
    (lambda T: dynograd.arange(T, 9), RuntimeError, "dim 1 is ragged"),
    (lambda T: dynograd.arange(T + 1), RuntimeError, "arithmetic", "[5, 9, 1, 0, 7]"),
    (lambda T: dynograd.zeros(T, out=dynograd.zeros(1)), RuntimeError, "out="),
    (lambda T: dynograd.zeros(T, dynograd.ragged_tensor([[1.0]]).shape[1]), RuntimeError, "of 5 and of 1 rows"),
    (lambda T: given["table"][T:], RuntimeError, "dim 1 is ragged", "no number"),
    (lambda T: given["table"][:T][:, :, dynograd.tensor([5])], IndexError, "5"),
    (lambda T: given["table"].expand(B, T, 3), RuntimeError, "dim 1 is ragged"),
    (lambda T: dynograd.eye(T), RuntimeError, "dim 1 is ragged"),
]


@pytest.mark.parametrize("case", ERRORS, ids=range(len(ERRORS)))
def test_errors_say_what_is_wrong(case):
    call, kind, *words = case
    x = dynograd.ragged_tensor([dynograd.zeros(length) for length in LENGTHS])
    with pytest.raises(kind) as caught:
        call(x.shape[1])
    for word in words:
        assert word in str(caught.value)
