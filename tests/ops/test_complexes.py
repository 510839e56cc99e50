"""Complex numbers: made of parts, taken apart, angles, and gradients of every order through them."""

import numpy
import pytest

import dynograd
from tests.ops.harness import COMPLEX, FLOATS, Row, error, generate

DOUBLES = ("float32", "float64")
tensor, zeros = dynograd.tensor, dynograd.zeros


def complex_dtype(name):
    return {"float32": "complex64", "float64": "complex128"}[name]


def real_dtype(name):
    return {"complex64": "float32", "complex128": "float64"}.get(name, name)


def through(function, result=dynograd.view_as_real):
    """A function of complex numbers as one of their parts, two real tensors, with the parts of its result."""

    def call(x, y, *rest, **options):
        return result(function(dynograd.complex(x, y), *rest, **options))

    return call


def pairs(array):
    array = numpy.asarray(array)
    return numpy.stack([array.real, array.imag], -1)


ROWS = [
    Row(
        "complex",
        lambda x, y: x + 1j * y,
        shapes=[(3, 4), (3, 4)],
        dtypes=DOUBLES,
        result=complex_dtype,
        grad=False,
        errors=[
            error(lambda op: op(zeros(2).half(), zeros(2)), RuntimeError, "complex", "Float or Double", "float16"),
            error(lambda op: op(zeros(2), zeros(2).double()), RuntimeError, "complex", "second argument", "float64"),
            error(lambda op: op(zeros(2), zeros(3)), RuntimeError, "complex", "(2,)", "(3,)"),
        ],
    ),
    Row(
        "complex",
        lambda x, y: pairs(x + 1j * y),
        shapes=[(3, 4), (4,)],
        dtypes=DOUBLES,
        function=through(lambda z: z),
        result="same",
        empty=False,
        id="parts",
    ),
    Row(
        "polar",
        lambda r, t: pairs(r * numpy.exp(1j * t)),
        shapes=[(3, 4), (3, 1)],
        dtypes=DOUBLES,
        function=lambda r, t: dynograd.view_as_real(dynograd.polar(r, t)),
        empty=False,
        errors=[error(lambda op: dynograd.polar(zeros(2).long(), zeros(2)), RuntimeError, "polar", "int64")],
    ),
    Row(
        "view_as_real",
        pairs,
        shapes=[(3, 4)],
        dtypes=COMPLEX,
        result=real_dtype,
        grad=False,
        errors=[error(lambda op: op(zeros(2)), RuntimeError, "view_as_real", "complex", "float32")],
    ),
    Row(
        "view_as_real",
        lambda x, y: numpy.stack([x, y], -1) ** 2,
        shapes=[(3, 4), (3, 4)],
        dtypes=DOUBLES,
        function=lambda x, y: dynograd.view_as_real(dynograd.complex(x, y)) ** 2,
        empty=False,
        id="gradient",
    ),
    Row(
        "view_as_complex",
        lambda x: x[..., 0] + 1j * x[..., 1],
        shapes=[(3, 2)],
        dtypes=DOUBLES,
        result=complex_dtype,
        grad=False,
        strided=False,
        ones=False,
        errors=[
            error(lambda op: op(zeros(2).half()), RuntimeError, "view_as_complex", "float16"),
            error(lambda op: op(zeros(())), RuntimeError, "view_as_complex", "one or more dimensions"),
            error(lambda op: op(zeros(2, 3)), RuntimeError, "view_as_complex", "size 2", "(2, 3)"),
            error(lambda op: op(zeros(2, 3).t()[:, :]), RuntimeError, "view_as_complex", "stride 1", "(1, 3)"),
        ],
    ),
    Row(
        "view_as_complex",
        lambda x: (x[..., 0] + 1j * x[..., 1]).real ** 3 * x[..., 1],
        shapes=[(3, 2)],
        dtypes=DOUBLES,
        function=lambda x: (
            dynograd.view_as_complex(x.contiguous()).real ** 3 * dynograd.view_as_complex(x.contiguous()).imag
        ),
        ones=False,
        id="gradient",
    ),
    Row("real", lambda z: z.real, shapes=[(3, 4)], dtypes=FLOATS + COMPLEX, method=False, result=real_dtype),
    Row(
        "imag",
        lambda z: z.imag,
        shapes=[(3, 4)],
        dtypes=COMPLEX,
        result=real_dtype,
        ones=False,
        empty=False,
        grad=False,
        errors=[error(lambda op: op(zeros(2)), RuntimeError, "imag", "non-complex", "float32")],
    ),
    Row("angle", numpy.angle, shapes=[(3, 4)], avoid=[0.0], dtypes=FLOATS + COMPLEX, result=real_dtype),
    Row(
        "angle",
        lambda x, y: numpy.arctan2(y, x),
        shapes=[(3, 4), (3, 4)],
        avoid=[0.0],
        dtypes=DOUBLES,
        function=through(dynograd.angle, lambda one: one),
        id="complex",
    ),
    Row("conj_physical", numpy.conj, shapes=[(3, 4)], dtypes=FLOATS + COMPLEX, result="same"),
    Row("resolve_conj", lambda x: x, shapes=[(3, 4)], dtypes=FLOATS + COMPLEX, result="same"),
    Row("resolve_neg", lambda x: x, shapes=[(3, 4)], dtypes=FLOATS + COMPLEX, result="same"),
    Row("is_conj", lambda x: False, shapes=[(3, 4)], dtypes=FLOATS + COMPLEX, grad=False),
    Row("is_neg", lambda x: False, shapes=[(3, 4)], dtypes=FLOATS + COMPLEX, grad=False),
    Row(
        "is_complex",
        lambda x: numpy.iscomplexobj(x),
        shapes=[(3, 4)],
        dtypes=FLOATS + COMPLEX,
        grad=False,
        method=False,
    ),
    Row(
        "is_floating_point",
        lambda x: not numpy.iscomplexobj(x),
        shapes=[(3, 4)],
        dtypes=FLOATS + COMPLEX,
        grad=False,
        method=False,
    ),
    Row("isreal", numpy.isreal, shapes=[(3, 4)], dtypes=FLOATS + COMPLEX, grad=False, result="bool"),
    # arithmetic of complex numbers, seen from their parts
    *[
        Row(
            name,
            lambda x, y, f=reference: pairs(f(x + 1j * y)),
            shapes=[(3, 4), (3, 4)],
            domain=(0.3, 2),
            dtypes=DOUBLES,
            function=through(function),
            empty=False,
            gradient_tolerance=(1e-3, 1e-5),
            id="complex",
        )
        for name, function, reference in (
            ("mul", lambda z: z * z * (2 + 1j), lambda z: z * z * (2 + 1j)),
            ("div", lambda z: (1 + z) / (z * z), lambda z: (1 + z) / (z * z)),
            ("exp", lambda z: z.exp(), numpy.exp),
            ("log", lambda z: z.log(), numpy.log),
            ("sqrt", lambda z: z.sqrt(), numpy.sqrt),
            ("sin", lambda z: z.sin(), numpy.sin),
            ("cos", lambda z: z.cos(), numpy.cos),
            ("tanh", lambda z: z.tanh(), numpy.tanh),
            ("pow", lambda z: z**3 + z**z, lambda z: z**3 + z**z),
            ("reciprocal", lambda z: z.reciprocal(), lambda z: 1 / z),
            ("square", lambda z: z.square(), numpy.square),
            ("conj", lambda z: z.conj() * z * z, lambda z: z.conj() * z * z),
            ("sgn", lambda z: z.sgn(), lambda z: z / abs(z)),
            ("matmul", lambda z: z @ z.mH, lambda z: z @ z.conj().T),
            ("sum", lambda z: z.sum(0), lambda z: z.sum(0)),
            ("prod", lambda z: z.prod(0), lambda z: z.prod(0)),
            ("cumsum", lambda z: z.cumsum(0), lambda z: z.cumsum(0)),
            ("mean", lambda z: z.mean(0), lambda z: z.mean(0)),
        )
    ],
    Row(
        "abs",
        lambda x, y: abs(x + 1j * y),
        shapes=[(3, 4), (3, 4)],
        domain=(0.3, 2),
        dtypes=DOUBLES,
        function=through(abs, lambda one: one),
        empty=False,
        id="complex",
        covers=["modulus"],
    ),
]
test_rows = generate(ROWS)


