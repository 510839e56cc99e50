"""Reductions, scans, sorts and matrix products beside PyTorch's: the same calls on the same numbers, and the same mistakes.

Compared are values, dtypes, shapes and names of the results, and gradients of a fixed combination of the floating ones. Indices of
ties are not (PyTorch's depend on the machine): the numbers are distinct, except where a case says so.
"""

import warnings

import ml_dtypes
import numpy
import pytest
import torch

import dynograd

inf, nan = float("inf"), float("nan")
TOLERANCE = {"float64": (1e-9, 1e-12), "float32": (1e-5, 1e-6), "float16": (5e-3, 1e-3), "bfloat16": (4e-2, 1e-2)}
ALL = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64")
REAL = ALL[:-1]
FLOATS = ALL[:4]
WIDE = ("float32", "float64")

# (text of the call on x (2, 3, 4), y (3, 4), v (4,), m (4, 5), n (3, 5, 4), s (), e (0, 3), r (3, 200); dtypes)
CALLS = [
    *[
        (f"t.{name}(x{form})", ALL)
        for name in ("sum", "prod")
        for form in ("", ", 0", ", -1, True", ", dim=1, keepdim=True")
    ],
    *[
        (f"x.sum({form})", ALL)
        for form in ("(0, 2)", "()", "dim=[1], keepdim=True", "axis=1", "1, keepdims=True", "dtype=t.float64")
    ],
    ("x.prod(dtype=t.float64)", REAL),
    *[
        (f"x.{name}({form})", (*FLOATS, "complex64"))
        for name in ("mean",)
        for form in ("", "1", "(0, -1), True", "()", "dtype=t.float64")
    ],
    *[
        (f"x.{name}({form})", ALL)
        for name in ("any", "all")
        for form in ("", "0", "(0, 2), True", "()", "axis=1, keepdims=True")
    ],
    *[(f"x.{name}({form})", REAL) for name in ("amax", "amin") for form in ("", "1", "(0, 2), True", "()")],
    *[
        (f"x.{name}({form})", FLOATS + ("int64", "int32"))
        for name in ("max", "min")
        for form in ("", "1", "dim=-1, keepdim=True")
    ],
    *[(f"t.{name}(y, x)", REAL) for name in ("max", "min")],
    ("y.max(other=x)", FLOATS),
    *[
        (f"x.{name}({form})", FLOATS + ("int64",))
        for name in ("argmax", "argmin")
        for form in ("", "1", "dim=-1, keepdim=True")
    ],
    *[(f"t.aminmax(x{form})", FLOATS + ("int64",)) for form in ("", ", dim=1", ", dim=0, keepdim=True")],
    *[
        (f"x.{name}({form})", (*FLOATS, "complex64"))
        for name in ("var", "std")
        for form in (
            "",
            "False",
            "1",
            "(0, 2), False, True",
            "dim=1, unbiased=False",
            "correction=2",
            "dim=0, correction=0",
        )
    ],
    *[
        (f"t.{name}(x{form})", WIDE)
        for name in ("var_mean", "std_mean")
        for form in ("", ", False", ", 1", ", dim=(0, 1), correction=0, keepdim=True")
    ],
    *[
        (f"x.norm({form})", FLOATS)
        for form in (
            "",
            "2",
            "1",
            "inf, 1",
            "-inf, 0",
            "3, dim=1",
            "p=0.5, dim=2",
            "0, 1",
            "dim=(0, 1)",
            "2, (0, 2), True",
            "dtype=t.float64",
            "-1",
        )
    ],
    ("x.norm()", ("complex64",)),
    ("x.norm(1, 1)", ("complex64",)),
    ("x.norm(3, 1)", ("complex64",)),
    ("t.norm(y, 'fro')", WIDE),
    *[(f"x.logsumexp({form})", FLOATS) for form in ("1", "(0, 2)", "dim=-1, keepdim=True")],
    ("y.logsumexp(1)", ("int64",)),
    *[(f"x.{name}({form})", WIDE) for name in ("nansum", "nanmean") for form in ("", "1", "(0, 1), True")],
    ("x.nansum(1)", ("int64", "int32")),
    *[(f"x.count_nonzero({form})", ALL) for form in ("", "1", "dim=(0, 1)")],
    ("x.sum_to_size(3, 1)", WIDE),
    ("x.dist(y)", WIDE),
    ("x.dist(y, 1)", WIDE),
    ("x.var((), keepdim=True)", ("float16",)),  # its gradient is inf in PyTorch
    ("t.renorm(x, 2, 1, 1.5)", WIDE),
    ("t.renorm(x, 1, -1, 2.5)", WIDE),
    *[(f"x.{name}({form})", FLOATS + ("int64",)) for name in ("median", "nanmedian") for form in ("", "1", "-1, True")],
    *[(f"x.mode({form})", WIDE) for form in ("", "1", "0, keepdim=True")],
    *[
        (f"x.{name}({form})", WIDE)
        for name in ("quantile", "nanquantile")
        for form in (
            "0.3",
            "0.3, 1",
            "t.tensor([0.1, 0.7], dtype=x.dtype), dim=2",
            "t.tensor([0.1, 0.7], dtype=x.dtype)",
            "0.5, -1, True",
        )
    ],
    *[(f"x.quantile(0.4, 1, interpolation='{way}')", WIDE) for way in ("lower", "higher", "midpoint", "nearest")],
    *[(f"x.{name}({form})", ALL) for name in ("cumsum", "cumprod") for form in ("0", "dim=-1", "axis=1")],
    *[(f"x.{name}(1, dtype=t.float64)", REAL) for name in ("cumsum", "cumprod")],
    *[(f"x.{name}({form})", FLOATS + ("int64",)) for name in ("cummax", "cummin") for form in ("0", "dim=-1")],
    *[(f"x.logcumsumexp({form})", WIDE) for form in ("0", "dim=-1")],
    *[(f"t.diff(x{form})", REAL[:-2]) for form in ("", ", 2", ", dim=0", ", 0", ", n=5")],
    ("t.diff(y, prepend=y, append=y, dim=0)", WIDE),
    *[
        (f"t.{name}({form})", WIDE)
        for name in ("trapezoid", "cumulative_trapezoid")
        for form in ("x", "x, dx=0.5, dim=1", "y, v", "x, x, dim=0")
    ],
    ("t.trapz(x)", WIDE),
    *[
        (f"x.sort({form})", FLOATS + ("int64", "int32"))
        for form in ("", "0", "1, True", "dim=-1, descending=True", "stable=True")
    ],
    ("r.sort()", ("float32", "float64", "int64", "int32")),
    ("r.sort(descending=True)", ("float32", "float64", "int64", "int32")),
    *[(f"x.argsort({form})", FLOATS + ("int64",)) for form in ("", "0", "1, True", "descending=True, stable=True")],
    *[(f"x.topk({form})", FLOATS + ("int64",)) for form in ("2", "k=1, dim=0", "3, 1, False", "0")],
    *[(f"r.topk({form})", FLOATS + ("int64",)) for form in ("5", "2, 0", "9, largest=False")],
    *[(f"x.kthvalue({form})", FLOATS + ("int64",)) for form in ("2", "1, 0", "3, dim=1, keepdim=True")],
    ("t.msort(x)", WIDE),
    *[
        (f"s.{form}", WIDE)
        for form in (
            "sum(0)",
            "max(0)",
            "median(0)",
            "sort()",
            "topk(1)",
            "cumsum(0)",
            "prod(-1)",
            "norm(dim=0)",
            "logsumexp(0)",
            "argmax()",
        )
    ],
    *[
        (f"e.{form}", WIDE)
        for form in (
            "sum(0)",
            "sum()",
            "prod(0)",
            "any()",
            "all(0)",
            "logsumexp(0)",
            "norm()",
            "max(1)",
            "sort(0)",
            "cumsum(0)",
            "mean(0)",
        )
    ],
    *[
        (f"t.einsum('{text}', {operands})", (*WIDE, "complex64"))
        for text, operands in [
            ("ijk,kl->ijl", "x, m"),
            ("ijk,jk", "x, y"),
            ("ijk->kji", "x"),
            ("ijk->", "x"),
            ("...k,kl->...l", "x, m"),
            ("i...,...->i...", "x, y"),
            ("jk,jk,k->j", "y, y, v"),
            ("ii->i", "y[:, :3]"),
            ("ii", "y[:, :3]"),
            ("k,l", "v, m[0]"),
            ("Bk,ak", "y, m.T"),
        ]
    ],
    ("t.einsum(x, [0, 1, 2], m, [2, 7], [7, 0])", WIDE),
    ("t.einsum('ij,jk->ik', [y, m])", WIDE),
    ("t.tensordot(x, y, 2)", WIDE),
    ("t.tensordot(x, y, ([2, 1], [1, 0]))", WIDE),
    ("t.tensordot(v, v, 0)", WIDE),
    ("t.inner(x, y)", WIDE),
    ("t.inner(s, y)", WIDE),
    ("t.vdot(v, v)", (*WIDE, "complex64")),
    ("t.dot(v, v)", (*WIDE, "int64")),
    ("t.addmm(m[0], y, m)", WIDE),
    ("m.addmm(m[:, :4], m, beta=0.5, alpha=2)", WIDE),
    ("t.addmv(s, y, v, alpha=3)", WIDE),
    ("t.addr(y, y[:, 0], v, beta=2)", WIDE),
    ("t.baddbmm(v, n, n.transpose(1, 2)[:, :, :4], beta=2)", WIDE),
    ("t.addbmm(v, n, n.transpose(1, 2)[:, :, :4], alpha=2)", WIDE),
    ("t.chain_matmul(y, m, m.T)", WIDE),
    ("t.matrix_power(m[:, :4], 3)", WIDE),
    ("t.trace(m)", (*WIDE, "int64")),
    ("t.cross(x[:, :, 0], x[:, :, 1])", (*WIDE, "complex64")),
    ("t.cross(y, y[:, [1, 2, 3, 0]], dim=0)", WIDE),
    *[
        (f"t.cdist(x, y{form})", WIDE)
        for form in ("", ", p=1", ", p=3.0", ", p=inf", ", compute_mode='use_mm_for_euclid_dist'")
    ],
    *[
        (f"{element} @ {two}", (*WIDE, "int64", "complex64"))
        for element, two in [("y", "m"), ("v", "m"), ("y", "v"), ("x", "m"), ("y", "n.mT"), ("v", "v"), ("v", "n.mT")]
    ],
]


