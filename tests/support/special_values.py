"""Numbers at the edges of every float dtype, run through elementwise ops, and what may differ between two results.

Classes of results: NaN, infinity with its sign, zero with its sign, any other number with its sign.
"""

import itertools

import numpy

import dynograd

STATICS = {
    "eps": -1.0, "negative_slope": 0.1, "alpha": 1.2, "scale": 1.1, "input_scale": 0.9, "beta": 1.5, "threshold": 0.4,
    "exponent": 3, "nan": 0.5, "posinf": 3.0, "neginf": -3.0, "n": 1, "min": -0.5, "max": 0.75, "value": 0.5,
    "min_val": -0.5, "max_val": 0.75, "lambd": 0.5, "decimals": 1,
}  # fmt: skip
FLOATS = ("float32", "float64", "bfloat16", "float16")
TOLERANCES = {"float32": 2e-5, "float64": 1e-10, "bfloat16": 2e-2, "float16": 4e-3}
# Around the ends of domains and the kinks of the ops, with STATICS.
_ORDINARY = (1.0, 0.5, 3.0, 2.0, 20.0, 0.75, 100.0, 6.0, 1e20, 0.25, 9.0)
_FEWER = (1.0, 0.5, 3.0, 20.0)
_FEWEST = (1.0, 2.0)


def numbers(dtype: str, operands: int) -> list[float]:
    """Zeros, denormal, smallest, largest and infinite numbers of both signs, NaN, and ordinary ones; fewer where they are combined."""
    info = dynograd.finfo(getattr(dynograd, dtype))
    edges = [0.0, info.smallest_normal * info.eps * 3, info.smallest_normal, info.max, numpy.inf]
    ordinary = {1: _ORDINARY, 2: _FEWER, 3: _FEWEST}[operands]
    signed = [*edges, *[value for value in ordinary if value <= info.max]]
    return [numpy.nan, *signed, *[-value for value in signed]]


def operands_of(op, dtype: str) -> list[numpy.ndarray]:
    """All combinations of the numbers as float64, one array for each operand."""
    count = len(op.array_names)
    columns = [
        numpy.array(column) for column in zip(*itertools.product(numbers(dtype, count), repeat=count), strict=True)
    ]
    if "n" in op.array_names:  # a degree: so many steps for each element
        degrees = columns[op.array_names.index("n")]
        degrees[numpy.isfinite(degrees) & (abs(degrees) > 100)] = 100.0
    return columns


def results_of(library, function, op, operands, dtype: str, times: int = 1) -> dict[str, numpy.ndarray]:
    """`forward`, and for each operand with a derivative `gradient INDEX` for g = 2, as float64; `times`: operands repeated so often."""
    statics = [STATICS[name] for name in op.static_names]
    tensors = [library.tensor(numpy.tile(x, times)).to(getattr(library, dtype)) for x in operands]
    if op.promote == "select":
        tensors[0] = tensors[0] > 0
    found = {"forward": _wide(library, function(*tensors, *statics))}
    wanted = [index for index, text in enumerate(op.derivative or ()) if text]
    if not wanted:
        return found
    leaves = [x.clone().requires_grad_() if index in wanted else x for index, x in enumerate(tensors)]
    result = function(*leaves, *statics)
    if not result.requires_grad:  # PyTorch has no derivative of this one
        return found
    gradients = library.autograd.grad(
        result, [leaves[index] for index in wanted], library.full_like(result, 2.0), allow_unused=True
    )
    for index, gradient in zip(wanted, gradients, strict=True):
        found[f"gradient {index}"] = numpy.zeros(result.shape) if gradient is None else _wide(library, gradient)
    return found


def _wide(library, tensor):
    return tensor.detach().to(library.float64).numpy()


def differences(found, expected, dtype: str) -> dict[str, numpy.ndarray]:
    """Where two results differ, by kind: `sign of zero`, `NaN there` (in `expected` alone), `infinity here`, `zero there`, `sign`, `value`.

    A number below the normal ones may stand for zero.
    """
    info = dynograd.finfo(getattr(dynograd, dtype))
    least = 4 * info.smallest_normal
    kinds = {}
    for name, test in (("NaN", numpy.isnan), ("infinity", numpy.isinf), ("zero", lambda x: numpy.abs(x) < least)):
        here, there = test(found), test(expected)
        kinds[f"{name} here"], kinds[f"{name} there"] = here & ~there, there & ~here
    numeric = ~numpy.isnan(found) & ~numpy.isnan(expected)
    signs = numeric & (numpy.signbit(found) != numpy.signbit(expected))
    kinds["sign of zero"] = signs & (found == 0) & (expected == 0)
    kinds["sign"] = signs & ((numpy.abs(found) >= least) | (numpy.abs(expected) >= least))
    finite = numpy.isfinite(found) & numpy.isfinite(expected) & ~kinds["sign"]
    with numpy.errstate(all="ignore"):
        apart = numpy.abs(found - expected) > TOLERANCES[dtype] * numpy.abs(expected) + least
    kinds["value"] = finite & apart & ~kinds["zero here"] & ~kinds["zero there"]
    return {name: where for name, where in kinds.items() if where.any()}


def told(operands, found, expected, where) -> str:
    """The first of the places, for messages."""
    return "; ".join(
        f"({', '.join(f'{x[at]:g}' for x in operands)}): {found[at]:g}, expected {expected[at]:g}"
        for at in numpy.flatnonzero(where)[:4]
    )
