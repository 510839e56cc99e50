"""Every name of the array API standard 2024.12 is there, with the standard's arguments."""

import ast
import inspect

import pytest

import dynograd as dg
import dynograd.array_api as xp

ONE = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log10 log1p log2
    logical_not matrix_transpose negative nonzero positive real reciprocal round sign signbit sin sinh sqrt square tan tanh trunc
    unique_all unique_counts unique_inverse unique_values"""
TWO = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide greater
    greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor matmul maximum minimum multiply nextafter not_equal pow
    remainder subtract"""
OTHERS = """
    arange(start, /, stop=None, step=1, *, dtype=None, device=None)
    asarray(obj, /, *, dtype=None, device=None, copy=None)
    empty(shape, *, dtype=None, device=None)
    empty_like(x, /, *, dtype=None, device=None)
    eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
    from_dlpack(x, /, *, device=None, copy=None)
    full(shape, fill_value, *, dtype=None, device=None)
    full_like(x, /, fill_value, *, dtype=None, device=None)
    linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
    meshgrid(*arrays, indexing='xy')
    ones(shape, *, dtype=None, device=None)
    ones_like(x, /, *, dtype=None, device=None)
    tril(x, /, *, k=0)
    triu(x, /, *, k=0)
    zeros(shape, *, dtype=None, device=None)
    zeros_like(x, /, *, dtype=None, device=None)
    astype(x, dtype, /, *, copy=True, device=None)
    can_cast(from_, to, /)
    finfo(type, /)
    iinfo(type, /)
    isdtype(dtype, kind)
    result_type(*arrays_and_dtypes)
    clip(x, /, min=None, max=None)
    take(x, indices, /, *, axis=None)
    take_along_axis(x, indices, /, *, axis=-1)
    tensordot(x1, x2, /, *, axes=2)
    vecdot(x1, x2, /, *, axis=-1)
    broadcast_arrays(*arrays)
    broadcast_to(x, /, shape)
    concat(arrays, /, *, axis=0)
    expand_dims(x, /, axis)
    flip(x, /, *, axis=None)
    moveaxis(x, source, destination, /)
    permute_dims(x, /, axes)
    repeat(x, repeats, /, *, axis=None)
    reshape(x, /, shape, *, copy=None)
    roll(x, /, shift, *, axis=None)
    squeeze(x, /, axis)
    stack(arrays, /, *, axis=0)
    tile(x, repetitions, /)
    unstack(x, /, *, axis=0)
    argmax(x, /, *, axis=None, keepdims=False)
    argmin(x, /, *, axis=None, keepdims=False)
    count_nonzero(x, /, *, axis=None, keepdims=False)
    searchsorted(x1, x2, /, *, side='left', sorter=None)
    where(condition, x1, x2, /)
    argsort(x, /, *, axis=-1, descending=False, stable=True)
    sort(x, /, *, axis=-1, descending=False, stable=True)
    cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
    cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
    max(x, /, *, axis=None, keepdims=False)
    mean(x, /, *, axis=None, keepdims=False)
    min(x, /, *, axis=None, keepdims=False)
    prod(x, /, *, axis=None, dtype=None, keepdims=False)
    std(x, /, *, axis=None, correction=0.0, keepdims=False)
    sum(x, /, *, axis=None, dtype=None, keepdims=False)
    var(x, /, *, axis=None, correction=0.0, keepdims=False)
    all(x, /, *, axis=None, keepdims=False)
    any(x, /, *, axis=None, keepdims=False)
    diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
    __array_namespace_info__()
    linalg.cholesky(x, /, *, upper=False)
    linalg.cross(x1, x2, /, *, axis=-1)
    linalg.det(x, /)
    linalg.diagonal(x, /, *, offset=0)
    linalg.eigh(x, /)
    linalg.eigvalsh(x, /)
    linalg.inv(x, /)
    linalg.matmul(x1, x2, /)
    linalg.matrix_norm(x, /, *, keepdims=False, ord='fro')
    linalg.matrix_power(x, n, /)
    linalg.matrix_rank(x, /, *, rtol=None)
    linalg.matrix_transpose(x, /)
    linalg.outer(x1, x2, /)
    linalg.pinv(x, /, *, rtol=None)
    linalg.qr(x, /, *, mode='reduced')
    linalg.slogdet(x, /)
    linalg.solve(x1, x2, /)
    linalg.svd(x, /, *, full_matrices=True)
    linalg.svdvals(x, /)
    linalg.tensordot(x1, x2, /, *, axes=2)
    linalg.trace(x, /, *, offset=0, dtype=None)
    linalg.vecdot(x1, x2, /, *, axis=-1)
    linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
    fft.fft(x, /, *, n=None, axis=-1, norm='backward')
    fft.ifft(x, /, *, n=None, axis=-1, norm='backward')
    fft.fftn(x, /, *, s=None, axes=None, norm='backward')
    fft.ifftn(x, /, *, s=None, axes=None, norm='backward')
    fft.rfft(x, /, *, n=None, axis=-1, norm='backward')
    fft.irfft(x, /, *, n=None, axis=-1, norm='backward')
    fft.rfftn(x, /, *, s=None, axes=None, norm='backward')
    fft.irfftn(x, /, *, s=None, axes=None, norm='backward')
    fft.hfft(x, /, *, n=None, axis=-1, norm='backward')
    fft.ihfft(x, /, *, n=None, axis=-1, norm='backward')
    fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
    fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
    fft.fftshift(x, /, *, axes=None)
    fft.ifftshift(x, /, *, axes=None)
"""
FUNCTIONS = [f"{name}(x, /)" for name in ONE.split()] + [f"{name}(x1, x2, /)" for name in TWO.split()]
FUNCTIONS += [line.strip() for line in OTHERS.strip().splitlines()]
CONSTANTS = "e inf nan newaxis pi __array_api_version__ bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"