def numbers(dtype):
    """Distinct, well apart, without zeros, the same for both libraries."""
    rng = numpy.random.default_rng(3)
    shapes = {"x": (2, 3, 4), "y": (3, 4), "v": (4,), "m": (4, 5), "n": (3, 5, 4), "s": (), "e": (0, 3), "r": (3, 200)}
    created = {}
    for name, shape in shapes.items():
        count = int(numpy.prod(shape))
        values = rng.permutation(count) - count // 2 + 0.5
        values = values if dtype.startswith("int") else values / max(count, 1) * 4
        kind = numpy.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        if kind.kind == "c":
            values = values + 1j * rng.permutation(count) / max(count, 1)
        if kind.kind == "b":
            values = values > 0
        created[name] = (
            numpy.abs(values).reshape(shape).astype(kind) if kind.kind == "u" else values.reshape(shape).astype(kind)
        )
    return created


def run(library, text, arrays, gradients):
    """(results, gradients by name) of a call."""
    tensors = {}
    for name, array in arrays.items():
        if array.dtype.kind == "V" and library is torch:
            tensor = torch.from_numpy(array.astype(numpy.float32)).bfloat16()
        else:
            tensor = torch.from_numpy(array.copy()) if library is torch else dynograd.tensor(array)
        tensors[name] = tensor.requires_grad_() if gradients else tensor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = eval(text, {"t": library, "inf": inf}, tensors)
    results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    chosen = [each for each in results if each.requires_grad]
    if not chosen:
        return results, {}
    total = 0
    for element in chosen:
        weights = numpy.random.default_rng(9).uniform(-1, 1, tuple(element.shape))
        weights = (
            torch.from_numpy(numpy.asarray(weights)) if library is torch else dynograd.tensor(numpy.asarray(weights))
        )
        # A real function of complex numbers in which both parts matter.
        total = total + (((element + weights).abs() if element.dtype.is_complex else element) * weights).sum()
    total.backward()
    return results, {name: tensor.grad for name, tensor in tensors.items() if tensor.grad is not None}


