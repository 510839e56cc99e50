"""Every elementwise op on arrays large enough for its generated kernels: against the same op on small ones and in float64."""

import sys

import numpy
import pytest

import dynograd as dg
from dynograd.interpreter import fusion
from dynograd.kernels import kernel
from dynograd.kernels.build import threads
from dynograd.ops.op import elementwise, registry

DOMAINS = {
    "log_odds": (0.05, 0.95),
    "acosh": (1.1, 4.0),
    "asin": (-0.9, 0.9),
    "acos": (-0.9, 0.9),
    "atanh": (-0.9, 0.9),
    "erfinv": (-0.9, 0.9),
    "special_ndtri": (0.05, 0.95),
    "special_zeta": (1.3, 3.0),
}
POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "xlogy", "pow", "lgamma", "digamma", "polygamma"}
POSITIVE |= {"scalar_power", "reciprocal", "addcdiv", "div"}
POSITIVE |= {"special_entr", "special_xlog1py", "igamma", "igammac"}
POSITIVE |= {f"special_{scaled}modified_bessel_k{order}" for scaled in ("", "scaled_") for order in (0, 1)}
STATICS = {
    "eps": 0.01, "negative_slope": 0.1, "alpha": 1.2, "scale": 1.1, "input_scale": 0.9, "beta": 1.5, "threshold": 0.4,
    "exponent": 3, "nan": 0.5, "posinf": 3.0, "neginf": -3.0, "n": 1, "min": -0.5, "max": 0.7, "value": 0.5,
    "min_val": -0.5, "max_val": 0.7, "lambd": 0.5,
}  # fmt: skip
LARGE = 200_000  # above sizes.LOOP_OF_ONE_PASS


def large_ops():
    for name, op in registry.items():
        if op.kind == "elementwise" and fusion.least_size(op, kernel("elementwise", name, numpy.empty(()))):
            yield name


def differentiable_ops():
    for name, op in registry.items():
        if op.kind == "elementwise" and op.differentiable and fusion.least_backward(op) < sys.maxsize:
            yield name


def operands_of(op, shapes, dtype="float32"):
    generator = numpy.random.default_rng(5)
    if op.promote == "integer":
        return [generator.integers(0, 9, shape) for shape in shapes]
    low, high = DOMAINS.get(op.name, (0.2, 3.0) if op.name in POSITIVE else (-2.0, 2.0))
    result = [generator.uniform(low, high, shape).astype(numpy.float32).astype(dtype) for shape in shapes]
    if op.promote == "select":
        result[0] = result[0] > 0
    return result


def shapes_of(op, form):
    count = len(op.array_names)
    if form == "flat":
        return [(LARGE,)] * count
    if form == "rows":
        return [(1000, 200), (200,), (1000, 1)][:count]
    return [(200,), (1000, 200), ()][:count]


def reference_of(op, operands, statics):
    """The op in float64, in pieces too small for generated kernels."""
    shape = numpy.broadcast_shapes(*[x.shape for x in operands])
    full = [numpy.broadcast_to(x if x.dtype.kind in "bi" else x.astype("f8"), shape).reshape(-1) for x in operands]
    pieces = [
        op.function(*[dg.tensor(x[at : at + 500].copy()) for x in full], *statics).numpy()
        for at in range(0, full[0].size, 500)
    ]
    return numpy.concatenate(pieces).reshape(shape)


def named(names):
    """Parameters; one kernel takes half a second to compile, so most are for the slow run."""
    quick = ("gelu", "clamp", "where", "addcmul", "scalar_power")
    return [pytest.param(name, marks=[] if name in quick else [pytest.mark.slow]) for name in names]


@pytest.mark.parametrize("form", ["flat", "rows", "first smaller", "transposed"])
@pytest.mark.parametrize("name", named(large_ops()))
def test_forward(name, form):
    op = registry[name]
    statics = [STATICS[name] for name in op.static_names]
    if form == "transposed":
        operands = [x.T for x in operands_of(op, [(200, 1000)] * len(op.array_names))]
    else:
        operands = operands_of(op, shapes_of(op, form))
    result = {}
    had = threads.get_num_threads()
    try:
        for count in (1, 2):
            threads.set_num_threads(count)
            result[count] = op.function(*[dg.as_tensor(x) for x in operands], *statics).numpy().copy()
    finally:
        threads.set_num_threads(had)
    numpy.testing.assert_array_equal(result[1], result[2])
    expected = reference_of(op, operands, statics)
    assert result[1].shape == expected.shape
    close = numpy.isclose(result[1], expected, rtol=2e-5, atol=2e-5, equal_nan=True)
    assert close.mean() > (0.9999 if expected.dtype == bool or name in _WITH_STEPS else 0.999999)


_WITH_STEPS = {"hardshrink", "threshold", "ge_half", "floor", "ceil", "trunc", "round", "trunc_divide", "frac"}