def described(function):
    """(name, kind, default) of each parameter; the names of positional-only ones are nobody's business."""
    result = []
    for parameter in inspect.signature(function).parameters.values():
        default = "none" if parameter.default is parameter.empty else repr(parameter.default)
        result.append(
            ("" if parameter.kind is parameter.POSITIONAL_ONLY else parameter.name, str(parameter.kind), default)
        )
    return result


@pytest.mark.parametrize("line", FUNCTIONS, ids=lambda line: line.partition("(")[0])
def test_functions_have_the_standards_arguments(line):
    name, _, arguments = line.partition("(")
    function = xp
    for part in name.split("."):
        function = getattr(function, part)
    space = {}
    exec(compile(ast.parse(f"def standard({arguments}: ..."), name, "exec"), space)
    assert described(function) == described(space["standard"])
    assert function.__name__ == name.split(".")[-1] and function.__doc__


def test_all_names_the_standard_and_nothing_else():
    names = {line.partition("(")[0].split(".")[0] for line in FUNCTIONS} | set(CONSTANTS.split())
    assert set(xp.__all__) == names and all(hasattr(xp, name) for name in names)
    assert set(xp.linalg.__all__) == {line.partition("(")[0][7:] for line in FUNCTIONS if line.startswith("linalg.")}
    assert set(xp.fft.__all__) == {line.partition("(")[0][4:] for line in FUNCTIONS if line.startswith("fft.")}


METHODS = """__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __eq__ __float__ __floordiv__ __ge__
    __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__
    __rshift__ __setitem__ __sub__ __truediv__ __xor__ to_device __radd__ __rsub__ __rmul__ __rtruediv__ __rfloordiv__ __rpow__ __rmod__
    __rmatmul__ __rand__ __ror__ __rxor__ __rlshift__ __rrshift__ __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __ipow__ __imod__
    __iand__ __ior__ __ixor__ __ilshift__ __irshift__"""


@pytest.mark.parametrize("name", METHODS.split())
def test_tensors_have_the_standards_methods(name):
    assert callable(getattr(dg.ones(2), name))


def test_attributes_and_constants():
    x = dg.zeros(2, 3)
    assert (x.dtype, x.ndim, tuple(x.shape)) == (dg.float32, 2, (2, 3)) and x.device == dg.device("cpu")
    assert tuple(x.T.shape) == (3, 2) == tuple(x.mT.shape)
    assert xp.__array_api_version__ == "2024.12" and xp.newaxis is None and xp.nan != xp.nan and xp.inf > 1e308
    assert abs(xp.e - 2.718281828459045) + abs(xp.pi - 3.141592653589793) == 0
    assert xp.float32 is dg.float32 and xp.bool is dg.bool and xp.uint64 is dg.uint64


def test_info():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_device() == dg.device("cpu") and info.default_device() in info.devices()
    assert info.default_dtypes() == {
        "real floating": dg.float32,
        "complex floating": dg.complex64,
        "integral": dg.int64,
        "indexing": dg.int64,
    }
    assert info.dtypes(kind="real floating") == {"float32": dg.float32, "float64": dg.float64}
    assert set(info.dtypes(kind=("bool", "signed integer"))) == {"bool", "int8", "int16", "int32", "int64"}
    assert len(info.dtypes()) == 13
    with pytest.raises(ValueError, match="expected kinds among 'bool', .* got 'number'"):
        info.dtypes(kind="number")