def as_numpy(tensor):
    tensor = tensor.detach()
    if isinstance(tensor, torch.Tensor):
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).resolve_conj().numpy()
    return tensor.array.astype(numpy.float32) if tensor.array.dtype.kind == "V" else tensor.array


def compare(result, expected, dtype, what):
    assert str(result.dtype).split(".")[-1] == str(expected.dtype).split(".")[-1], (
        f"{what}: {result.dtype} for {expected.dtype}"
    )
    assert tuple(result.shape) == tuple(expected.shape), (
        f"{what}: shape {tuple(result.shape)} for {tuple(expected.shape)}"
    )
    rtol, atol = TOLERANCE.get(dtype, TOLERANCE["float32"])
    numpy.testing.assert_allclose(as_numpy(result), as_numpy(expected), rtol=rtol, atol=atol, err_msg=what)


CASES = [pytest.param(text, dtype, id=f"{text}-{dtype}") for text, dtypes in CALLS for dtype in dtypes]


@pytest.mark.parametrize(("text", "dtype"), CASES)
def test_same_as_torch(text, dtype):
    arrays = numbers(dtype)
    gradients = dtype in ("float32", "float64", "complex64")
    expected, expected_gradients = run(torch, text, arrays, gradients)
    results, found_gradients = run(dynograd, text, arrays, gradients)
    assert len(results) == len(expected)
    for place, (element, other) in enumerate(zip(results, expected, strict=True)):
        compare(element, other, dtype, f"output {place}")
    assert set(found_gradients) >= set(expected_gradients)
    for name, gradient in found_gradients.items():
        if name in expected_gradients:
            compare(gradient, expected_gradients[name], dtype, f"gradient of {name}")
        else:
            assert not as_numpy(gradient).any(), f"PyTorch gives {name} no gradient"


