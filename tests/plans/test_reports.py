"""What `report()` of a compiled function says."""

from __future__ import annotations

import re

import numpy
import pytest

import dynograd as torch
from dynograd import nn
from dynograd.ops.op import registry
from dynograd.plans.compiling import Compiled
from dynograd.plans.lowering.reasons import way_of, way_of_rule

THIS = "test_reports.py"


def report_of(function, *calls, **options):
    compiled = Compiled(function, always=True, **options)
    for args in calls:
        compiled(*args)
    return compiled.report()


def chain(x):
    return (x * 2 + 1).exp() - x


def test_a_report():
    report = report_of(chain, *[(torch.randn(64),)] * 5)
    assert (report.name, report.calls, report.walked, report.breaks) == ("chain", 5, 3, ())
    assert not report.pauses and not report.stopped
    (way,) = report.ways
    assert way.inputs == (("x", "float32(64)"),) and way.walked == 3 and 0 < way.microseconds < 1e6
    assert (way.steps, way.calls, way.in_kernels, way.views, way.in_python) == (4, 4, 0, 0, ())
    assert [group.members for group in way.groups] == [("mul", "add", "exp", "sub")]
    assert all([re.search(rf"{THIS}:\d+ in chain", line) for line in way.groups[0].lines])
    assert way.launches == 1 and way.bytes > 0 and report.arena >= way.bytes
    assert [(segment.calls, segment.end) for segment in way.segments] == [(4, "the end")]


def test_its_text():
    text = str(report_of(chain, *[(torch.randn(64),)] * 5))
    assert text.startswith("chain: 5 calls, 3 along the record, 1 way, ")
    assert (
        "way of x float32(64): 3 calls along it, " in text and "one loop: mul, add, exp, sub (test_reports.py:" in text
    )


def test_in_a_notebook():
    x = torch.randn(4)
    html = report_of(lambda x, n: x.roll(n), *[(x, n) for n in (2, 2, 2, 3, 2)], name="<step>")._repr_html_()
    assert "&lt;step&gt;: 5 calls" in html and "<td>1</td><td>roll came where the record has roll</td>" in html
    assert html.count("<details>") == 2


def test_a_training_step_in_segments():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        seen = float(loss)
        loss.backward()
        optimizer.step()
        return seen

    (way,) = report_of(step, *[(torch.randn(4, 3),)] * 4).ways
    ends = [re.sub(r":\d+", ":n", segment.end) for segment in way.segments]
    assert ends == [f"a value that was read or kept, behind mean ({THIS}:n)", f"SGD.step ({THIS}:n)"]
    assert sum([segment.calls for segment in way.segments]) == way.calls and way.steps == 5


def test_ways_that_differ_in_numbers_alone_are_told_once():
    model = nn.Linear(3, 3)

    def step(x):
        loss = torch.fft.fft(model(x)).real.mean()
        loss.backward()
        return loss

    report = report_of(step, *[(torch.randn(n, 3),) for n in (4, 5) for _ in range(3)], dynamic=False)
    first, second = str(report).split("way of ")[1:]
    assert "in Python: 1 x fft_complex" in first and "x fft" not in second and "all else as of a way above" in second
    assert "in Python: 1 x fft_complex" in str(report.ways[1])


def draws(x):
    return nn.functional.dropout(x.double(), 0.5) * 2


def inverses(x):
    return torch.linalg.inv(x) + 1


def divisors(x):
    return torch.gcd(x.int(), x.int() + 1) + 1


def pools(x):
    return nn.functional.max_pool1d(x[None], 2, return_indices=True)[0] * 2


def finds(x):
    return x.view(4, 8, 32)[x[0, :4].argsort(), :, x[1, :4].argsort()] * 2


@pytest.mark.parametrize(
    "function, name, why",
    [
        (draws, "dropout", "it draws random numbers, others in each call"),
        (inverses, "linalg_inv_ex", "there is no written form of it, and NumPy computes it"),
        (divisors, "gcd", "there is no loop of its function"),
        (pools, "max_pool", "the kernels that ran in it are not all that computes it"),
        (finds, "index", "its written form does not take these dtypes, layouts or arguments"),
    ],
)
def test_why_a_call_is_computed_in_python(function, name, why):
    x = torch.randn(32, 32)
    (way,) = report_of(function, *[(x,)] * 4).ways
    row = next(row for row in way.in_python if row.name == name)
    assert why in row.why and row.times == 1 and re.search(rf"{THIS}:\d+ in {function.__name__}", row.line)


