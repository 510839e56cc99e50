"""`python -m benchmarks.autobatch_costs`: what recording costs, and what `autobatch` costs one example alone.

Recording: microseconds for a call inside the scope, before anything is computed, the loop around it taken off. One example alone:
forward and backward inside `autobatch` beside the same outside, in turns.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median
from time import perf_counter

import dynograd
from benchmarks.rows.dynamic import WIDTH, forest, tree_model
from dynograd import nn
from dynograd.utils import programs

CALLS = 20_000


def main(arguments=None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.autobatch_costs", description=__doc__.partition(":")[0])
    parser.add_argument("--rounds", type=programs.whole_number(1), default=9, help="turns (%(default)s)")
    parser.add_argument(
        "--calls", type=programs.whole_number(1), default=CALLS, help="recorded in a turn (%(default)s)"
    )
    options = parser.parse_args(arguments)
    print("| recorded | µs a call, median (min) |\n| --- | --- |")
    for name, loop, empty in recordings(options.calls):
        times = [(loop() - empty()) / options.calls * 1e6 for _ in range(options.rounds)]
        print(f"| {name} | {median(times):.2f} ({min(times):.2f}) |")
    print(
        "\n| alone | autobatch, median | plain, median | autobatch / plain, median of turns |\n| --- | --- | --- | --- |"
    )
    for name, inside, outside in examples():
        inside(), outside()
        turns = [(clocked(inside), clocked(outside)) for _ in range(options.rounds)]
        times = [median(side) * 1e3 for side in zip(*turns)]
        print(f"| {name} | {times[0]:.2f} ms | {times[1]:.2f} ms | {median([a / b for a, b in turns]):.2f} |")


def clocked(step, times=5) -> float:
    started = perf_counter()
    for _ in range(times):
        step()
    return (perf_counter() - started) / times


def recordings(calls):
    """(what, a function that gives the seconds of so many recorded calls, the same of the bare loop)."""
    x, y = dynograd.randn(WIDTH), dynograd.randn(WIDTH)
    linear, cell = nn.Linear(WIDTH, WIDTH), nn.GRUCell(WIDTH, WIDTH)
    tree = nn.BinaryTreeLSTMCell(WIDTH, WIDTH)
    functions = {
        "x.tanh()": lambda x, y: x.tanh(),
        "x + y": lambda x, y: x + y,
        "x * 0.5": lambda x, y: x * 0.5,
        "cat([x, y])": lambda x, y: dynograd.cat([x, y]),
        "x.chunk(2)": lambda x, y: x.chunk(2),
        "functional.linear": lambda x, y: nn.functional.linear(x, linear.weight, linear.bias),
        "cell: GRUCell": lambda x, y: cell(x, y),
        "cell: BinaryTreeLSTMCell": lambda x, y: tree(None, (x, y), (x, y)),
    }

    def timed(function):
        def seconds():
            with dynograd.autobatch(always=True):
                a, b = x * 2, y * 2
                function(a, b)
                results, each = [None] * calls, range(calls)
                started = perf_counter()
                for k in each:
                    results[k] = function(a, b)
                return perf_counter() - started

        return seconds

    def empty():
        results, each = [None] * calls, range(calls)
        function = _nothing
        started = perf_counter()
        for k in each:
            results[k] = function(x, y)
        return perf_counter() - started

    return [(name, timed(function), empty) for name, function in functions.items()]


def _nothing(x, y):
    return x


def examples():
    """(what, a step inside autobatch, the same outside)."""
    model, label = tree_model(dynograd, True), dynograd.tensor(1)
    (tree,) = forest(1)
    cross_entropy = nn.functional.cross_entropy
    lstm = nn.LSTMCell(WIDTH, WIDTH)
    tokens = list(dynograd.randn(30, WIDTH).unbind())

    def of_tree():
        return cross_entropy(model(tree), label)

    def of_tokens():
        state = None
        for token in tokens:
            state = lstm(token, state)
        return state[0].sum()

    def of_layers():
        x = tokens[0]
        for _ in range(20):
            x = (nn.functional.linear(x, lstm.weight_hh[:WIDTH]) + tokens[1]).tanh()
        return x.sum()

    def inside(loss_of):
        def step():
            with dynograd.autobatch():
                loss = loss_of()
            loss.backward()

        return step

    def outside(loss_of):
        return lambda: loss_of().backward()

    losses = {"one tree": of_tree, "one LSTM of 30 tokens": of_tokens, "one chain of 20 layers": of_layers}
    return [(name, inside(loss_of), outside(loss_of)) for name, loss_of in losses.items()]


if __name__ == "__main__":
    sys.exit(programs.run(main))
