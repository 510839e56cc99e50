"""Rows of ops: what an op is compared with, and on which inputs. Each row becomes one test of a dozen or more cases.

In `tests/ops/test_<family>.py`:

    from tests.ops.harness import Row, error, generate

    def np_softmax(input, dim):                       # slow, obvious, float64; never our own code
        shifted = numpy.exp(input - input.max(dim, keepdims=True))
        return shifted / shifted.sum(dim, keepdims=True)

    ROWS = [
        Row("softmax", np_softmax, shapes=[(3, 4)], kwargs={"dim": 1},
            errors=[error(lambda op: op(dynograd.zeros(2, 3), 5), IndexError, "softmax", "dim", "5")]),
        Row("tanh", numpy.tanh, shapes=[(3, 4)]),
        Row("mul", numpy.multiply, shapes=[(3, 4), (3, 4)], broadcast=True, dtypes=FLOATS + INTEGERS),
        Row("relu", lambda x: numpy.maximum(x, 0), shapes=[(3, 4)], avoid=[0.0]),
        Row("log", numpy.log, shapes=[(3, 4)], domain=(0.1, 4)),
        Row("cat", lambda xs, dim: numpy.concatenate(xs, dim), shapes=[[(2, 3), (1, 3)]], kwargs={"dim": 0}),
        Row("gather", np_gather, args=lambda rng: [rng.normal(size=(3, 4)), 1, rng.integers(0, 4, (3, 2))]),
        Row("max", np_max, shapes=[(3, 4)], kwargs={"dim": 1}, result=("same", "int64"), id="dim"),
    ]
    test_rows = generate(ROWS)

`name` is the public name, `dynograd.<name>`. A row counts for the op of that name and for the inner ops named in `covers`. One op may
have several rows; give the further ones an `id`. Beside the table, write the few tests a reader would ask for by name.

**Arguments.** `shapes` has one entry per Tensor argument; a *list* of shapes is an argument that is a list of Tensors. Values are
drawn from `domain`. Where that is not enough, `args(rng)` gives the positional arguments: a NumPy array becomes a Tensor (floating
ones in the case's dtype; integer and bool ones keep theirs), a list of arrays a list of Tensors, anything else (numbers, None,
tuples) is passed as it is. Arrays among `kwargs` become Tensors too. The reference is called with the same arguments, arrays in
their place: floating ones as float64 (complex128, int64, bool), rounded first to the dtype under test. It gives an array, or a
tuple or list of arrays for several outputs; an entry None is not compared.

**What a row becomes** (parts that do not apply to an op are left out by themselves, as far as the registry tells):
forward in each of `dtypes` against the reference, with the result's dtype; strided, reversed and transposed inputs; size-one and
empty inputs; 0-d inputs (elementwise ops); broadcasting both ways and with a Python number (`broadcast`); inputs left untouched;
requires_grad of the result with and without no_grad; method and in-place form equal the function; first and second gradient by
central differences in float64; gradients under create_graph equal to the fast ones; float32 gradients in float32; jvp against central
differences; each of `errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.ops.cases import BOOL, COMPLEX, FLOATS, INTEGERS, cases_of
from tests.support.cases import run_all

__all__ = ["BOOL", "COMPLEX", "FLOATS", "INTEGERS", "Failure", "Row", "error", "generate"]


@dataclass
class Row:
    """One op on one kind of input; see the top of this file.

    Args:
        name: public name of the function (dotted for names below dynograd, as "nn.functional.softmax").
        reference: plain NumPy or SciPy; None when there is nothing to compare with (random ops: then only dtypes, sizes and errors
            are tried).
        shapes: one shape per Tensor argument; a list of shapes for an argument that is a list of Tensors.
        args: instead of `shapes`, `args(rng)` gives the list of positional arguments (arrays become Tensors).
        kwargs: keyword arguments, or a function of rng that gives them; arrays become Tensors.
        domain: (lo, hi) from which values are drawn, or a list with one per Tensor argument; an entry may be
            `function(rng, shape) -> array` (a positive definite matrix, distinct values).
        avoid: values (kinks) that inputs keep 0.1 away from.
        dtypes: forward is tried in each. `FLOATS + INTEGERS + BOOL + COMPLEX` as they apply.
        result: dtype of the output: "same" (the default for ops that are not elementwise), "bool", "int64", ..., or a function of
            the input dtype's name; a tuple for several outputs (None: not checked). Elementwise ops: by their promotion rule.
        grad: whether gradients are tried, or one bool for each floating Tensor argument (lists flattened, keyword Tensors last).
        second: whether the second gradient is tried; that it is zero is no reason to leave it out.
        jvp: whether forward mode is tried.
        broadcast: arguments 0 and 1 broadcast against each other (tried both ways), and numbers may stand for argument 1.
        method: None: the method form is tried when the registry says so; False: not tried; a name: the method's name.
        inplace: None: `name_` is tried when the registry says so; False: not tried.
        empty: None: first dim 0 when all shapes are equal; False: not tried; a list of `shapes` to try instead.
        ones: None: all sizes 1; False: not tried; a list of `shapes` to try instead.
        scalars: None: 0-d inputs are tried for elementwise ops; True or False to say so.
        strided: False for ops that depend on the memory layout.
        tolerance: factor on the usual tolerance, or {dtype name: (rtol, atol)}.
        gradient_tolerance: (rtol, atol) of the checks by differences.
        errors: what `error(...)` gives.
        id: distinguishes rows of one op in test names.
        covers: further registered ops that this row exercises (the inner op of a composed function).
        function: what is called, when it is not `dynograd.<name>`.
    """

    name: str
    reference: Callable[..., Any] | None
    shapes: Sequence[Any] = ()
    args: Callable[[Any], Sequence[Any]] | None = None
    kwargs: dict[str, Any] | Callable[[Any], dict[str, Any]] = field(default_factory=dict)
    domain: Any = (-2.0, 2.0)
    avoid: Sequence[float] = ()
    dtypes: Sequence[str] = FLOATS
    result: Any = None
    grad: bool | Sequence[bool] = True
    second: bool = True
    jvp: bool = True
    broadcast: bool = False
    method: bool | str | None = None
    inplace: bool | None = None
    empty: bool | Sequence[Any] | None = None
    ones: bool | Sequence[Any] | None = None
    scalars: bool | None = None
    strided: bool = True
    tolerance: Any = 1.0
    gradient_tolerance: tuple[float, float] = (1e-4, 1e-6)
    errors: Sequence[Any] = ()
    id: str | None = None
    covers: Sequence[str] = ()
    function: Callable[..., Any] | None = None


@dataclass
class Failure:
    """A call that must fail: which exception, and words of its message."""

    call: Callable[..., Any]
    kind: type[BaseException]
    words: tuple[str, ...]


def error(call: Callable[..., Any], kind: type[BaseException], *words: str) -> Failure:
    """`call(op)`, with `op` the row's function, must raise `kind` with every one of `words` in the message."""
    return Failure(call, kind, words)


def generate(rows: Sequence[Row]) -> Callable[..., None]:
    """The test function of a table: `test_rows = generate(ROWS)`."""
    titles = [row.name if row.id is None else f"{row.name}-{row.id}" for row in rows]
    for number, title in enumerate(titles):
        if title in titles[:number]:
            raise ValueError(f"two rows are called {title!r}; give the second one an id")

    @pytest.mark.parametrize(("title", "row"), list(zip(titles, rows, strict=True)), ids=titles)
    def test_rows(title: str, row: Row) -> None:
        run_all(title, list(cases_of(row)))

    test_rows.rows = tuple(rows)  # type: ignore[attr-defined]
    return test_rows
