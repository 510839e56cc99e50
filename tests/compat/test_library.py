"""Operators that programs register, and `torch.ops`."""

import numpy
import pytest

import dynograd
from dynograd import Tensor, library


@pytest.fixture
def scale():
    """y = x * by, written with NumPy, with its gradient and its shape on meta."""

    def function(x: Tensor, by: float = 2.0) -> Tensor:
        return dynograd.from_numpy(x.detach().numpy() * numpy.asarray(by, x.numpy().dtype))

    op = library.custom_op("tested::scale", function, mutates_args=())
    op.register_fake(lambda x, by=2.0: dynograd.empty_like(x))
    op.register_autograd(
        lambda ctx, g: (g * ctx.by, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1])
    )
    return op


def test_custom_op_computes_and_differentiates(scale):
    x = dynograd.tensor([1.0, -2.0], requires_grad=True)
    y = dynograd.ops.tested.scale.default(x, by=3.0)
    assert y.tolist() == [3.0, -6.0]
    (g,) = dynograd.autograd.grad(y.sum(), x)
    assert g.tolist() == [3.0, 3.0]
    assert scale(x).tolist() == [2.0, -4.0]
    assert "tested_scale" in y.grad_fn.name()


def test_what_runs_inside_is_not_recorded():
    inner = []

    @library.custom_op("tested::watched", mutates_args=())
    def watched(x: Tensor) -> Tensor:
        inner.append((x * 2).requires_grad)
        return x * 2

    y = watched(dynograd.ones(2, requires_grad=True))
    assert inner == [False] and y.requires_grad
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()
    with dynograd.no_grad():
        assert not watched(dynograd.ones(2, requires_grad=True)).requires_grad


def test_second_gradients_and_gradcheck():
    @library.custom_op("tested::cube", mutates_args=())
    def cube(x: Tensor) -> Tensor:
        return x * x * x

    cube.register_autograd(
        lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2, setup_context=lambda ctx, i, o: ctx.save_for_backward(i[0])
    )
    x = dynograd.tensor([0.5, 2.0], dtype=dynograd.float64, requires_grad=True)
    assert dynograd.autograd.gradcheck(cube, (x,)) and dynograd.autograd.gradgradcheck(cube, (x,))


def test_lists_of_tensors_and_several_results():
    @library.custom_op("tested::parts", mutates_args=())
    def parts(xs: list[Tensor], by: int) -> tuple[Tensor, list[Tensor]]:
        return sum([x.sum() for x in xs]), [x * by for x in xs]

    def backward(ctx, total, each):
        assert ctx.needs_input_grad == ([True, False], False)
        return [total + ctx.by * g for g in each], None

    parts.register_autograd(backward, setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]))
    x, y = dynograd.tensor([1.0, 2.0], requires_grad=True), dynograd.tensor([3.0])
    total, each = parts([x, y], 4)
    assert total.item() == 6 and [element.tolist() for element in each] == [[4.0, 8.0], [12.0]]
    (g,) = dynograd.autograd.grad(total * 10 + each[0].sum(), x)
    assert g.tolist() == [14.0, 14.0]


