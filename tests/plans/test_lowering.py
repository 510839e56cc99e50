"""Launches of lowered calls compute what eager computes, from what lies in memory when they run."""

from __future__ import annotations

import numpy
import pytest

import dynograd
from dynograd.errors import IndexRangeError
from dynograd.kernels.build import threads
from dynograd.kernels.build.bound_calls_numba import Table
from dynograd.plans.calls import Call
from dynograd.plans.lowering import lower
from tests.plans.lowering_forms import FORMS
from tests.plans.lowering_rows import Made, Row, check, run, strided, tensor
from tests.plans.lowering_rows import index as _index
from tests.plans.lowering_rows import mask as MASK
from tests.plans.lowering_rows import of as _of
from tests.plans.lowering_rows import positive as _positive

F, B = "float32", "bool"


UNARY = "relu sigmoid tanh gelu silu exp neg square abs erf mish hardswish".split()
BINARY = "add sub mul div maximum minimum".split()
COMPARED = "lt le gt ge eq ne".split()
DRAWN = [((3, 5), "small"), ((5, 4096), "tiles"), ((70, 301), "large")]

ROWS = [
    *FORMS,
    *[Row(name, _of((3, 5))) for name in UNARY],
    *[Row(name, _of((70, 300)), "large") for name in ("relu", "tanh", "gelu")],
    *[Row(name, _positive((4, 6))) for name in ("log", "sqrt", "rsqrt")],
    *[Row(name, _of((4, 6), (4, 6))) for name in BINARY],
    *[Row(name, _of((4, 6), (6,)), "row") for name in BINARY],
    *[Row(name, _of((4, 1), (3, 1, 6)), "both") for name in ("add", "mul", "div")],
    *[Row(name, _of((2, 3, 4, 5), (3, 1, 1)), "channels") for name in ("add", "mul")],
    *[Row(name, _of((4, 6), numbers=(2.5,)), "number") for name in BINARY],
    *[Row(name, lambda random, dtype: (1.5, tensor(random, dtype, 4, 6)), "of number") for name in ("sub", "div")],
    *[Row(name, _of((4, 6), ()), "0-d") for name in ("add", "mul", "sub")],
    *[Row(name, _of((4, 6), (6,)), rule=False) for name in COMPARED],
    Row("pow", _of((4, 6), numbers=(2,)), "square"),
    Row("pow", _of((4, 6), numbers=(3.0,)), "cube"),
    Row("clamp", _of((4, 6), numbers=(-1.0, None)), "min"),
    Row("clamp", _of((4, 6), numbers=(-1.0, 1.0)), "both"),
    Row("mul", lambda r, d: (strided(tensor(r, d, 5, 40, 30), (2, 0, 1)), tensor(r, d, 5, 40, 30)), "turned"),
    Row("add", lambda r, d: (strided(tensor(r, d, 2, 3, 8, 9), (0, 2, 3, 1)), tensor(r, d, 3, 1, 1)), "channels last"),
    Row("add", lambda r, d: (tensor(r, d, 6, 8)[:, ::2], tensor(r, d, 6, 4)), "every second"),
    Row("where", lambda r, d: (MASK(r, 4, 6), tensor(r, d, 4, 6), tensor(r, d, 6))),
    Row("where", lambda r, d: (MASK(r, 4, 1), tensor(r, d, 4, 6), 0.0), "number"),
    Row("logical_and", lambda r, d: (MASK(r, 4, 6), MASK(r, 6)), dtypes=(F,), rule=False),
    Row("logical_not", lambda r, d: (MASK(r, 4, 6),), dtypes=(F,), rule=False),
    Row("add", lambda r, d: (_index(r, 9, 4, 6), _index(r, 9, 6)), "int64", (F,), False),
    Row("mul", lambda r, d: (tensor(r, d, 4, 6), MASK(r, 4, 1)), "mask"),
    Row("div", lambda r, d: (tensor(r, d, 4, 6), _index(r, 9, 4, 1) + 1), "by int64"),
    *[Row("dropout", _of(shape, numbers=(shape, 0.3, (5, 77))), name, (F,)) for shape, name in DRAWN],
    *[Row("dropout_add", _of(shape, shape, numbers=(0.3, (5, 77))), name, (F,)) for shape, name in DRAWN],
    Row("dropout", _of((6, 7), numbers=((6, 7), 1.0, (5, 77))), "all", (F,)),
    Row("dropout", _of((3, 5, 4, 6), numbers=((3, 5, 1, 1), 0.3, (5, 77))), "channels", (F,)),
    Row("dropout", lambda r, d: (strided(tensor(r, d, 5, 40, 30), (2, 0, 1)), (5, 40, 30), 0.3, (5, 77)), "turned", (F,)),
    # products
    Row("matmul", _of((3, 4), (4, 5))),
    Row("matmul", _of((70, 90), (90, 110)), "large"),
    Row("matmul", _of((2, 3, 4), (2, 4, 5)), "batch"),
    Row("matmul", _of((2, 3, 3, 4), (3, 4, 5)), "broadcast"),
    Row("matmul", _of((2, 3, 4), (4, 5)), "one right"),
    Row("matmul", _of((4,), (4, 5)), "vector left"),
    Row("matmul", _of((3, 4), (4,)), "vector right"),
    Row("matmul", _of((4,), (4,)), "dot"),
    Row("matmul", lambda r, d: (strided(tensor(r, d, 3, 4), (1, 0)), strided(tensor(r, d, 4, 5), (1, 0))), "turned"),
    Row("matmul", lambda r, d: (tensor(r, d, 3, 8)[:, ::2], tensor(r, d, 4, 5)), "every second"),
    Row("linear", _of((3, 4), (5, 4), (5,))),
    Row("linear", _of((3, 4), (5, 4), numbers=(None,)), "no bias"),
    Row("linear", _of((64, 96), (130, 96), (130,)), "large"),
    Row("linear", _of((2, 3, 4), (5, 4), (5,)), "batch"),
    Row("linear", _of((4,), (5, 4), (5,)), "vector"),
    # sums
    *[Row(name, _of((4, 6))) for name in ("sum", "mean")],
    *[Row(name, _of((3, 4, 5), numbers=(dim, keep)), f"{dim}{keep}") for name in ("sum", "mean") for dim in (0, 1, -1, (0, 2), (1, 2)) for keep in (False, True)],
    *[Row(name, _of((40, 1000))) for name in ("sum", "mean")],
    *[Row(name, _of((1000, 40), numbers=(0,)), "columns") for name in ("sum", "mean")],
    *[Row(name, _of((300, 300), numbers=(1,)), "rows") for name in ("sum", "mean")],
    Row("sum", lambda r, d: (strided(tensor(r, d, 5, 6, 7), (2, 0, 1)), 1), "turned"),
    Row("sum_to", _of((3, 4, 5), numbers=((4, 1),))),
    Row("sum_to", _of((3, 4, 5), numbers=((1, 5),)), "both"),
    # movements
    Row("clone", _of((3, 4))),
    Row("clone", lambda r, d: (strided(tensor(r, d, 30, 40), (1, 0)),), "turned"),
    Row("to_copy", lambda r, d: (_index(r, 9, 4, 6), getattr(dynograd, d)), "int64", rule=False),
    Row("to_copy", lambda r, d: (tensor(r, d, 40, 60), dynograd.float64 if d == F else dynograd.float32)),
    Row("view", lambda r, d: (strided(tensor(r, d, 3, 4, 5), (2, 0, 1)), (12, 5)), "copies"),
    Row("view", _of((3, 4), numbers=((12,),)), rule=False),
    Row("expand", _of((3, 1), numbers=((2, 3, 4),))),
    Row("permute", _of((3, 4, 5), numbers=((2, 0, 1),))),
    Row("cat", lambda r, d: ([tensor(r, d, 3, 4), tensor(r, d, 2, 4)], 0)),
    Row("cat", lambda r, d: ([tensor(r, d, 3, 4), tensor(r, d, 3, 2), tensor(r, d, 3, 1)], -1), "columns"),
    Row("stack", lambda r, d: ([tensor(r, d, 3, 4), tensor(r, d, 3, 4)], 0)),
    Row("stack", lambda r, d: ([tensor(r, d, 3, 4), tensor(r, d, 3, 4)], -1), "last"),
    Row("stack", lambda r, d: ([tensor(r, d), tensor(r, d)], 0), "0-d"),
    Row("unbind", _of((3, 4), numbers=(1,))),
    Row("split_with_sizes", _of((7, 4), numbers=((2, 1, 4), 0))),
    Row("basic_index", _of((5, 6), numbers=((slice(1, 4), slice(None, None, 2)),))),
    Row("basic_index", _of((5, 6), numbers=((2, Ellipsis),)), "row"),
    Row("basic_fill", _of((3, 6), numbers=((5, 6), (slice(1, 4),)))),
    # rows and columns by index
    Row("embedding", lambda r, d: (tensor(r, d, 9, 5), _index(r, 9, 4, 3), None, False)),
    Row("embedding", lambda r, d: (tensor(r, d, 9, 50), _index(r, 9, 400), 2, False), "padding"),
    Row("embedding", lambda r, d: (tensor(r, d, 200, 64), _index(r, 200, 4000), None, False), "large"),
    Row("index", lambda r, d: (tensor(r, d, 9, 5), [_index(r, 9, 7) - 3], (0,))),
    Row("index", lambda r, d: (tensor(r, d, 3, 9, 5), [_index(r, 9, 7)], (slice(None), 0)), "dim 1"),
    *[
        Row("index", lambda r, d, x=x, places=places, lead=lead: (
            tensor(r, d, *x),
            [_index(r, 2 * size, *shape) - size for size, shape in zip(x[len(lead) :], places)],
            (*lead, *range(len(places)))), f"{x}{places}")
        for x, places, lead in [
            ((9, 5), [(7,), (7,)], ()), ((9, 5, 4), [(7,), (7,)], ()), ((3, 9, 5), [(7, 1), (4,)], (slice(None),)),
            ((4, 3, 5, 2), [(6,), (6,), (6,)], ()), ((200, 300), [(4000,), (4000,)], ()),
        ]
    ],
    Row("index", lambda r, d: (strided(tensor(r, d, 9, 5), (1, 0)), [_index(r, 9, 7), _index(r, 5, 7)], (0, 1)), "turned"),
    Row("index_backward", lambda r, d: (tensor(r, d, 7), [_index(r, 9, 7), _index(r, 5, 7)], (0, 1), (9, 5)), rule=False),
    Row("index_backward", lambda r, d: (tensor(r, d, 7, 5), [_index(r, 9, 7)], (0,), (9, 5)), "1", rule=False),
    Row("index_put_at", lambda r, d: (tensor(r, d, 9, 5), tensor(r, d, 4, 5), [dynograd.tensor(r.permutation(9)[:4])], (0,), False)),
    Row("index_put_at", lambda r, d: (tensor(r, d, 9, 5), tensor(r, d, 7, 5), [_index(r, 9, 7)], (0,), True), "add"),
    *[
        Row("index_put_at", lambda r, d, shape=shape, add=add: (
            tensor(r, d, 3, 9, 5), tensor(r, d, *shape), [_index(r, 9, 7) - 4, _index(r, 5, 7)], (slice(None), 0, 1), add), f"two, {shape}, {add}")
        for shape, add in [((3, 7), False), ((7,), False), ((1, 1, 7), False), ((3, 1), False), ((), False), ((3, 7), True), ((7,), True), ((), True)]
    ],
    Row("index_put_at", lambda r, d: (tensor(r, d, 9, 5), tensor(r, d, 2, 3, 5), [_index(r, 9, 6).reshape(2, 3)], (0,), False), "a matrix of places"),
    Row("index_put_at", lambda r, d: (tensor(r, d, 4, 3, 5), None, [_index(r, 4, 7), _index(r, 3, 7), _index(r, 5, 7)], (0, 1, 2), False), "zeros"),
    Row("index_put_at", lambda r, d: (tensor(r, d, 9, 5), tensor(r, d, 3, 2), [_index(r, 9, 3)[:, None], _index(r, 5, 2)], (0, 1), False), "rows and columns"),
    # rows
    *[Row(name, _of((5, 7), numbers=(-1,))) for name in ("softmax", "log_softmax")],
    *[Row(name, _of((3, 50, 7), numbers=(1,)), "inner") for name in ("softmax", "log_softmax")],
    *[Row(name, _of((40, 300), numbers=(1,)), "large") for name in ("softmax", "log_softmax")],
    Row("layer_norm", _of((6, 8), (8,), (8,), numbers=(1, 1e-5))),
    Row("layer_norm", _of((6, 8), numbers=(None, None, 1, 1e-5)), "plain"),
    Row("layer_norm", _of((600, 96), (96,), (96,), numbers=(1, 1e-5)), "large"),
    Row("rms_norm", _of((6, 8), (8,), numbers=(1, 1e-5))),
    *[
        Row("cross_entropy", lambda r, d, reduction=reduction, smooth=smooth, n=n: (
            tensor(r, d, n, 7), _index(r, 7, n), None, 3, smooth, reduction, True), f"{reduction} {smooth} {n}")
        for reduction in ("mean", "sum") for smooth in (0.0, 0.1) for n in (5, 500)
    ],
    *[
        Row(f"{name}_in_one_pass", _of((n, 9), (n, 9), numbers=(0.5, reduction)), f"{reduction} {n}", (F,))
        for name in ("mse", "l1", "smooth_l1", "huber", "binary_cross_entropy_with_logits")
        for reduction in ("mean", "sum") for n in (100, 2000)
    ],
    Row("cross_entropy", lambda r, d: (tensor(r, d, 7), _index(r, 7), None, -100, 0.0, "mean", True), "one"),
    *[
        Row("cross_entropy", lambda r, d, x=x, reduction=reduction, smooth=smooth, ahead=ahead: (
            tensor(r, d, *x), _index(r, x[1], x[0], *x[2:]), None, 3, smooth, reduction, ahead), f"{x} {reduction} {smooth} {ahead}", rule=reduction != "none")
        for x, reduction, smooth, ahead in [
            ((2, 7, 30), "mean", 0.0, True), ((2, 7, 4, 5), "mean", 0.0, False), ((3, 7, 40, 50), "sum", 0.0, True), ((3, 7, 4, 5), "mean", 0.2, True),
            ((2, 7, 4, 5), "none", 0.0, False), ((6, 7, 1, 1), "mean", 0.0, True),
        ]
    ],
    Row("cross_entropy", lambda r, d: (strided(tensor(r, d, 2, 7, 4, 5), (0, 2, 3, 1)), _index(r, 7, 2, 4, 5), tensor(r, d, 7, grad=False).abs(), -100, 0.0, "mean", True), "channels last"),
    Row("nll_loss", lambda r, d: (tensor(r, d, 2, 7, 4, 5), _index(r, 7, 2, 4, 5), None, 3, "mean"), "places"),
    Row("cross_entropy", lambda r, d: (tensor(r, d, 50, 7), _index(r, 7, 50), tensor(r, d, 7, grad=False).abs(), -100, 0.0, "mean", False), "weights"),
]  # fmt: skip
CASES = [
    pytest.param(row, dtype, kind, id=f"{row.id}-{dtype}-{kind}")
    for row in ROWS
    for dtype in row.dtypes
    for kind in (("op", "rule") if row.rule else ("op",))
]


