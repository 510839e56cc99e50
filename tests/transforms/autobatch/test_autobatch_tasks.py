"""`batched`: functions of one example that decide on their own values."""

import numpy
import pytest

import dynograd
from dynograd import nn


def test_newton_with_its_own_number_of_steps():
    def root(a):
        x, steps = a.clone(), 0
        while abs((x * x - a).item()) > 1e-9 * max(1.0, a.item()):
            x, steps = (x + a / x) / 2, steps + 1
        return x, steps

    numbers = [dynograd.tensor(float(k), dtype=dynograd.float64) for k in (2, 9, 1, 1e6, 0.25)]
    expected = [root(one) for one in numbers]
    found = dynograd.batched(root)(numbers)
    assert [steps for _, steps in found] == [steps for _, steps in expected]
    for (x, _), (other, _) in zip(found, expected):
        assert float(x) == pytest.approx(float(other), rel=1e-12)
    report = dynograd.autobatch.report()
    assert report.launches < 12 * max(steps for _, steps in expected)


class Parser(nn.Module):
    """Shift or reduce, as the scores say."""

    def __init__(self):
        super().__init__()
        self.table, self.cell = nn.Embedding(20, 6), nn.Linear(12, 6)
        self.score = nn.Linear(12, 2)

    def forward(self, tokens):
        buffer, stack, trace = list(tokens), [], []
        while buffer or len(stack) > 1:
            if len(stack) < 2:
                action = 0
            elif not buffer:
                action = 1
            else:
                action = int(self.score(dynograd.cat([stack[-1], stack[-2]])).argmax())
            trace.append(action)
            if action == 0:
                stack.append(self.table(dynograd.tensor(buffer.pop(0))))
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(self.cell(dynograd.cat([left, right])).tanh())
        return stack[0], trace


def sentences(count):
    rng = numpy.random.default_rng(3)
    return [rng.integers(0, 20, rng.integers(3, 12)).tolist() for _ in range(count)]


def test_shift_reduce_with_argmax():
    dynograd.manual_seed(1)
    parser, data = Parser(), sentences(12)
    expected = [parser(one) for one in data]
    sum((h * h).sum() for h, _ in expected).backward()
    gradients = [one.grad.numpy().copy() if one.grad is not None else None for one in parser.parameters()]
    parser.zero_grad()
    found = dynograd.batched(parser)(data)
    assert [trace for _, trace in found] == [trace for _, trace in expected]
    sum((h * h).sum() for h, _ in found).backward()
    for one, other in zip(parser.parameters(), gradients):
        if other is not None:
            numpy.testing.assert_allclose(one.grad.numpy(), other, rtol=1e-4, atol=1e-6)
    report = dynograd.autobatch.report()
    assert report.launches < report.calls / 2
    depth = max(len(trace) for _, trace in expected)
    assert report.launches <= 12 * depth


def test_errors_name_the_example():
    def picky(x):
        if x.item() < 0:
            raise ValueError("negative")
        return float(x * 2)

    numbers = [dynograd.tensor(float(k)) for k in (1, -1, 3)]
    with pytest.raises(ValueError, match="negative") as caught:
        dynograd.batched(picky)(numbers)
    assert "batched: in example 1" in caught.value.__notes__
    found = dynograd.batched(picky, errors="return")(numbers)
    assert found[0] == 2 and isinstance(found[1], ValueError) and found[2] == 6


def test_random_numbers_do_not_depend_on_the_other_examples():
    def noisy(x):
        y = x + dynograd.randn(2)
        if y.sum() > 0:
            y = y + dynograd.randn(2)
        return (y + dynograd.rand(2)).tolist()

    many = [dynograd.zeros(2) for _ in range(6)]
    dynograd.manual_seed(4)
    all_of_them = dynograd.batched(noisy)(many)
    dynograd.manual_seed(4)
    assert dynograd.batched(noisy, concurrent=2)(many[:3]) == all_of_them[:3]
    assert len({tuple(one) for one in all_of_them}) == 6
    assert dynograd.batched(noisy)(many[:1]) != all_of_them[:1]


def test_modes_nesting_and_no_examples():
    assert dynograd.batched(lambda x: x)([]) == []
    weight = dynograd.ones(2, requires_grad=True)
    with dynograd.no_grad():
        found = dynograd.batched(lambda x: weight * x)([1.0, 2.0])
    assert not any(one.requires_grad for one in found)

    def outer(k):
        return sum(float(one) for one in dynograd.batched(lambda j: (weight * j * k).sum().detach())([1.0, 2.0]))

    assert dynograd.batched(outer)([1.0, 3.0]) == [6.0, 18.0]


def test_more_examples_than_may_be_under_way():
    def halvings(x):
        count = 0
        while x > 1:
            x, count = x / 2, count + 1
        return count

    numbers = [float(k) for k in (5, 1, 100, 3, 3, 1, 7, 2, 60)]
    expected = [halvings(x) for x in numbers]
    for concurrent in (1, 2, 4, 100):
        assert dynograd.batched(halvings, concurrent=concurrent)([dynograd.tensor(x) for x in numbers]) == expected


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ((3,), TypeError, "expected a function of one example, got int"),
        ((len, "ignore"), ValueError, "'raise' or 'return', got 'ignore'"),
        ((len, "raise", 0), ValueError, "positive number of examples, got 0"),
    ],
)
def test_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        dynograd.batched(*arguments[:1], **dict(zip(("errors", "concurrent"), arguments[1:])))
