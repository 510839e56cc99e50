"""What a row of `harness.py` becomes: for each thing worth trying, a name and a function that fails or does not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy
from numpy.testing import assert_allclose

import dynograd
from dynograd import dtypes
from dynograd.autograd.modes import no_grad
from dynograd.differentiation import grad
from dynograd.gradcheck import gradcheck, gradgradcheck
from dynograd.methods import public_functions
from dynograd.ops.op import registry
from dynograd.tensor import Tensor, wrap
from dynograd.transforms.jvp import jvp

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "uint8")
BOOL = ("bool",)
COMPLEX = ("complex64", "complex128")

TOLERANCES = {
    "float64": (1e-9, 1e-10),
    "float32": (2e-5, 2e-6),
    "float16": (4e-3, 2e-3),
    "bfloat16": (3e-2, 1e-2),
    "complex128": (1e-9, 1e-10),
    "complex64": (2e-5, 2e-6),
}
# Shapes of two operands that broadcast, each tried both ways.
STRETCHED = [((3, 1), (1, 4)), ((4,), (2, 3, 4)), ((), (2, 3)), ((2, 1, 3), (4, 1)), ((1, 0), (3, 1))]
# Dtypes of two operands, and what arithmetic gives.
MIXED = [
    ("float32", "float64", "float64"),
    ("int64", "float32", "float32"),
    ("float16", "float32", "float32"),
    ("bfloat16", "float16", "float32"),
    ("float16", "int64", "float16"),
]


def numpy_dtype(name: str) -> numpy.dtype:
    return numpy.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


# --- arguments ---------------------------------------------------------------------------------------------------------------


class Arguments:
    """A call's positional and keyword arguments, with NumPy arrays where Tensors go."""

    def __init__(self, positional: Sequence[Any], keywords: dict[str, Any]) -> None:
        self.positional, self.keywords = list(positional), dict(keywords)

    def map(self, change: Callable[[Any], Any]) -> Arguments:
        """The same with `change(array)` in place of each array, or of each Tensor."""

        def walk(value: Any) -> Any:
            if isinstance(value, (numpy.ndarray, Tensor)):
                return change(value)
            if isinstance(value, (list, tuple)) and any(isinstance(one, (numpy.ndarray, Tensor)) for one in value):
                return type(value)(walk(one) for one in value)
            return value

        return Arguments([walk(one) for one in self.positional], {key: walk(one) for key, one in self.keywords.items()})

    def leaves(self) -> list[Any]:
        """All arrays (or Tensors), in order."""
        found: list[Any] = []

        def note(value: Any) -> Any:
            found.append(value)
            return value

        self.map(note)
        return found

    def with_leaves(self, leaves: Sequence[Any]) -> Arguments:
        remaining = iter(leaves)
        return self.map(lambda _: next(remaining))

    def call(self, function: Callable[..., Any]) -> Any:
        return function(*self.positional, **self.keywords)


def draw(row: Any, shapes: Any = None) -> Arguments:
    """Arguments of a row in float64; the same ones each time."""
    rng = numpy.random.default_rng(7)
    keywords = row.kwargs(rng) if callable(row.kwargs) else row.kwargs
    if row.args is not None and shapes is None:
        return Arguments(row.args(rng), keywords)
    wanted = row.shapes if shapes is None else shapes
    domains = row.domain if isinstance(row.domain, list) else [row.domain] * len(wanted)
    positional: list[Any] = []
    for shape, domain in zip(wanted, domains, strict=True):
        if isinstance(shape, list):
            positional.append([sample(rng, domain, one, row.avoid) for one in shape])
        else:
            positional.append(sample(rng, domain, shape, row.avoid))
    return Arguments(positional, keywords)