@pytest.mark.parametrize("row, dtype, kind", CASES)
def test_launches_are_the_call(row, dtype, kind):
    check(row, dtype, kind)


PICKED = [
    *[Row("sort", _of((4, 6), numbers=(dim, dim == 0)), f"{dim}") for dim in (0, 1)],
    *[Row("topk", _of((4, 6), numbers=(2, dim, True, True)), f"{dim}") for dim in (0, 1)],
    *[Row("kthvalue", _of((4, 6), numbers=(2, 1, keep)), f"{keep}") for keep in (False, True)],
    *[Row("median", _of((4, 6), numbers=(1, keep, False)), f"{keep}") for keep in (False, True)],
]


@pytest.mark.parametrize("row", PICKED, ids=lambda row: row.id)
def test_gradients_of_what_sorting_has_picked(row):
    check(row, F, "rule")


def test_sum_of_gradients_goes_into_its_own_memory():
    first, second = numpy.arange(6.0).reshape(2, 3), numpy.ones((2, 3))
    total = numpy.full((2, 3), numpy.nan)
    run(lower(Call("sum", "sum", None, (first, second), (total,), (), lambda: [first + second])))
    numpy.testing.assert_array_equal(total, first + second)


class _Deferred:
    def __init__(self, key):
        self.key = key


