"""Every elementwise op at the edges of its dtypes: the same class of result in all its bodies, whatever the size and layout.

The small form, which is NumPy's or a flat loop on few elements, is what the others are held against. New ops are covered by being in
the registry.
"""

import numpy
import pytest

import dynograd
from dynograd.kernels.build import sizes
from dynograd.ops.op import registry
from tests.support.special_values import FLOATS, STATICS, differences, operands_of, results_of, told

# One size beyond each threshold from which another body computes.
SIZES = sorted(
    {
        size + 1
        for size in (
            sizes.UFUNC,
            sizes.COMPILED_PASS,
            sizes.LOOP_OF_PASSES,
            sizes.LOOP_OF_TWO_PASSES,
            sizes.LOOP_WITH_EXPONENTIALS,
            sizes.LOOP_OF_ONE_PASS,
        )
    }
)
QUICK = ("rsqrt", "asin", "elu", "hardshrink", "div", "gelu")
# IEEE 754 leaves open which zero the largest of 0 and -0 is, and NumPy's vector code takes another one than its scalar code.
EITHER_ZERO = ("fmax", "fmin", "maximum", "minimum")


def elementwise_ops():
    names = [name for name, op in registry.items() if op.kind == "elementwise" and op.promote != "integer"]
    return [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in names]


def small_results(op, operands, dtype):
    """In pieces that stay below every threshold."""
    pieces = [
        results_of(dynograd, op.function, op, [x[at : at + 48] for x in operands], dtype)
        for at in range(0, operands[0].size, 48)
    ]
    return {what: numpy.concatenate([piece[what] for piece in pieces]) for what in pieces[0]}


def assert_alike(name, operands, result, expected, dtype, body):
    for kind, where in differences(result, expected, dtype).items():
        if kind == "sign of zero" and name in EITHER_ZERO:
            continue
        # A difference of products, such as 1 - tanh(x)**2, has few digits left where it is nearly 0.
        if kind in ("value", "zero here", "zero there") and (numpy.abs(result[where] - expected[where]) < 1e-6).all():
            continue
        pytest.fail(f"{name} of {dtype}, {body}: {kind}: {told(operands, result, expected, where)}")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", elementwise_ops())