def test_keyword_only_arguments_reach_setup_context():
    @library.custom_op("tested::power", mutates_args=())
    def power(x: Tensor, *, to: int = 2) -> Tensor:
        return x**to

    def setup(ctx, inputs, keyword_only_inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.to = keyword_only_inputs["to"]

    power.register_autograd(lambda ctx, g: g * ctx.to * ctx.saved_tensors[0] ** (ctx.to - 1), setup_context=setup)
    x = dynograd.tensor(3.0, requires_grad=True)
    power(x, to=3).backward()
    assert x.grad.item() == 27
    assert dynograd.autograd.grad(power(x), x)[0].item() == 6


def test_writing_operators_bump_versions():
    @library.custom_op("tested::fill_ramp", mutates_args={"x"})
    def fill_ramp(x: Tensor) -> None:
        x.numpy()[:] = numpy.arange(len(x))

    x = dynograd.zeros(3)
    before = x._version
    assert fill_ramp(x) is None
    assert x.tolist() == [0, 1, 2] and x._version > before
    with pytest.raises(RuntimeError, match=r"non-functional operator tested::fill_ramp .*Tensor\(a0!\) x"):
        fill_ramp.register_autograd(lambda ctx, g: g)


def test_vmap_per_example_and_by_rule(scale):
    x = dynograd.arange(6.0).reshape(2, 3)
    assert dynograd.vmap(scale)(x).tolist() == (x * 2).tolist()
    seen = []

    @library.register_vmap("tested::scale")
    def rule(info, in_dims, x, by=2.0):
        seen.append((info.batch_size, in_dims[0]))
        return x * by, in_dims[0]

    assert dynograd.vmap(scale)(x).tolist() == (x * 2).tolist()
    assert seen == [(2, 0)]


def test_meta_tensors_run_the_fake(scale):
    y = scale(dynograd.empty(2, 3, device="meta"))
    assert y.device.type == "meta" and y.shape == (2, 3)
    other = library.custom_op("tested::no_fake", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match=r"no fake impl registered for tested::no_fake.*register_fake"):
        other(dynograd.empty(1, device="meta"))


def test_kernels_by_device_can_be_disabled(scale):
    scale.register_kernel("cpu")(lambda x, by=2.0: x * 0)
    assert scale(dynograd.ones(1)).item() == 0
    with scale.set_kernel_enabled("cpu", False):
        assert scale(dynograd.ones(1)).item() == 2
    only = library.custom_op(
        "tested::on_gpu", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor", device_types="cuda"
    )
    with pytest.raises(NotImplementedError, match="tested::on_gpu.*'cpu' device: kernels are registered for cuda"):
        only(dynograd.ones(1))


def test_autocast_rule(scale):
    kinds = []
    scale.register_kernel("cpu")(lambda x, by=2.0: kinds.append(x.dtype) or x * 2)
    scale.register_autocast("cpu", dynograd.bfloat16)
    scale(dynograd.ones(1))
    with dynograd.autocast("cpu"):
        scale(dynograd.ones(1))
    assert kinds == [dynograd.float32, dynograd.bfloat16]


def test_library_defines_and_implements():
    lib = library.Library("tested_lib", "FRAGMENT")
    assert lib.define("twice(Tensor x, int[2] k=[1, 2], float? s=None, *, bool flip=False) -> Tensor") == "twice"
    with pytest.raises(NotImplementedError, match="tested_lib::twice"):
        dynograd.ops.tested_lib.twice(dynograd.ones(1))
    lib.impl("twice", lambda x, k=(1, 2), s=None, flip=False: x * -2 if flip else x * 2, "CompositeImplicitAutograd")
    x = dynograd.ones(1, requires_grad=True)
    y = dynograd.ops.tested_lib.twice(x, flip=True)
    y.backward()
    assert y.item() == -2 and x.grad.item() == -2
    assert str(dynograd.ops.tested_lib.twice.default._schema) == (
        "tested_lib::twice(Tensor x, int[2] k=[1, 2], float? s=None, *, bool flip=False) -> Tensor"
    )
    with pytest.raises(RuntimeError, match="already a kernel registered"):
        lib.impl("twice", lambda x: x)
    with pytest.raises(RuntimeError, match="same name and overload name multiple times"):
        lib.define("twice(Tensor x) -> Tensor")
    lib.define("twice.int(int x) -> int")
    lib.impl("twice.int", lambda x: 2 * x, "CompositeExplicitAutograd")
    assert dynograd.ops.tested_lib.twice.overloads() == ["default", "int"]
    assert dynograd.ops.tested_lib.twice(4) == 8
    lib._destroy()
    with pytest.raises(AttributeError, match="twice"):
        _ = dynograd.ops.tested_lib.twice


def test_define_and_impl_by_qualified_name():
    lib = library.Library("tested_names", "DEF")
    library.define("tested_names::add_one", "(Tensor x) -> Tensor", lib=lib)

    @library.impl("tested_names::add_one", "cpu")
    def add_one(x):
        return x + 1

    library.register_autograd("tested_names::add_one", lambda ctx, g: g * 5)
    x = dynograd.zeros(2, requires_grad=True)
    dynograd.ops.tested_names.add_one(x).sum().backward()
    assert x.grad.tolist() == [5, 5]

    @library.impl(lib, "add_one", "Meta")
    def add_one_meta(x):
        return dynograd.empty_like(x)

    assert dynograd.ops.tested_names.add_one(x.to("meta")).shape == (2,)
    lib._destroy()


def test_autograd_key_calls_the_operator_below():
    lib = library.Library("tested_below", "DEF")
    lib.define("op(Tensor x) -> Tensor")
    lib.impl("op", lambda x: x * 2, "CPU")

    class Tenfold(dynograd.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with dynograd._C._AutoDispatchBelowAutograd():
                return dynograd.ops.tested_below.op(x)

        @staticmethod
        def backward(ctx, g):
            return g * 10

    lib.impl("op", Tenfold.apply, "Autograd")
    x = dynograd.ones(1, requires_grad=True)
    y = dynograd.ops.tested_below.op(x)
    y.backward()
    assert y.item() == 2 and x.grad.item() == 10
    lib._destroy()


def test_torch_function_takes_operators_over(scale):
    class Logged(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            names.append(getattr(func, "__name__", None))
            return super().__torch_function__(func, types, args, kwargs)

    names = []
    x = dynograd.ones(2).as_subclass(Logged)
    y = scale(x, 3.0)
    assert type(y) is Logged and y.tolist() == [3.0, 3.0]
    assert "scale.default" in names


def test_infer_schema_of_annotations():
    def function(
        x: Tensor,
        sizes: list[int],
        kind: dynograd.dtype,
        where: dynograd.device | None = None,
        more: list[Tensor | None] | None = None,
        word: str = "a",
        *,
        flag: bool = False,
        number: dynograd.types.Number = 1.5,
    ) -> tuple[Tensor, int]: ...

    assert library.infer_schema(function, mutates_args={"x"}) == (
        '(Tensor(a0!) x, SymInt[] sizes, ScalarType kind, Device? where=None, Tensor?[]? more=None, str word="a", *, bool flag=False, '
        "Scalar number=1.5) -> (Tensor, SymInt)"
    )


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda s: s(3), RuntimeError, "Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'"),
        (lambda s: s(), RuntimeError, "missing value for argument 'x'.*Tensor x, float by=2."),
        (lambda s: s(dynograd.ones(1), too=1), RuntimeError, "Unknown keyword argument 'too'"),
        (lambda s: s(dynograd.ones(1), 1.0, 2.0), RuntimeError, "at most 2 positional"),
        (lambda s: s(dynograd.ones(1), x=dynograd.ones(1)), RuntimeError, "multiple values for argument 'x'"),
        (lambda s: dynograd.ops.tested.scalle, AttributeError, "'tested' object has no attribute 'scalle'. Did you mean scale"),
        (lambda s: dynograd.ops.tessted.scale, AttributeError, "Nothing is registered there.*did you mean tested"),
        (lambda s: dynograd.ops.tested.scale.Tensor, AttributeError, "no overload name 'Tensor': it has default"),
        (lambda s: library.register_fake("tested::scalle", s), RuntimeError, "tested::scalle does not exist. Did you mean tested::scale"),
        (lambda s: library.custom_op("scale", s, mutates_args=()), ValueError, "'mylib::scale', with a namespace"),
        (lambda s: library.custom_op("tested::a", lambda x: x, mutates_args=()), ValueError, "Parameter x must have a type annotation"),
        (lambda s: library.custom_op("tested::a", _one, mutates_args=("y",)), ValueError, r"\{'y'\} in mutates_args were not found"),
        (lambda s: library.custom_op("tested::a", _one, mutates_args="x"), ValueError, r"Write mutates_args=\('x',\)"),
        (lambda s: library.custom_op("tested::a", _one, mutates_args=(), device_types="gpu"), ValueError, "'gpu' is no type of device"),
        (lambda s: library.custom_op("tested::a", _one, mutates_args=("x",), schema="(Tensor x) -> Tensor"), ValueError, "Write Tensor.a!."),
        (lambda s: library.custom_op("tested::a", _one, mutates_args=())(dynograd.ones(1)), RuntimeError, "must not also be an input"),
        (lambda s: library.custom_op("tested::a", _three, mutates_args=())(dynograd.ones(1)), RuntimeError, "Unable to cast 3 to Tensor"),
        (lambda s: library.custom_op("aten::add", _one, mutates_args=()), RuntimeError, "namespace aten is dynograd's own"),
        (lambda s: library.custom_op("indexing::add", _one, mutates_args=()), RuntimeError, "namespace indexing is dynograd's own"),
        (lambda s: library.Library("aten", "IMPL"), ValueError, "reserved namespace"),
        (lambda s: library.Library("tested", "NEW"), ValueError, "Unsupported library kind: 'NEW'"),
        (lambda s: library.Library("tested", "FRAGMENT").impl("scale", _one, "GPU"), RuntimeError, "could not parse dispatch key: GPU"),
        (lambda s: library.Library("tested", "IMPL").define("a(Tensor x) -> Tensor"), RuntimeError, "kind IMPL"),
        (lambda s: library.define("tested::b", "Tensor x -> Tensor"), RuntimeError, "is no schema"),
        (lambda s: library.define("tested::b", "(Tensor) -> Tensor"), RuntimeError, "'Tensor' is no argument"),
        (lambda s: library.define("tested::b", "(int n=zero) -> Tensor"), RuntimeError, "'zero' is no default"),
        (lambda s: library.define("tested::b", None), TypeError, "schema to be a text"),
        (lambda s: library.register_autograd("tested::scale", 3), TypeError, "backward must be a function, got int"),
        (lambda s: library.register_torch_dispatch(s, int), NotImplementedError, "__torch_dispatch__"),
        (lambda s: library.get_ctx(), NotImplementedError, "get_ctx"),
        (lambda s: library.opcheck(s, (), test_utils="test_x"), NotImplementedError, "no test 'test_x'"),
        (lambda s: dynograd.ops.load_library("mine.so"), OSError, "'mine.so'.*library.custom_op"),
        (lambda s: dynograd.classes.load_library("mine.so"), NotImplementedError, "'mine.so'.*library.custom_op"),
        (lambda s: dynograd.classes.mine.Thing, RuntimeError, "class 'mine.Thing'"),
    ],
)  # fmt: skip
def test_errors(scale, call, kind, words):
    with pytest.raises(kind, match=words):
        call(scale)