def sample(rng: Any, domain: Any, shape: tuple[int, ...], avoid: Sequence[float]) -> Any:
    if callable(domain):
        return numpy.asarray(domain(rng, shape), numpy.float64)
    low, high = domain
    values = rng.uniform(low, high, shape)
    for kink in avoid:
        close = numpy.abs(values - kink) < 0.1
        values = numpy.where(close, kink + numpy.where(values < kink, -0.1, 0.1) + (values - kink), values)
    return numpy.asarray(values)


def converted(array: Any, name: str) -> Any:
    """A floating array as it is tried in dtype `name`; index and bool arrays are left alone."""
    if array.dtype.kind != "f":
        return array
    kind = numpy_dtype(name)
    if kind.kind in "iu":
        whole = numpy.floor(array * 3)
        return (numpy.abs(whole) if kind.kind == "u" else whole).astype(kind)
    if kind.kind == "b":
        return array > (numpy.median(array) if array.size else 0)
    if kind.kind == "c":
        return (array + 1j * array[..., ::-1] / 2 if array.ndim else array + 0.5j).astype(kind)
    return array.astype(kind)


def widened(array: Any) -> Any:
    """What the reference gets: the same values in the widest dtype of their kind."""
    kind = {"f": numpy.float64, "V": numpy.float64, "c": numpy.complex128, "b": numpy.bool_}.get(array.dtype.kind, numpy.int64)
    return array.astype(kind)


def floating(tensor: Any) -> bool:
    return tensor.array.dtype.kind in "fV" if isinstance(tensor, Tensor) else tensor.dtype.kind in "fV"


# --- the op of a row ---------------------------------------------------------------------------------------------------------


class Subject:
    """A row with what the registry knows about its op."""

    def __init__(self, row: Any) -> None:
        self.row = row
        last = row.name.rpartition(".")[2]
        self.inner = registry.get(last)
        self.face = registry.get(f"{last}.public", self.inner)
        self.function = row.function or find_function(row.name)
        self.elementwise = self.inner is not None and self.inner.kind == "elementwise"
        self.differentiable = self.inner is None or self.inner.differentiable
        self.has_tensors = bool(draw(row).leaves())

    def run(self, arguments: Arguments) -> Any:
        return arguments.call(self.function)

    def expected(self, arguments: Arguments) -> Any:
        return arguments.map(widened).call(self.row.reference)

    def method_name(self) -> str | None:
        row, face = self.row, self.face
        if row.method is not None:
            return row.method or None
        if face is None or not face.method or row.function is not None:
            return None
        return face.method if isinstance(face.method, str) else face.name

    def inplace_name(self) -> str | None:
        if self.row.inplace is False or self.row.function is not None or self.inner is None:
            return None
        declared = self.inner.inplace or (self.face is not None and self.face.inplace)
        return f"{self.inner.name}_" if declared or self.row.inplace else None

    def result_names(self, name: str, count: int) -> list[str | None]:
        """The dtypes expected of the outputs for inputs of dtype `name`."""
        rule = self.row.result
        rules = list(rule) if isinstance(rule, (tuple, list)) else [rule] * count
        return [self._result_name(one, name) for one in rules]

    def _result_name(self, rule: Any, name: str) -> str | None:
        if callable(rule):
            return rule(name)
        if rule is None and self.elementwise:
            promote = self.inner.promote
            if promote in ("compare", "logical"):
                return "bool"
            if promote == "float" and name in INTEGERS + BOOL:
                return "float32"
            return name
        if rule is None:
            return name if name in FLOATS + COMPLEX else None
        return name if rule == "same" else rule


def find_function(name: str) -> Callable[..., Any]:
    known = public_functions()
    if name in known:
        return known[name]
    if name.rpartition(".")[2] in known and not hasattr(dynograd, name.partition(".")[0]):
        return known[name.rpartition(".")[2]]
    found: Any = dynograd
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise LookupError(f"a row is called {name!r}, but there is no dynograd.{name} and no registered op of that name")
    return found