def test_every_size(name, dtype):
    op = registry[name]
    operands = operands_of(op, dtype)
    count = operands[0].size
    expected = small_results(op, operands, dtype)
    for size in SIZES:
        times = -(-size // count)
        results = results_of(dynograd, op.function, op, operands, dtype, times)
        for what, values in results.items():
            for part in (values[:count], values[-count:]):
                assert_alike(name, operands, part, expected[what], dtype, f"{what} of {times * count} elements")


def in_place(op, tensors, statics):
    named = {"value": statics[0]} if list(op.static_names) == ["value"] else {}
    return getattr(tensors[0].clone(), f"{op.name}_")(*tensors[1:], *([] if named else statics), **named)


def into_out(op, tensors, statics):
    out = dynograd.empty_like(tensors[0])
    getattr(dynograd, op.name)(*tensors, *statics, out=out)
    return out


def transposed(op, tensors, statics):
    return op.function(*[x.reshape(-1, 2).t() for x in tensors], *statics).t().reshape(-1)


def recorded(op, tensors, statics):
    half = tensors[0].numel() // 2
    with dynograd.autobatch():
        parts = [
            op.function(*[x[piece] for x in tensors], *statics) for piece in (slice(0, half), slice(half, 2 * half))
        ]
    return dynograd.cat(parts)


def in_a_chain(op, tensors, statics):
    """After and before ops that change no class, which may be computed in one pass with it."""
    with dynograd.autobatch():
        parts = [op.function(*[x * 1.0 for x in tensors], *statics).neg().neg() for _ in range(2)]
    return parts[1]


BODIES = {
    "in place": in_place,
    "out=": into_out,
    "transposed": transposed,
    "recorded": recorded,
    "in a chain": in_a_chain,
}


def bodies_of_ops():
    for name, op in registry.items():
        if op.kind != "elementwise" or op.promote in ("integer", "select", "compare", "logical"):
            continue
        for body in BODIES:
            if body == "in place" and (not op.inplace or name == "elu"):  # its public form takes one static number
                continue
            if body == "out=" and not _takes_out(op):
                continue
            yield pytest.param(
                name,
                body,
                id=f"{name}-{body}",
                marks=[] if name in QUICK and body != "recorded" else [pytest.mark.slow],
            )


def _takes_out(op):
    public = getattr(dynograd, op.name, None)
    return public is not None and not op.static_names and "out" in (getattr(public, "__kwdefaults__", None) or {})


@pytest.mark.parametrize("times", [1, 300])
@pytest.mark.parametrize(("name", "body"), list(bodies_of_ops()))
def test_every_body(name, body, times):
    op = registry[name]
    operands = [numpy.append(x, x[-1:]) if x.size % 2 else x for x in operands_of(op, "float32")]
    statics = [STATICS[name] for name in op.static_names]
    expected = small_results(op, operands, "float32")["forward"]
    tensors = [dynograd.tensor(numpy.tile(x, times), dtype=dynograd.float32) for x in operands]
    result = BODIES[body](op, tensors, statics).to(dynograd.float64).numpy()
    assert_alike(name, operands, result[-operands[0].size :], expected, "float32", body)


@pytest.mark.parametrize("size", [3, 20_000])
@pytest.mark.parametrize(
    ("name", "value", "expected", "slope"),
    [
        ("rsqrt", 0.0, numpy.inf, -numpy.inf),
        ("rsqrt", -0.0, -numpy.inf, numpy.inf),
        ("rsqrt", numpy.inf, 0.0, -0.0),
        ("rsqrt", 2.0**-149, 2.0**74.5, -numpy.inf),
        ("rsqrt", -(2.0**-149), numpy.nan, numpy.nan),
        ("asin", 1.0, numpy.pi / 2, numpy.inf),
        ("asin", -1.0, -numpy.pi / 2, numpy.inf),
        ("acos", 1.0, 0.0, -numpy.inf),
        ("acos", -1.0, numpy.pi, -numpy.inf),
        ("asinh", 1e20, numpy.arcsinh(1e20), 0.0),
        ("asinh", numpy.inf, numpy.inf, 0.0),
        ("acosh", 1e20, numpy.arccosh(1e20), 0.0),
        ("acosh", 1.0, 0.0, numpy.inf),
        ("acosh", numpy.inf, numpy.inf, 0.0),
    ],
)
def test_reciprocal_roots(name, value, expected, slope, size):
    x = dynograd.full((size,), value, requires_grad=True)
    y = getattr(dynograd, name)(x)
    y.backward(dynograd.ones(size))
    for result, reference in ((y.detach(), expected), (x.grad, slope)):
        numpy.testing.assert_allclose(result.numpy(), reference, rtol=1e-6)
        assert numpy.isnan(reference) or (numpy.signbit(result.numpy()) == numpy.signbit(reference)).all()


NAN, ZERO, WHOLE = "NaN", 0.0, 2.0


@pytest.mark.parametrize("size", [3, 700, 20_000])
@pytest.mark.parametrize(
    ("name", "slope"),
    [
        ("elu", NAN), ("selu", NAN), ("celu", NAN), ("hardswish", NAN), ("gelu", NAN), ("silu", NAN), ("mish", NAN),
        ("softplus", NAN), ("logsigmoid", NAN), ("tanhshrink", NAN), ("softsign", NAN), ("sigmoid", NAN), ("tanh", NAN),
        ("hardtanh", ZERO), ("relu6", ZERO), ("softshrink", ZERO), ("hardshrink", ZERO), ("hardsigmoid", ZERO),
        ("relu", WHOLE), ("leaky_relu", 0.02),
    ],
)  # fmt: skip
def test_gradients_of_activations_where_the_input_is_nan(name, slope, size):
    """As PyTorch's vector code has them."""
    x = dynograd.full((size,), numpy.nan, requires_grad=True)
    getattr(dynograd.nn.functional, name)(x).backward(dynograd.full((size,), 2.0))
    numpy.testing.assert_allclose(
        x.grad.numpy(), numpy.full(size, numpy.nan if slope == NAN else slope, "f4"), rtol=1e-6
    )