@pytest.mark.parametrize(
    "name", ["exp", "log", "tanh", "gelu", "gelu_tanh", "silu", "elu", "softplus", "mish", "sigmoid", "erf"]
)
def test_batch_invariant(name):
    op = registry[name]
    (x,) = operands_of(op, [(400, 500)])
    statics = [STATICS[name] for name in op.static_names]
    dg.use_batch_invariant(True)
    try:
        whole = op.function(dg.tensor(x), *statics).numpy()
        for row in (0, 7, 399):
            numpy.testing.assert_array_equal(op.function(dg.tensor(x[row : row + 1]), *statics).numpy()[0], whole[row])
    finally:
        dg.use_batch_invariant(False)


@pytest.mark.parametrize("form", ["flat", "rows"])
@pytest.mark.parametrize("name", named(differentiable_ops()))
def test_backward_in_one_pass_is_the_texts(name, form, monkeypatch):
    op = registry[name]
    statics = [STATICS[name] for name in op.static_names]
    operands = operands_of(op, shapes_of(op, form))
    g = numpy.random.default_rng(6).standard_normal(numpy.broadcast_shapes(*[x.shape for x in operands])).astype("f4")
    results = {}
    for dtype in ("float32", "float64"):
        leaves = [dg.tensor(x if x.dtype == bool else x.astype(dtype), requires_grad=x.dtype != bool) for x in operands]
        if dtype == "float64":
            monkeypatch.setattr("dynograd.kernels.elementwise.loops_cpu.Loop.__call__", lambda *_: None)
        op.function(*leaves, *statics).backward(dg.tensor(g.astype(dtype)))
        results[dtype] = [None if leaf.grad is None else leaf.grad.numpy() for leaf in leaves]
    for narrow, wide in zip(results["float32"], results["float64"], strict=True):
        assert (narrow is None) == (wide is None)
        if narrow is not None:
            close = numpy.isclose(narrow, wide, rtol=2e-4, atol=2e-3 if form == "rows" else 2e-4, equal_nan=True)
            assert close.mean() > 0.9999


@pytest.mark.parametrize("count", [100, 5000, 140_000])
@pytest.mark.parametrize(
    ("name", "arguments", "reference"),
    [
        ("add_", "t", lambda x, y: x + y),
        ("mul_", "n", lambda x, y: x * 0.3),
        ("div_", "t", lambda x, y: x / y),
        ("sub_", "row", lambda x, y: x - y[:1]),
        ("exp_", "", lambda x, y: numpy.exp(x)),
        ("sigmoid_", "", lambda x, y: 1 / (1 + numpy.exp(-x))),
        ("relu_", "", lambda x, y: numpy.maximum(x, 0)),
        ("lerp_", "tn", lambda x, y: x + 0.3 * (y - x)),
        ("addcmul_", "tt", lambda x, y: x + y * y),
        ("addcdiv_", "tt", lambda x, y: x + 1),
        ("clamp_", "nn", lambda x, y: numpy.clip(x, 0.3, 0.3)),
        ("pow_", "n", lambda x, y: numpy.abs(x) ** 0.3),
    ],
)
def test_in_place_writes_into_the_memory(name, arguments, reference, count):
    x, y = (numpy.random.default_rng(seed).uniform(0.5, 2, count).astype("f4") for seed in (0, 1))
    t, memory = dg.tensor(x), None
    memory = t.numpy()
    argument = {"": [], "row": [dg.tensor(y[:1])]}.get(arguments)
    if argument is None:
        argument = [dg.tensor(y) if letter == "t" else 0.3 for letter in arguments]
    before = t._version
    assert getattr(t, name)(*argument) is t
    assert t._version > before
    numpy.testing.assert_allclose(memory, reference(x.astype("f8"), y.astype("f8")), rtol=1e-5)


def test_in_place_with_keywords_views_and_itself():
    t = dg.ones(5000)
    t.addcmul_(t, t, value=2)
    assert (t.numpy() == 3).all()
    t[::2].mul_(2.0)
    assert (t.numpy()[::2] == 6).all() and (t.numpy()[1::2] == 3).all()
    with pytest.raises(RuntimeError, match="add_.*refer to a single memory location.*clone"):
        t[1:].add_(t[:-1])
    with pytest.raises(ValueError, match="an in-place op cannot grow its tensor|In-place|in-place"):
        dg.ones(5000).add_(dg.ones(2, 5000))
    with pytest.raises(RuntimeError, match="min"):
        dg.ones(5000).clamp_()


def test_division_by_zero_in_place_is_infinity():
    t = dg.ones(100)
    t.div_(0.0)
    assert (t.numpy() == numpy.inf).all()


def test_an_op_of_a_program_needs_annotations_as_text():
    def half(input: float):
        """"""

    message = r"elementwise: expected a parameter of half with the annotation 'Array' as text, got .*float.*from __future__ import annotations"
    with pytest.raises(TypeError, match=message):
        elementwise(formula="input / 2", derivative="g / 2")(half)