def as_tuple(found: Any) -> tuple:
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def compare(found: Any, expected: Any, name: str, row: Any, names: Sequence[str | None] | None = None) -> None:
    """Values within the row's tolerance for dtype `name`, shapes, and dtypes when they are given."""
    outputs, wanted = as_tuple(found), as_tuple(expected)
    assert len(outputs) == len(wanted), f"{len(outputs)} outputs, the reference gives {len(wanted)}"
    if isinstance(row.tolerance, dict):
        rtol, atol = row.tolerance.get(name, TOLERANCES.get(name, (0, 0)))
    else:
        rtol, atol = (part * row.tolerance for part in TOLERANCES.get(name, TOLERANCES["float32"]))
    for place, (one, want) in enumerate(zip(outputs, wanted, strict=True)):
        if want is None:
            continue
        if not isinstance(one, Tensor):
            assert one == want, f"output {place} is {one!r}, the reference gives {want!r}"
            continue
        want = numpy.asarray(want)
        assert tuple(one.shape) == want.shape, f"output {place} has shape {tuple(one.shape)}, the reference {want.shape}"
        if names is not None and names[place] is not None:
            assert one.dtype is getattr(dtypes, names[place]), f"output {place} is {one.dtype}, expected {names[place]}"
        got = one.array
        assert_allclose(widened(got), want, rtol=rtol, atol=atol, err_msg=f"output {place}")


def tensors_of(arguments: Arguments, wants: Sequence[bool] | bool = False) -> Arguments:
    """Tensors on copies of the arrays; `wants` says which floating ones require grad."""
    leaves = []
    flags = itertools.repeat(wants) if isinstance(wants, bool) else iter(wants)
    for array in arguments.leaves():
        tensor = wrap(array.copy() if array.flags.c_contiguous else array)
        if floating(tensor) and next(flags):
            tensor._requires_grad = True
        leaves.append(tensor)
    return arguments.with_leaves(leaves)


def wants_of(row: Any, arguments: Arguments) -> list[bool]:
    count = sum(floating(array) for array in arguments.leaves())
    if isinstance(row.grad, bool):
        return [row.grad] * count
    flags = list(row.grad)
    assert len(flags) == count, f"{row.name}: grad has {len(flags)} entries for {count} floating arguments"
    return flags


# --- the cases ---------------------------------------------------------------------------------------------------------------