def test_parts_are_views_that_can_be_written():
    z = tensor([1 + 2j, 3 - 4j])
    z.real[0] = 9
    z.imag.mul_(2)
    assert z.tolist() == [9 + 4j, 3 - 8j]
    z.real = tensor([5.0, 6.0])
    z.imag = 1.5
    assert z.tolist() == [5 + 1.5j, 6 + 1.5j]
    dynograd.view_as_real(z)[1, 1] = 0
    assert z.tolist() == [5 + 1.5j, 6 + 0j]
    pairs = zeros(3, 2)
    dynograd.view_as_complex(pairs)[1] = 2 - 3j
    assert pairs.tolist() == [[0, 0], [2, -3], [0, 0]]
    x = tensor([1.0])
    assert x.real is x
    with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex dtypes"):
        _ = x.imag


def test_writing_to_a_part_moves_gradients():
    x = tensor([1j, 2.0], requires_grad=True)
    y = x * 1
    y.real.mul_(3)
    y.abs().sum().backward()
    assert x.grad.tolist() == [1j, 3]


def test_view_as_complex_of_strided_pairs_shares_memory():
    x = dynograd.arange(24.0).view(2, 3, 4).transpose(0, 1)[..., :2]
    z = dynograd.view_as_complex(x)
    assert z.tolist() == [[0 + 1j, 12 + 13j], [4 + 5j, 16 + 17j], [8 + 9j, 20 + 21j]]
    z[0, 0] = 7
    assert x[0, 0].tolist() == [7, 0]