def test_deferred_sums_of_products_and_of_tables():
    random = numpy.random.default_rng(0)
    rows, others = [random.standard_normal((n, 3)) for n in (2, 1)], [random.standard_normal((n, 4)) for n in (2, 1)]
    out = numpy.full((3, 4), numpy.nan)
    operands = (rows[0], others[0], rows[1], others[1])
    run(lower(Call("deferred", "deferred", None, operands, (out,), (), _Deferred("linear"))))
    numpy.testing.assert_allclose(out, rows[0].T @ others[0] + rows[1].T @ others[1], rtol=1e-12)
    places, table = [numpy.array([1, 4]), numpy.array([1])], numpy.full((5, 3), numpy.nan)
    operands = (rows[0], places[0], rows[1], places[1])
    run(lower(Call("deferred", "deferred", None, operands, (table,), (), _Deferred(("embedding", 5, 4)))))
    expected = numpy.zeros((5, 3))
    expected[1] = rows[0][0] + rows[1][0]
    numpy.testing.assert_allclose(table, expected, rtol=1e-12)


def test_accumulation_adds_to_what_is_there():
    grad, g = numpy.arange(6.0).reshape(2, 3), numpy.ones((2, 3))
    expected = grad + g
    run(lower(Call("accumulate", "accumulate", None, (grad, g), (grad,), (), lambda: [grad + g])))
    numpy.testing.assert_array_equal(grad, expected)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("source", ["plain", "stride 0", "backwards", "every second"])