def cases_of(row: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """(name, check) of every case of a row."""
    try:
        subject = Subject(row)
    except LookupError as missing:
        yield "exists", partial(fail, missing)
        return
    for name in row.dtypes:
        yield f"forward-{name}", partial(check_forward, subject, name)
    first = next((name for name in row.dtypes if name in FLOATS), row.dtypes[0] if row.dtypes else "float32")
    if row.reference is not None and subject.has_tensors and row.strided:
        yield "strided", partial(check_strided, subject, first)
    for what, choice in (("ones", row.ones), ("empty", row.empty)):
        for number, shapes in enumerate(small_shapes(row, what, choice)):
            yield f"{what}{number or ''}", partial(check_shapes, subject, first, shapes)
    if row.shapes and (subject.elementwise if row.scalars is None else row.scalars):
        yield "scalars", partial(check_shapes, subject, first, [() for _ in row.shapes])
    if row.broadcast:
        for one, two in STRETCHED:
            yield f"broadcast-{one}-{two}", partial(check_shapes, subject, first, [one, two, *row.shapes[2:]], True)
            yield f"broadcast-{two}-{one}", partial(check_shapes, subject, first, [two, one, *row.shapes[2:]], True)
        yield "number", partial(check_number, subject, first)
        if subject.elementwise and subject.inner.promote in ("arithmetic", "float", "compare") and set(FLOATS) <= set(row.dtypes):
            yield "mixed-dtypes", partial(check_mixed, subject)
    if row.reference is not None and subject.method_name():
        yield "method", partial(check_method, subject, first)
    if row.reference is not None and subject.inplace_name():
        yield "inplace", partial(check_inplace, subject, first)
    yield from gradient_cases(subject)
    for number, failure in enumerate(row.errors):
        yield f"error{number}", partial(check_error, subject, failure)


def gradient_cases(subject: Subject) -> Iterator[tuple[str, Callable[[], None]]]:
    row = subject.row
    if row.reference is None or not any(floating(leaf) for leaf in draw(row).leaves()):
        return
    if not subject.differentiable or not any(wants_of(row, draw(row))):
        if "float32" in row.dtypes:
            yield "no-gradient", partial(check_no_gradient, subject)
        return
    yield "gradient", partial(check_gradient, subject)
    if row.second:
        yield "second-gradient", partial(check_second_gradient, subject)
    yield "both-backwards", partial(check_both_backwards, subject)
    yield "recording", partial(check_recording, subject)
    if row.strided:
        yield "strided-gradient", partial(check_strided_gradient, subject)
    if row.jvp:
        yield "jvp", partial(check_jvp, subject)
        if row.second:
            yield "jvp-gradient", partial(check_jvp_gradient, subject)


def fail(error: Exception) -> None:
    raise error


def small_shapes(row: Any, what: str, choice: Any) -> list[Any]:
    if choice is False or not row.shapes:
        return []
    if choice not in (None, True):
        return list(choice)
    if what == "ones":
        return [[[(1,) * len(one) for one in shape] if isinstance(shape, list) else (1,) * len(shape) for shape in row.shapes]]
    if len({str(shape) for shape in row.shapes}) > 1 or isinstance(row.shapes[0], list) or not row.shapes[0]:
        return []
    return [[(0, *shape[1:]) for shape in row.shapes]]


def check_forward(subject: Subject, name: str) -> None:
    arrays = draw(subject.row).map(lambda array: converted(array, name))
    tensors = tensors_of(arrays)
    before = [leaf.array.tobytes() for leaf in tensors.leaves()]
    found = subject.run(tensors)
    assert before == [leaf.array.tobytes() for leaf in tensors.leaves()], "the op wrote into its inputs"
    if subject.row.reference is not None:
        compare(found, subject.expected(arrays), name, subject.row, subject.result_names(name, len(as_tuple(found))))
    else:
        for one, wanted in zip(as_tuple(found), subject.result_names(name, len(as_tuple(found))), strict=True):
            assert wanted is None or one.dtype is getattr(dtypes, wanted), f"{one.dtype}, expected {wanted}"


def strided_forms(array: Any) -> Iterator[Any]:
    """The same values, spaced out among NaN (or 99), in Fortran order, and backwards in memory."""
    if array.ndim == 0:
        yield array
        return
    spaced = numpy.full([2 * size for size in array.shape], 99, array.dtype)
    if array.dtype.kind in "fcV":
        spaced.fill(numpy.nan)
    view = spaced[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    yield view
    yield numpy.asfortranarray(array) if array.ndim > 1 else array.repeat(3)[::3]
    yield array[..., ::-1].copy()[..., ::-1]


def strided_arguments(arrays: Arguments) -> Iterator[Arguments]:
    forms = [list(strided_forms(array)) for array in arrays.leaves()]
    for number in range(3):
        yield arrays.with_leaves([form[min(number, len(form) - 1)] for form in forms])


def check_strided(subject: Subject, name: str) -> None:
    arrays = draw(subject.row).map(lambda array: converted(array, name))
    expected = subject.expected(arrays)
    for strided in strided_arguments(arrays):
        compare(subject.run(strided.map(wrap)), expected, name, subject.row)


def check_shapes(subject: Subject, name: str, shapes: Sequence[Any], gradients: bool = False) -> None:
    """Forward on other shapes; backward gives gradients of the inputs' shapes."""
    row = subject.row
    arrays = draw(row, shapes).map(lambda array: converted(array, name))
    found = subject.run(tensors_of(arrays))
    if row.reference is not None:
        compare(found, subject.expected(arrays), name, row, subject.result_names(name, len(as_tuple(found))))
    if row.reference is None or not subject.differentiable or name not in FLOATS or not any(wants_of(row, arrays)):
        return
    doubles = draw(row, shapes)
    tensors = tensors_of(doubles, wants_of(row, doubles))
    leaves = [leaf for leaf in tensors.leaves() if leaf.requires_grad]
    outputs = [one for one in as_tuple(subject.run(tensors)) if isinstance(one, Tensor) and one.requires_grad]
    parts = grad(outputs, leaves, [wrap(numpy.ones(one.array.shape)) for one in outputs], allow_unused=True) if outputs else []
    for leaf, part in zip(leaves, parts, strict=bool(outputs)):
        assert part is None or part.array.shape == leaf.array.shape, f"gradient {part.shape} for input {leaf.shape}"
    if gradients and all(leaf.array.size for leaf in leaves):
        rtol, atol = row.gradient_tolerance
        gradcheck(lambda *values: run_with(subject, tensors, leaves, values), tuple(leaves), rtol=rtol, atol=atol)


def check_number(subject: Subject, name: str) -> None:
    """A Python number for argument 1."""
    row = subject.row
    arrays = draw(row).map(lambda array: converted(array, name))
    domain = row.domain[1] if isinstance(row.domain, list) else row.domain
    number = 1.5 if callable(domain) else round((domain[0] + 3 * domain[1]) / 2) / 2
    for value in (number, int(number) or 1) if name in FLOATS else (int(number) or 1,):
        changed = Arguments([arrays.positional[0], value, *arrays.positional[2:]], arrays.keywords)
        compare(subject.run(changed.map(wrap)), subject.expected(changed), name, row, subject.result_names(name, 1))


def check_mixed(subject: Subject) -> None:
    """Two operands of different dtypes: the result has the promoted dtype, each gradient its operand's."""
    row = subject.row
    for one, two, promoted in MIXED:
        for names in ((one, two), (two, one)):
            drawn = draw(row)
            arrays = drawn.with_leaves([converted(array, name) for array, name in zip(drawn.leaves(), names, strict=True)])
            expected_name = "bool" if subject.inner.promote == "compare" else promoted
            tensors = tensors_of(arrays, subject.differentiable)
            found = subject.run(tensors)
            assert found.dtype is getattr(dtypes, expected_name), f"{names} gave {found.dtype}, expected {expected_name}"
            coarsest = "bfloat16" if "bfloat16" in names else "float16" if "float16" in names else promoted
            compare(found.detach(), subject.expected(arrays), coarsest, row)
            leaves = [leaf for leaf in tensors.leaves() if leaf.requires_grad]
            if found.requires_grad:
                for leaf, part in zip(leaves, grad(found.sum(), leaves, allow_unused=True), strict=True):
                    assert part is None or part.dtype is leaf.dtype, f"gradient {part.dtype} for an input {leaf.dtype}"


def check_method(subject: Subject, name: str) -> None:
    arrays = draw(subject.row).map(lambda array: converted(array, name))
    expected = subject.run(tensors_of(arrays))
    tensors = tensors_of(arrays)
    first, *rest = tensors.positional
    assert isinstance(first, Tensor), "the method form needs a Tensor as argument 0 (or method=False in the row)"
    same_bits(getattr(first, subject.method_name())(*rest, **tensors.keywords), expected)


def same_bits(found: Any, expected: Any) -> None:
    for one, other in zip(as_tuple(found), as_tuple(expected), strict=True):
        if isinstance(other, Tensor):
            assert one.dtype is other.dtype and one.shape == other.shape
            numpy.testing.assert_array_equal(one.detach().array, other.detach().array)
        else:
            assert one == other


def check_inplace(subject: Subject, name: str) -> None:
    """`name_` returns its tensor, with the values and the gradients of the out-of-place form."""
    row, method = subject.row, subject.inplace_name()
    arrays = draw(row).map(lambda array: converted(array, name))
    tensors = tensors_of(arrays)
    expected = subject.run(tensors_of(arrays))
    first, *rest = tensors.positional
    memory = first.array
    assert getattr(first, method)(*rest, **tensors.keywords) is first, f"{method} must return its tensor"
    assert first.array is memory, f"{method} must keep its memory"
    numpy.testing.assert_array_equal(first.array, expected.array.astype(first.array.dtype))
    if not subject.differentiable or row.grad is False or name not in FLOATS:
        return

    def inside(*values: Any, **keywords: Any) -> Any:
        copied = values[0] * 1
        getattr(copied, method)(*values[1:], **keywords)
        return copied

    same_gradients(gradients_of(subject, draw(row), inside), gradients_of(subject, draw(row)))


def gradients_of(subject: Subject, arrays: Arguments, function: Any = None, create_graph: bool = False) -> list[Any]:
    """Gradients of a fixed random combination of all outputs, one per floating input that wants one."""
    tensors = tensors_of(arrays, wants_of(subject.row, arrays))
    leaves = [leaf for leaf in tensors.leaves() if leaf.requires_grad]
    found = tensors.call(function or subject.function)
    outputs = [one for one in as_tuple(found) if isinstance(one, Tensor) and one.requires_grad]
    if not outputs:
        return [None] * len(leaves)
    rng = numpy.random.default_rng(3)
    seeds = [wrap(rng.uniform(-1, 1, one.array.shape).astype(one.array.dtype)) for one in outputs]
    return list(grad(outputs, leaves, seeds, create_graph=create_graph, allow_unused=True))


def same_gradients(found: list[Any], expected: list[Any], rtol: float = 1e-7, atol: float = 1e-9) -> None:
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one is None or other is None:
            present = one if other is None else other
            assert present is None or not present.detach().array.any(), f"only one way gives a gradient of input {number}"
            continue
        assert_allclose(one.detach().array, other.detach().array, rtol=rtol, atol=atol, err_msg=f"gradient of input {number}")


def run_with(subject: Subject, arguments: Arguments, leaves: Sequence[Any], values: Sequence[Any]) -> Any:
    """The op with `values` in place of the Tensors `leaves`."""
    replaced = {id(leaf): value for leaf, value in zip(leaves, values, strict=True)}
    return subject.run(arguments.map(lambda tensor: replaced.get(id(tensor), tensor)))


def floating_outputs(found: Any) -> tuple:
    return tuple(one for one in as_tuple(found) if isinstance(one, Tensor) and floating(one))


def prepared(subject: Subject) -> tuple[Callable[..., Any], tuple]:
    """The op as a function of the float64 inputs that want gradients, and those inputs."""
    arrays = draw(subject.row)
    tensors = tensors_of(arrays, wants_of(subject.row, arrays))
    leaves = tuple(leaf for leaf in tensors.leaves() if leaf.requires_grad)
    return lambda *values: floating_outputs(run_with(subject, tensors, leaves, values)), leaves


def check_gradient(subject: Subject) -> None:
    function, leaves = prepared(subject)
    rtol, atol = subject.row.gradient_tolerance
    assert gradcheck(function, leaves, rtol=rtol, atol=atol, check_grad_dtypes=True)


def check_second_gradient(subject: Subject) -> None:
    function, leaves = prepared(subject)
    if not any(one.requires_grad for one in function(*leaves)):
        return
    rtol, atol = subject.row.gradient_tolerance
    assert gradgradcheck(function, leaves, rtol=rtol, atol=atol)


def check_both_backwards(subject: Subject) -> None:
    """backward on arrays (or fast_backward) equals the recorded backward; in float32 gradients are float32."""
    same_gradients(gradients_of(subject, draw(subject.row)), gradients_of(subject, draw(subject.row), create_graph=True))
    if "float32" not in subject.row.dtypes:
        return
    singles = draw(subject.row).map(lambda array: converted(array, "float32"))
    for create_graph in (False, True):
        for number, part in enumerate(gradients_of(subject, singles, create_graph=create_graph)):
            assert part is None or part.dtype is dtypes.float32, f"gradient of input {number} is {part.dtype} for float32"


def check_recording(subject: Subject) -> None:
    """A result requires grad when an input does, except under no_grad."""
    arrays = draw(subject.row)
    wants = wants_of(subject.row, arrays)
    with no_grad():
        for one in as_tuple(subject.run(tensors_of(arrays, wants))):
            assert not isinstance(one, Tensor) or one.grad_fn is None, "no_grad() was not obeyed"
    for one in as_tuple(subject.run(tensors_of(arrays, False))):
        assert not isinstance(one, Tensor) or not one.requires_grad, "a result requires grad though no input does"
    tensors = tensors_of(arrays, wants)
    found = as_tuple(subject.run(tensors))
    assert any(isinstance(one, Tensor) and one.requires_grad for one in found), "no result requires grad though an input does"


def check_no_gradient(subject: Subject) -> None:
    """An op that is not differentiable gives results without history."""
    arrays = draw(subject.row).map(lambda array: converted(array, "float32"))
    for one in as_tuple(subject.run(tensors_of(arrays, subject.row.grad is True or not subject.differentiable))):
        assert not isinstance(one, Tensor) or not one.requires_grad, "the result requires grad, but the op is not differentiable"


def check_strided_gradient(subject: Subject) -> None:
    arrays = draw(subject.row)
    expected = gradients_of(subject, arrays)
    for strided in strided_arguments(arrays):
        same_gradients(gradients_of(subject, strided), expected)


def check_jvp(subject: Subject) -> None:
    """Forward mode in one random direction against central differences."""
    function, leaves = prepared(subject)
    primals = tuple(leaf.detach() for leaf in leaves)
    rng = numpy.random.default_rng(5)
    directions = [rng.uniform(-1, 1, one.array.shape) for one in primals]
    outputs, tangents = jvp(function, primals, tuple(wrap(one) for one in directions))
    values = function(*primals)
    step = 1e-6
    above = function(*[wrap(one.array + step * way) for one, way in zip(primals, directions, strict=True)])
    below = function(*[wrap(one.array - step * way) for one, way in zip(primals, directions, strict=True)])
    rtol, atol = subject.row.gradient_tolerance
    for number, (value, out, tangent, up, down) in enumerate(zip(values, outputs, tangents, above, below, strict=True)):
        assert_allclose(out.array, value.array, rtol=1e-9, atol=1e-12, err_msg=f"output {number} under jvp")
        numeric = (up.array - down.array) / (2 * step)
        assert tangent.dtype is out.dtype and tangent.shape == out.shape, f"tangent {number}: {tangent.dtype} {tangent.shape}"
        assert_allclose(tangent.array, numeric, rtol=rtol, atol=atol * 10, err_msg=f"tangent of output {number}")


def check_jvp_gradient(subject: Subject) -> None:
    """Backward through forward mode, for the primals and for the tangents."""
    function, leaves = prepared(subject)
    rng = numpy.random.default_rng(5)
    directions = tuple(wrap(rng.uniform(-1, 1, one.array.shape)) for one in leaves)
    for direction in directions:
        direction._requires_grad = True

    def slopes(*values: Any) -> Any:
        return jvp(function, values[: len(leaves)], values[len(leaves) :])[1]

    rtol, atol = subject.row.gradient_tolerance
    assert gradcheck(slopes, (*leaves, *directions), rtol=rtol, atol=atol, fast_mode=True)


def check_error(subject: Subject, failure: Any) -> None:
    try:
        failure.call(subject.function)
    except failure.kind as raised:
        message = str(raised)
        missing = [word for word in failure.words if word not in message]
        assert not missing, f"the message lacks {missing}: {message}"
    else:
        raise AssertionError(f"expected {failure.kind.__name__}, nothing was raised")