def _one(x: Tensor) -> Tensor:
    return x


def _three(x: Tensor) -> Tensor:
    return 3


def test_backward_must_give_one_gradient_for_each_argument(scale):
    scale.register_autograd(lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="returned 1 gradients, but its schema has 2 arguments"):
        scale(dynograd.ones(1, requires_grad=True)).backward()


def test_opcheck(scale):
    x = dynograd.ones(2, requires_grad=True)
    good = dict.fromkeys(("test_schema", "test_autograd_registration", "test_faketensor"), "SUCCESS")
    assert library.opcheck(scale, (x,)) == good
    scale.register_fake(lambda x, by=2.0: x.new_empty(1))
    with pytest.raises(Exception, match=r"test_faketensor failed with .*the fake impl gives \[\(\(1,\)"):
        library.opcheck(scale, (x,))

    @library.custom_op("tested::sly", mutates_args=())
    def sly(x: Tensor) -> Tensor:
        x.add_(1)
        return x * 2

    result = library.opcheck(sly, (x,), raise_exception=False)
    assert "Argument x is not defined as mutable but was mutated" in str(result["test_schema"])
    assert "no gradient is registered" in str(result["test_autograd_registration"])


def test_triton_op_and_wrap_triton():
    kernel = object()
    assert library.wrap_triton(kernel) is kernel

    @library.triton_op("tested::plus", mutates_args=())
    def plus(x: Tensor, y: Tensor) -> Tensor:
        return x + y

    assert plus(dynograd.ones(1), dynograd.ones(1)).item() == 2


def test_registered_again_the_newer_stands(scale):
    again = library.custom_op("tested::scale", lambda x: x * 7, mutates_args=(), schema="(Tensor x) -> Tensor")
    assert dynograd.ops.tested.scale(dynograd.ones(1)).item() == 7
    assert repr(again) == "<CustomOpDef(tested::scale)>"
    assert repr(dynograd.ops.tested.scale.default) == "<OpOverload(op='tested.scale', overload='default')>"