def test_copies_between_any_layouts(order, source):
    whole = numpy.arange(2.0 * 3 * 8).reshape(2, 3, 8)
    views = {
        "plain": whole,
        "stride 0": numpy.broadcast_to(whole[:, :1], (2, 3, 8)),
        "backwards": whole[:, ::-1, ::-1],
        "every second": numpy.arange(2.0 * 3 * 16).reshape(2, 3, 16)[..., ::2],
    }
    array = views[source]
    target = numpy.full([array.shape[axis] for axis in order], numpy.nan).transpose(numpy.argsort(order))
    run(lower(Call("copy", "copy", None, (array,), (target,), (), lambda: [array])))
    numpy.testing.assert_array_equal(target, array)


def test_an_index_outside_raises_what_eager_raises():
    created = Made(Row("embedding", lambda r, d: (tensor(r, d, 9, 5), dynograd.tensor([1, 2]), None, False)), F, 1)
    lowered = lower(created.call)
    run(lowered)
    created.call.inputs[1][1] = 9
    with pytest.raises((IndexRangeError, IndexError), match="9"):
        run(lowered)
    created.call.inputs[1][1] = 8
    run(lowered)


@pytest.mark.parametrize(("place", "wrong"), [(0, 9), (0, -10), (1, 5), (1, -6)])
def test_each_of_several_indices_is_checked(place, wrong):
    created = Made(
        Row("index", lambda r, d: (tensor(r, d, 9, 5), [dynograd.tensor([1, 2]), dynograd.tensor([0, 4])], (0, 1))),
        F,
        1,
    )
    lowered = lower(created.call)
    run(lowered)
    created.call.inputs[1 + place][1] = wrong
    with pytest.raises((IndexRangeError, IndexError), match=str(wrong)):
        run(lowered)
    created.call.inputs[1 + place][1] = -1
    run(lowered)
    created.call.inputs[1 + place][1] = wrong
    Table(lowered, threads.get_num_threads()).run()  # the kernels leave it out