def test_exact_mode_says_which_kernels_it_leaves():
    x = torch.randn(8)
    (loose,) = report_of(torch.exp, *[(x,)] * 4).ways
    (exact,) = report_of(torch.exp, *[(x,)] * 4, exact=True).ways
    assert loose.in_kernels == 1 and exact.in_kernels == 0
    assert exact.in_python[0].name == "exp" and "mode is exact" in exact.in_python[0].why


@pytest.mark.parametrize("size", [4, 400])  # the numbers of the recorded step are kept, or a digest of them
def test_kernels_that_give_something_else_are_told(size, monkeypatch):
    from dynograd.plans import programs

    x, results = torch.randn(size, size), []
    (way,) = report_of(lambda x: x @ x, *[(x,)] * 4).ways
    assert way.in_kernels == 1 and not way.replaced
    lower = programs.lower
    monkeypatch.setattr(programs, "lower", lambda call: lower(call) and type(lower(call))())  # which write nothing
    (way,) = report_of(lambda x: results.append(x @ x) or results[-1], *[(x,)] * 4).ways
    assert way.replaced == ("op matmul",) and "gave something else" in way.in_python[0].why
    assert all(torch.equal(result, x @ x) for result in results)


def test_breaks_have_lines():
    def branches(x, up):
        y = x.exp()
        if up:
            return y + 1
        return y + 2

    x = torch.randn(3)
    report = report_of(branches, *[(x, up) for up in (True, True, True, False, False, True)])
    (left,) = report.breaks
    assert left.reason == "add came where the record has add" and left.times == 1
    assert re.search(rf"{THIS}:\d+ in branches", left.line) and len(report.ways) == 2

    def refused(x):
        y = x * 2
        return y.repeat_interleave(torch.tensor([1, 0, 2]))

    (left,) = report_of(refused, *[(x.requires_grad_(),)] * 4).breaks
    assert left.times == 4 and re.search(rf"{THIS}:\d+ in refused", left.line)
    assert left.reason == "repeat_rows of values that only a run knows, with a gradient"


def test_what_is_stopped_says_so():
    step = torch.compile(inverses)
    for _ in range(4):
        step(torch.randn(100, 100))
    report = step.report()
    assert (
        report.stopped
        and not report.ways
        and "it would be slower" in report.breaks[-1].reason
        and "runs as it is written from now on" in str(report)
    )


def test_of_a_module():
    model = torch.compile(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
    with torch.no_grad():
        for _ in range(4):
            model(torch.randn(2, 3))
    report = model.report()
    assert isinstance(report, torch.compiler.Report) and report.name == "Sequential" and report.walked == 2
    assert report.ways[0].inputs == (("input", "float32(2, 3)"),)


@pytest.mark.parametrize(
    "name, way, rule",
    [
        ("relu", "formula", "formula"),
        ("linear", "form", "form"),
        ("view", "view", "form"),
        ("batch_norm", "bound", "bound"),
        ("max_pool_values", "bound", "bound"),
        ("convolution", "form", "form"),
        ("sin", "formula", "formula"),
        ("sort", "form", "form"),
        ("isin", "form", ""),
        ("swiglu", "trial", "trial"),
        ("gcd", "Python", ""),
        ("dropout", "form", "form"),
        ("logical_and", "formula", ""),
        ("bitwise_and", "formula", ""),
        ("nonzero", "–", ""),
        ("tril_indices", "–", ""),
        ("glu", "parts", ""),
    ],
)
def test_the_tables_say_what_computes_an_op(name, way, rule):
    assert (way_of(registry[name]), way_of_rule(registry[name])) == (way, rule)


def test_what_the_tables_say_is_so():
    """Elementwise ops of one operand: those with a formula's loop are computed by it."""
    ops = [
        op for op in registry.values() if op.kind == "elementwise" and len(op.array_names) == 1 and not op.static_names
    ]
    rows = [op for op in ops if op.is_of_the_library and op.promote in ("float", "arithmetic")]
    assert len(rows) > 40
    x = torch.tensor(numpy.linspace(0.1, 0.9, 2048, dtype=numpy.float32))
    for op in rows:
        compiled = Compiled(op.function, always=True)
        for _ in range(3):
            compiled(x)
        (way,) = compiled.report().ways
        assert way.in_kernels == (way_of(op) == "formula"), op.name