def test_gradient_of_angle_and_abs_at_zero_is_zero():
    x = tensor([0j, 1j], requires_grad=True)
    (x.angle().sum() + x.abs().sum()).backward()
    assert x.grad.tolist() == [0, -1 + 1j]


def test_numbers_without_parts():
    z = tensor(1 + 2j)
    assert dynograd.view_as_real(z).tolist() == [1, 2] and z.imag.item() == 2
    assert dynograd.view_as_complex(zeros(0, 2)).shape == (0,)
    assert dynograd.angle(tensor([-1, 2])).tolist() == pytest.approx([numpy.pi, 0])
    assert numpy.isnan(dynograd.angle(tensor(float("nan"))).item())


def test_direction_of_zero_is_zero_without_signs():
    result = dynograd.sgn(tensor([complex(0.0, -0.0), complex(-0.0, 0.0), complex(-0.0, -2.0)])).numpy()
    assert result.tolist() == [0, 0, -1j] and not numpy.signbit(result[:2].view("float32")).any()


# --- beside other dtypes and numbers ---------------------------------------------------------------------------------------------

OPERATORS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "eq": lambda a, b: a == b,
}
Z = numpy.random.default_rng(5).normal(size=(2, 3)) + 1j * numpy.random.default_rng(6).normal(size=(2, 3))
OTHERS = {
    "complex": Z[::-1],
    "row": Z[0],
    "real": Z.real.copy(),
    "int number": 2,
    "float number": -0.5,
    "imaginary number": 2j,
    "complex number with a whole value": 2 + 0j,
}


@pytest.mark.parametrize("kind", [dynograd.complex64, dynograd.complex128], ids=str)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", OPERATORS)
def test_operands(name, other, kind):
    function, argument = OPERATORS[name], OTHERS[other]
    real = dynograd.float32 if kind is dynograd.complex64 else dynograd.float64
    z, two = tensor(Z).to(kind), argument
    if isinstance(argument, numpy.ndarray):
        two = tensor(argument).to(real if other == "real" else kind)
    for result, expected in ((function(z, two), function(Z, argument)), (function(two, z), function(argument, Z))):
        assert result.dtype is (dynograd.bool if name == "eq" else kind)
        numpy.testing.assert_allclose(result.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_gradients_beside_other_operands(name):
    function = OPERATORS[name]
    z, row, real = tensor(Z).requires_grad_(), tensor(Z[0]).requires_grad_(), tensor(Z.real.copy()).requires_grad_()
    for two in (row, real):
        assert dynograd.autograd.gradcheck(lambda a, b: dynograd.view_as_real(function(a, b)), (z, two))
        assert dynograd.autograd.gradcheck(lambda a, b: dynograd.view_as_real(function(b, a)), (z, two))
    for number in (2, 0.5, 1 - 2j):
        assert dynograd.autograd.gradcheck(lambda a: dynograd.view_as_real(function(a, number)), (z,))  # noqa: B023
        if name != "div":
            assert dynograd.autograd.gradcheck(
                lambda a: dynograd.view_as_real(function(number, a) * 1j),  # noqa: B023
                (real,),
            )


def test_real_tensors_beside_complex_numbers():
    for kind, expected in ((dynograd.float32, dynograd.complex64), (dynograd.float64, dynograd.complex128)):
        x = dynograd.ones(2, dtype=kind)
        assert (x * 2j).dtype is expected
        assert (x + (2 + 0j)).dtype is expected
        assert (x + 2).dtype is kind
    assert (dynograd.arange(2) * 1j).tolist() == [0j, 1j]
    assert (zeros(2).half() + 1j).dtype is dynograd.complex64
    assert (zeros(2) * tensor(1j, dtype=dynograd.complex128)).dtype is dynograd.complex64


def test_real_tensors_are_their_own_conjugates():
    x = zeros(2)
    assert x.conj() is x
    assert dynograd.conj(tensor([1 + 2j])).tolist() == [1 - 2j]


def test_special_real_numbers_are_real_and_have_an_angle():
    x = dynograd.tensor([numpy.inf, -numpy.inf, numpy.nan, 0.0, -0.0])
    assert x.isreal().tolist() == [True] * 5
    numpy.testing.assert_array_equal(x.angle().numpy(), numpy.float32([0, numpy.pi, numpy.nan, 0, 0]))
    assert not numpy.signbit(x.angle().numpy()).any()


def test_the_absolute_value_of_complex_numbers_may_be_written_into():
    z = dynograd.tensor([3 + 4j, 0j, 1e-3 + 0j], requires_grad=True)
    size = z.abs()
    size.clamp_(min=0.1).mul_(2)
    size.sum().backward()
    numpy.testing.assert_allclose(z.grad.numpy(), [1.2 + 1.6j, 0, 0], rtol=1e-6)