def test_what_has_no_form_stays_in_python():
    half = Made(Row("add", lambda r, d: (tensor(r, F, 3).half(), tensor(r, F, 3).half())), F, 1)
    assert lower(half.call) is None
    zeros = Made(Row("remainder", lambda r, d: (_index(r, 9, 5), _index(r, 9, 5) + 1)), F, 1)
    assert lower(zeros.call) is None  # eager raises where a divisor is 0
    mixed = Made(Row("add", lambda r, d: (tensor(r, F, 3), tensor(r, "float64", 3))), F, 1)
    assert lower(mixed.call) is None


@pytest.mark.parametrize(
    "name, shapes, numbers",
    [
        ("dropout", [(70, 301)], ((70, 301), 0.3)),
        ("dropout", [(70, 3, 10)], ((70, 3, 1), 0.3)),
        ("dropout_add", [(9, 9)] * 2, (0.3,)),
        ("scaled_dot_product_attention", [(2, 4, 64, 32)] * 3, (None, True, 0.2, 0.5)),
    ],
)
def test_a_draw_begins_at_the_place_that_the_step_says(name, shapes, numbers):
    first, second = (5, 77), (6, 1 << 40)
    created, other = (Made(Row(name, _of(*shapes, numbers=(*numbers, key))), F, 1) for key in (first, second))
    lowered = lower(created.call)
    lowered.draw[...] = second
    run(lowered)
    numpy.testing.assert_array_equal(created.call.outputs[0], other.call.outputs[0])
    if name.startswith("dropout"):
        numpy.testing.assert_array_equal(created.node.mask, other.node.mask)
    lowered.draw[...] = first
    run(lowered)
    assert (created.call.outputs[0] != other.call.outputs[0]).any()
