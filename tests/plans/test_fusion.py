"""Neighbouring elementwise calls as one call: what it computes, what it writes, where a group ends."""

from __future__ import annotations

import copy

import numpy
import pytest

import dynograd
from dynograd.autograd.nodes import OutputNode
from dynograd.ops.op import registry
from dynograd.plans.calls import Call
from dynograd.plans.lowering import described, fuse, lower
from tests.plans.lowering_rows import close, poison, put, run, tensor


class Tape:
    """Eager ops and rules, noted as calls."""

    def __init__(self):
        self.calls = []

    def op(self, name, *arguments):
        op = registry[name]
        result = op.function(*arguments)
        node = result.node.edges[0] if type(result.node) is OutputNode else result.node
        values = [value.array if isinstance(value, dynograd.Tensor) else value for value in arguments]
        inputs, statics = described(op, dict(zip(op.parameter_names, values)))
        self.add("op", op.name, op, inputs, (result.array,), statics, lambda: [op.function(*arguments).array], node)
        return result

    def rule(self, result, g):
        node = copy.copy(result.node)
        gradients = [part if type(part) is numpy.ndarray else None for part in node.apply(g)]
        saved = [getattr(node, name) for name in node.saved_names]
        saved = [value for value in saved if isinstance(value, numpy.ndarray)]
        outputs = [None if part is None or numpy.may_share_memory(part, g) else part for part in gradients]
        self.add("rule", node.op.name, node.op, (g, *saved), outputs, (), lambda: node.apply(g), node)
        return gradients

    def sum(self, first, second):
        total = first + second
        self.add("sum", "sum", None, (first, second), (total,), (), lambda: [first + second], None)
        return total

    def add(self, kind, name, op, inputs, outputs, statics, compute, node):
        self.calls.append(Call(kind, name, op, tuple(inputs), tuple(outputs), statics, compute, node=node))

    def fused(self, *kept):
        calls = fuse(self.calls, [getattr(array, "array", array) for array in kept])
        return calls

    def check(self, calls, *kept):
        """Runs the calls on poisoned memory; everything in `kept` must be as eager made it."""
        arrays = [getattr(array, "array", array) for array in kept]
        expected = [array.copy() for array in arrays]
        for call in self.calls:
            for output in call.outputs:
                if output is not None:
                    poison(output)
        for call in calls:
            run(lower(call))
        for array, values in zip(arrays, expected, strict=True):
            close(array, values, False)


@pytest.fixture
def x():
    return tensor(numpy.random.default_rng(0), "float32", 50, 70)


def names(calls):
    return [call.name for call in calls]


def test_chain_is_one_loop_that_writes_its_end(x):
    tape = Tape()
    gate = tape.op("sigmoid", tape.op("mul", x, 1.702))
    end = tape.op("add", tape.op("mul", x, gate), tape.op("mul", tape.op("tanh", x), 0.1))
    (call,) = tape.fused(end)
    assert len(call.members) == 6
    assert len(call.outputs) == 1
    tape.check([call], end)
    assert numpy.isnan(gate.array).all()
    again = x.detach() * 0.5
    put(x.array, again.array)
    run(lower(call))
    numpy.testing.assert_allclose(
        end.array, (again * (again * 1.702).sigmoid() + again.tanh() * 0.1).numpy(), rtol=2e-6, atol=1e-6
    )


def test_what_others_read_is_written(x):
    tape = Tape()
    first = tape.op("mul", x, 2.0)
    second = tape.op("exp", first)
    end = tape.op("neg", second)
    total = tape.op("sum", second)
    calls = tape.fused(end, first)
    assert names(calls) == ["mul_exp_neg", "sum"]
    assert len(calls[0].outputs) == 3
    tape.check(calls, end, first, second, total)


def test_truths_and_rows_are_part_of_a_group(x):
    tape = Tape()
    row = tensor(numpy.random.default_rng(1), "float32", 70)
    positive = tape.op("gt", x, row)
    end = tape.op("where", positive, tape.op("mul", x, row), 0.0)
    (call,) = tape.fused(end)
    tape.check([call], end)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_rules_and_sums_of_gradients_are_one_loop(x, scale):
    tape = Tape()
    gate, bent = tape.op("sigmoid", x), tape.op("tanh", x)
    end = tape.op("mul", gate, bent)
    g = numpy.full(end.shape, scale, numpy.float32)
    g_gate, g_bent = tape.rule(end, g)
    total = tape.sum(tape.rule(gate, g_gate)[0], tape.rule(bent, g_bent)[0])
    calls = tape.fused(end, total)
    assert len(calls) == 1
    assert len(calls[0].outputs) == 2
    tape.check(calls, end, total)


def test_gradient_of_a_broadcast_operand_is_summed_behind_the_loop(x):
    tape = Tape()
    row = tensor(numpy.random.default_rng(1), "float32", 70)
    end = tape.op("tanh", tape.op("mul", x, row))
    product = end.node.edges[0]
    g = numpy.ones(end.shape, numpy.float32)
    (g_product,) = tape.rule(end, g)
    node = copy.copy(product)
    gradients = node.apply(g_product)
    tape.add(
        "rule", "mul", node.op, (g_product, x.array, row.array), gradients, (), lambda: node.apply(g_product), node
    )
    calls = tape.fused(*gradients)
    assert names(calls) == ["mul_to_mul_4"]
    tape.check(calls, *gradients)


def test_other_shapes_and_other_ops_end_a_group(x):
    tape = Tape()
    first = tape.op("exp", tape.op("neg", x))
    total = tape.op("sum", first, 0)
    end = tape.op("tanh", tape.op("neg", total))
    calls = tape.fused(first, end)
    assert names(calls) == ["neg_exp", "sum", "neg_tanh"]
    tape.check(calls, first, end)


@pytest.mark.parametrize("op, arguments", [("clamp", (-1.0, 1.0)), ("relu", ()), ("sign", ())], ids=str)
def test_a_group_ends_where_its_formula_would_say_the_same_too_often(x, op, arguments):
    """Each of these names its operand twice: a chain of 30 of them would be a formula of a thousand million names."""
    tape = Tape()
    end = x
    for _ in range(30):
        end = tape.op(op, end, *arguments)
    calls = tape.fused(end)
    assert 2 < len(calls) < 11
    tape.check(calls, end)


def test_a_call_that_writes_what_the_group_reads_stays_behind_it(x):
    tape = Tape()
    end = tape.op("exp", tape.op("neg", x))
    g = numpy.ones(x.shape, numpy.float32)
    before = x.array.copy()
    tape.add("accumulate", "accumulate", None, (x.array, g), (x.array,), (), lambda: [x.array + g], None)
    calls = tape.fused(end)
    assert names(calls) == ["neg_exp", "accumulate"]
    for call in calls:
        run(lower(call))
    numpy.testing.assert_allclose(end.array, numpy.exp(-before), rtol=2e-6)
    numpy.testing.assert_array_equal(x.array, before + g)


def test_python_form_of_a_group_computes_each_of_its_calls(x):
    tape = Tape()
    end = tape.op("exp", tape.op("neg", x))
    expected = end.array.copy()
    (call,) = tape.fused(end)
    poison(end.array)
    assert call.compute()[0] is end.array
    numpy.testing.assert_array_equal(end.array, expected)
