"""gradcheck accepts right gradients, and says where wrong ones are."""

import pytest

import dynograd
from dynograd.base import dtypes
from dynograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from dynograd.tensor import custom_function


def double(values, requires_grad=True):
    return dynograd.tensor(values, dtype=dtypes.float64, requires_grad=requires_grad)


class WrongSquare(custom_function.Function):
    """x*x whose backward forgets the 2 for the last element."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * double([2.0, 2.0, 1.0], False)


class Constant(custom_function.Function):
    """x*x whose backward ignores the incoming gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0] * 2


class WrongSecond(custom_function.Function):
    """x**3 with a right gradient that is cut from its history."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x * x * 3).detach()


@pytest.mark.parametrize("fast_mode", [False, True])
def test_right_gradients_pass(fast_mode):
    x, w = double([[0.3, -0.5], [1.2, 0.7]]), double([0.4, -1.1])
    function = lambda x, w: ((x * w).tanh(), (x / (w * w + 1)).sum())  # noqa: E731
    assert gradcheck(function, (x, w), fast_mode=fast_mode)
    assert gradgradcheck(function, (x, w), fast_mode=fast_mode)


def test_the_message_names_input_element_and_values():
    with pytest.raises(
        GradcheckError, match=r"mismatch for output 0 with respect to input 1.*\(2,\).*numerical: 6.*analytical: 3"
    ) as caught:
        gradcheck(lambda n, x: WrongSquare.apply(x) * n, (2.0, double([1.0, 1.0, 1.5])))
    assert "1 of 9 entries" in str(caught.value)
    assert isinstance(caught.value, RuntimeError)


def test_fast_mode_finds_it_too():
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(WrongSquare.apply, double([1.0, 1.0, 1.5]), fast_mode=True)


def test_raise_exception_false_gives_false():
    assert gradcheck(WrongSquare.apply, double([1.0, 1.0, 1.5]), raise_exception=False) is False


def test_a_backward_that_ignores_its_gradient_is_found():
    with pytest.raises(GradcheckError, match="not multiplied by grad_output"):
        gradcheck(Constant.apply, double([1.0, 2.0]))


def test_a_second_gradient_that_is_missing_is_found():
    x = double([1.0, 2.0])
    assert gradcheck(WrongSecond.apply, x)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(WrongSecond.apply, x)


def test_detached_outputs_must_not_change():
    x = double([1.0, 2.0])
    assert gradcheck(lambda x: x.detach() * 0, x)
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, x)


def test_forward_mode_is_compared_on_request():
    x = double([0.5, -0.3])
    assert gradcheck(lambda x: x.tanh() * x, x, check_forward_ad=True)
    assert gradcheck(lambda x: x.tanh() * x, x, check_forward_ad=True, check_backward_ad=False)
    assert gradgradcheck(lambda x: x.tanh() * x, x, check_fwd_over_rev=True)


def test_inputs_are_left_as_they_were():
    x = double([0.5, -0.3])
    before = x.tolist()
    gradgradcheck(lambda x: x * x, x)
    assert x.tolist() == before
    assert x.grad is None


def test_inputs_that_cannot_be_checked():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, double([1.0], False))
    with pytest.raises(RuntimeError, match=r"stride 0.*contiguous"):
        gradcheck(lambda x: x, double([1.0], False).expand(3).requires_grad_())
    sparse = double([1.0, 1.0], False).to_sparse().requires_grad_()
    with pytest.raises(NotImplementedError, match="input 0 is sparse.*function of its values"):
        gradcheck(lambda x: x.to_dense(), (sparse,))
    with pytest.raises(ValueError, match="check_batched_grad=True requires check_backward_ad"):
        gradcheck(lambda x: x, double([1.0]), check_batched_grad=True, check_backward_ad=False, check_forward_ad=True)
    with pytest.raises(ValueError, match="requires check_forward_ad"):
        gradcheck(lambda x: x, double([1.0]), check_batched_forward_grad=True)
    with pytest.raises(ValueError, match="nothing is left to check"):
        gradcheck(lambda x: x, double([1.0]), check_backward_ad=False)
    with pytest.warns(UserWarning, match=r"input 0.*not a double precision"):
        gradcheck(lambda x: x * 1, dynograd.tensor([1.0], requires_grad=True), eps=1e-2, atol=1e-2)


def test_complex_inputs_and_outputs():
    z = dynograd.tensor([1 + 2j, 0.5 - 1j], dtype=dtypes.complex128, requires_grad=True)
    x = double([[1.0, 2.0], [0.3, -1.0]])
    for function, inputs in [
        (lambda z: z * z.conj() * z, (z,)),
        (lambda z: (z.abs(), z.angle(), z.exp()), (z,)),
        (dynograd.fft.fft, (x,)),
        (lambda x, z: (x @ x.T).sin() * z.real, (x, z)),
    ]:
        assert gradcheck(function, inputs, check_forward_ad=True) and gradgradcheck(function, inputs)

    class Conjugated(custom_function.Function):
        """z*z whose backward forgets the conjugate."""

        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(Conjugated.apply, (z,))


def test_batched_gradients_are_compared_with_the_loop():
    x = double([[1.0, 2.0], [0.3, -1.0]])
    assert gradcheck(
        lambda x: (x @ x).softmax(0),
        x,
        check_batched_grad=True,
        check_forward_ad=True,
        check_batched_forward_grad=True,
    )
    assert gradgradcheck(lambda x: x.sin() * x, x, check_batched_grad=True)

    class Mean(custom_function.Function):
        """Gradient of a mean, whose batch rule takes the whole batch for one example."""

        @staticmethod
        def forward(ctx, g):
            return g - g.mean()

        @staticmethod
        def vmap(info, in_dims, g):
            return g - g.mean(), 0

    class Centred(custom_function.Function):
        @staticmethod
        def forward(ctx, x):
            return x - x.mean()

        @staticmethod
        def backward(ctx, g):
            return Mean.apply(g)

    with pytest.raises(GradcheckError, match="backward inside vmap gave something else"):
        gradcheck(Centred.apply, x, check_batched_grad=True)