TIES = [
    "x.amax(1)",
    "x.amin((0, 1))",
    "x.max()",
    "x.min()",
    "x.median()",
    "x.norm(inf, 1)",
    "x.cummax(1)[0]",
    "x.cummin(0)[0]",
    "t.maximum(x, x.flip(0))",
    "x.prod(1)",
    "x.prod()",
    "x.cumprod(1)",
    "x.std(1)",
    "x.norm(dim=1)",
    "x.norm(1.5, dim=1)",
    "x.norm(0.5, dim=1)",
    "t.cdist(x, x)",
    "t.cdist(x, x, p=1.0)",
    "x.cummax(1)[1]",
    "x.logsumexp(1)",
]


@pytest.mark.parametrize("text", TIES)
def test_ties_and_zeros_have_torchs_gradients(text):
    arrays = {"x": numpy.array([[0.0, 2.0, 2.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [3.0, 3.0, 3.0]])}
    expected, expected_gradients = run(torch, text, arrays, True)
    result, found_gradients = run(dynograd, text, arrays, True)
    compare(result[0], expected[0], "float64", "output")
    for name, gradient in expected_gradients.items():
        compare(found_gradients[name], gradient, "float64", f"gradient of {name}")


SPECIAL = [
    *[
        f"x.{name}({form})"
        for name in ("sum", "mean", "prod", "amax", "amin", "any", "all", "nansum", "std")
        for form in ("", "1")
    ],
    *[f"x.{name}(1)[0]" for name in ("max", "min", "cummax", "cummin", "median", "nanmedian")],
    *[f"x.{name}(1)[1]" for name in ("max", "min", "cummax", "cummin")],
    *["x.sort(1)[0]", "x.sort(1, True)[0]", "x.topk(2)[0]", "x.topk(2, largest=False)[0]", "x.kthvalue(3)[0]"],
    *[
        "x.argmax()",
        "x.argmin()",
        "x.argmax(1)",
        "x.norm()",
        "x.norm(1, 1)",
        "x.norm(inf, 1)",
        "x.cumsum(1)",
        "x.cumprod(1)",
    ],
    *[
        "x.nanmean(1)",
        "x.count_nonzero(1)",
        "x.quantile(0.5, 1)",
        "x.nanquantile(0.5, 1)",
        "x.logsumexp(1)",
        "x.logcumsumexp(1)",
    ],
]


@pytest.mark.parametrize("text", SPECIAL)
@pytest.mark.parametrize("dtype", WIDE)
def test_nan_and_infinity(text, dtype):
    rows = [[1, nan, 3, nan], [inf, 1, 2, 0], [-inf, 1, inf, 2], [nan] * 4, [-inf, -inf, 0, 1], [1, 2, -inf, 3]]
    arrays = {"x": numpy.array(rows, dtype)}
    expected, _ = run(torch, text, arrays, False)
    result, _ = run(dynograd, text, arrays, False)
    compare(result[0], expected[0], dtype, text)


MISTAKES = [
    "t.zeros(3).sum(3)",
    "t.zeros(3).sum((0, 0))",
    "t.zeros(3).sum(dim='a')",
    "t.arange(3).mean()",
    "t.arange(3).std()",
    "t.arange(3).norm()",
    "t.zeros(2, 3).prod((0, 1))",
    "t.zeros(2, 3).max((0, 1))",
    "t.zeros(2).max(t.zeros(3))",
    "t.zeros(0).max()",
    "t.zeros(0).amax()",
    "t.zeros(2, 0).amax(1)",
    "t.zeros(2, 0).max(1)",
    "t.zeros(0).argmax()",
    "t.zeros(2, 0).argmax(1)",
    "t.zeros(2, 0).median(1)",
    "t.zeros(0).mode()",
    "t.zeros(0).quantile(0.5)",
    "t.arange(3).quantile(0.5)",
    "t.zeros(3).topk(4)",
    "t.zeros(3).kthvalue(0)",
    "t.zeros(3).cumsum()",
    "t.zeros(3).cumsum(1)",
    "t.zeros(3).logsumexp()",
    "t.zeros(0).norm(inf)",
    "t.zeros(2, 3).sum_to_size(3, 3)",
    "t.zeros(3).std(0, True, correction=1)",
    "t.zeros(()).diff()",
    "t.zeros(3).diff(-1)",
    "t.cdist(t.zeros(2, 3), t.zeros(2, 4))",
    "t.arange(3).nanmean()",
    "t.einsum('ij,jk', t.zeros(2, 3))",
    "t.einsum('ij,jk', t.zeros(2, 3), t.zeros(4, 5))",
    "t.einsum('ij->k', t.zeros(2, 3))",
    "t.einsum('i', t.zeros(2, 3))",
    "t.tensordot(t.zeros(2, 3), t.zeros(4, 5), 1)",
    "t.inner(t.zeros(2, 3), t.zeros(2))",
    "t.mm(t.zeros(2, 3), t.zeros(4, 5))",
    "t.bmm(t.zeros(2, 3, 4), t.zeros(3, 4, 5))",
    "t.zeros(2, 3) @ t.zeros(4, 5)",
    "t.zeros(2, 2) @ t.zeros(2, 2, dtype=t.float64)",
    "t.dot(t.zeros(2, 2), t.zeros(2))",
    "t.addmm(t.zeros(3), t.zeros(2, 3), t.zeros(3, 4))",
    "t.matrix_power(t.zeros(2, 3), 2)",
    "t.trace(t.zeros(3))",
    "t.cross(t.zeros(2, 4), t.zeros(2, 4), dim=1)",
    "t.zeros(2, 3).expand(2, 4)",
]


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_raise_what_torch_raises(text):
    raised = []
    for library in (torch, dynograd):
        with pytest.raises(Exception) as caught:
            eval(text, {"t": library, "inf": inf})
        raised.append(caught.value)
    kind = next(
        element for element in (IndexError, TypeError, ValueError, RuntimeError) if isinstance(raised[0], element)
    )
    assert isinstance(raised[1], kind), f"{type(raised[1]).__name__} for {type(raised[0]).__name__}: {raised[1]}"
