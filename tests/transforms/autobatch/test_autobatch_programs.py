"""Random programs over trees, graphs and loops inside `autobatch` give what they give without it: values and every gradient."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dynograd

WIDTH = 4

step = st.tuples(
    st.sampled_from(
        "add mul tanh layer cell cat slice chunk index transpose sum scale loop where softmax stack inplace inplace_view "
        "set_item detach read branch no_grad relu_ unbind share expand matmul outside".split()
    ),
    st.integers(0, 50),
    st.integers(0, 50),
)
example = st.tuples(st.integers(1, 3), st.lists(step, min_size=1, max_size=14))
program = st.lists(example, min_size=1, max_size=5)


class Model:
    def __init__(self, dtype):
        rng = numpy.random.default_rng(5)

        def leaf(*shape):
            made = dynograd.tensor(rng.normal(size=shape) / 2, dtype=dtype)
            made.requires_grad = True
            return made

        self.weight, self.bias, self.table, self.factor = leaf(WIDTH, WIDTH), leaf(WIDTH), leaf(6, WIDTH), leaf(1)
        self.left, self.right = leaf(WIDTH, WIDTH), leaf(WIDTH, WIDTH)
        self.inputs = [dynograd.tensor(rng.normal(size=WIDTH), dtype=dtype) for _ in range(8)]
        self.buffer = dynograd.zeros(WIDTH, dtype=dtype)

    def leaves(self):
        return [self.weight, self.bias, self.table, self.factor, self.left, self.right]


def body(a, b, left, right):
    gates = a @ left + b @ right
    return gates.sigmoid() * a + gates.tanh()


cell = dynograd.cell(body)


def run_example(model, depth, steps):
    """One example: a pool of vectors, each step makes another of two of them. Its loss, and values that were read on the way."""
    pool = [model.inputs[depth], dynograd.nn.functional.embedding(dynograd.tensor(depth), model.table)]
    seen = []
    for name, i, j in steps:
        a, b = pool[i % len(pool)], pool[j % len(pool)]
        if name == "add":
            found = a + b
        elif name == "mul":
            found = a * b
        elif name == "tanh":
            found = a.tanh()
        elif name == "layer":
            found = dynograd.nn.functional.linear(a, model.weight, model.bias)
        elif name == "cell":
            found = cell(a, b, model.left, model.right)
        elif name == "cat":
            found = dynograd.cat([a[:2], b[2:]])
        elif name == "slice":
            found = dynograd.cat((a[1:], a[:1]), 0) * 0.5
        elif name == "chunk":
            one, two = (a + b).chunk(2)
            found = dynograd.cat([two, one.exp() * 0.1])
        elif name == "index":
            found = a * b[j % WIDTH]
        elif name == "transpose":
            found = a.view(2, 2).t().reshape(WIDTH)
        elif name == "sum":
            found = a - b.sum() * 0.1
        elif name == "scale":
            found = 2 - a * (i + 1) / 3
        elif name == "loop":
            found = a
            for _ in range(depth):
                found = (dynograd.nn.functional.linear(found, model.weight) + b).tanh()
        elif name == "where":
            found = dynograd.where(a > b, a, b * 0.5)
        elif name == "softmax":
            found = a.softmax(-1) + b
        elif name == "stack":
            found = dynograd.stack([a, b, a]).mean(0)
        elif name == "inplace":
            found = a * 1.5
            found += b
            found.mul_(0.5)
        elif name == "inplace_view":
            found = a + b
            part = found[1:3]
            part.mul_(2.0)
            found = found + part.sum()
        elif name == "set_item":
            found = a * 1.0
            found[0] = b[1]
        elif name == "detach":
            found = a.detach() * b
        elif name == "read":
            seen.append(float(a.sum()))
            found = a * 0.9
        elif name == "branch":
            found = a + 1 if float(b.mean().item()) > 0 else b - a
        elif name == "no_grad":
            with dynograd.no_grad():
                constant = a * b
            found = a + constant
        elif name == "relu_":
            found = (a - 0.1).relu_()
        elif name == "unbind":
            found = sum(a.unbind()) * b
        elif name == "share":
            found = a * a + a
            pool.append(found)
        elif name == "expand":
            found = a[2].expand(WIDTH) + b
        elif name == "matmul":
            found = (a.view(2, 2) @ b.view(2, 2)).flatten()
        else:  # a buffer that all examples write
            kept = model.buffer + a
            model.buffer.add_(0.25)
            found = kept + b
        pool.append(found / 1.5)
    return (pool[-1] * pool[len(pool) // 2]).sum() * model.factor[0], seen


def run(examples, dtype, scope):
    model = Model(dtype)
    losses, seen = [], []

    def all_examples():
        for depth, steps in examples:
            loss, read = run_example(model, depth, steps)
            losses.append(loss)
            seen.extend(read)
        return sum(losses)

    if scope:
        with dynograd.autobatch(always=True):
            total = all_examples()
            assert total.shape == ()
    else:
        total = all_examples()
    total.backward()
    values = [float(total), *[float(one) for one in losses], *seen]
    return (
        values,
        [numpy.zeros(one.shape) if one.grad is None else one.grad.numpy() for one in model.leaves()],
        model.buffer.numpy(),
    )


@pytest.mark.slow
@settings(max_examples=1000)
@given(program)
def test_programs(examples):
    expected, gradients, buffer = run(examples, dynograd.float64, False)
    found, others, other_buffer = run(examples, dynograd.float64, True)
    numpy.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    numpy.testing.assert_array_equal(buffer, other_buffer)
    for one, other in zip(gradients, others, strict=True):
        if one is not None:
            scale = max(1.0, float(numpy.abs(one).max()))
            numpy.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12 * scale)


@settings(max_examples=100)
@given(program)
def test_programs_float32(examples):
    expected, gradients, _ = run(examples, dynograd.float32, False)
    found, others, _ = run(examples, dynograd.float32, True)
    for one, other in [(expected, found), *zip(gradients, others, strict=True)]:
        if one is not None:
            scale = max(1.0, float(numpy.abs(numpy.asarray(one)).max()))
            numpy.testing.assert_allclose(other, one, rtol=1e-5, atol=2e-6 * scale)
