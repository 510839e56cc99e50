"""Reductions over segments, against loops over slices."""

import numpy
import pytest

import dynograd
from dynograd.autograd import grad
from dynograd.func import grad as grad_of
from dynograd.func import vmap
from dynograd.kernels.build import threads
from dynograd.kernels.segment import segments_cpu
from dynograd.ops.op import registry
from dynograd.ops.segment.segments import segment_spread
from tests.ops.harness import Row, error, generate

NEUTRAL = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -numpy.inf, "min": numpy.inf}
FOLD = {"sum": numpy.sum, "mean": numpy.sum, "prod": numpy.prod, "max": numpy.max, "min": numpy.min}


def np_segment(rows, reduce, initial):
    """One segment, (L, ...)."""
    with numpy.errstate(all="ignore"):
        found = FOLD[reduce](rows, axis=0, initial=NEUTRAL[reduce] if initial is None else initial)
        if reduce == "mean" and (len(rows) or initial is None):
            found = found / len(rows)
    return found


def np_segment_reduce(data, reduce, *, lengths=None, offsets=None, axis=0, unsafe=False, initial=None):
    axis %= data.ndim
    if offsets is None:
        offsets = numpy.concatenate([numpy.zeros_like(lengths[..., :1]), lengths.cumsum(-1)], -1)
    shape = (*data.shape[:axis], offsets.shape[-1] - 1, *data.shape[axis + 1 :])
    made = numpy.empty(shape)
    for outer in numpy.ndindex(*data.shape[:axis]):
        for number, (first, last) in enumerate(zip(offsets[outer][:-1], offsets[outer][1:], strict=True)):
            made[(*outer, number)] = np_segment(data[outer][first:last], reduce, initial)
    return made


def row(reduce, kind, data=(7, 2), id="", axis=0, initial=None, domain=None, **bounds):
    given = {name: numpy.array(value) for name, value in bounds.items()}
    options = {} if initial is None else {"initial": initial}

    def function(data, *bounds):
        return dynograd.segment_reduce(data, reduce, axis=axis, **options, **dict(zip(given, bounds, strict=True)))

    def reference(data, *bounds):
        return np_segment_reduce(data, reduce, axis=axis, **options, **dict(zip(given, bounds, strict=True)))

    def args(rng):
        size = int(numpy.prod(data))
        values = rng.permutation(size).reshape(data) / 3 - size / 7  # no ties, and no zero
        return [values if kind == "distinct" else rng.normal(size=data), *given.values()]

    covers = {"sum": "segment_sum", "mean": "segment_spread", "prod": "segment_product"}
    return Row(
        "segment_reduce", reference, args=args, function=function, id=f"{reduce} {id}".strip(),
        covers=[covers.get(reduce, "segment_extreme")], gradient_tolerance=(2e-4, 1e-5),
    )  # fmt: skip


x, three = dynograd.ones(7), dynograd.tensor([2, 1, 4])


def refused(*words, kind=RuntimeError, data=x, reduce="sum", **options):
    return error(lambda op: dynograd.segment_reduce(data, reduce, **options), kind, "segment_reduce", *words)


ERRORS = [
    refused("max or min", "'most'", reduce="most", lengths=three),
    refused("lengths or offsets", "neither"),
    refused("indices", "scatter_reduce", kind=NotImplementedError, indices=three),
    refused("6", "got 7", "unsafe=True", kind=IndexError, data=x[:6], lengths=three),
    refused("lengths", "0 to 7", "got -1", "[0]", kind=IndexError, lengths=dynograd.tensor([-1, 8])),
    refused("offsets", "0 to 7", "got 9", "[2]", kind=IndexError, offsets=dynograd.tensor([0, 4, 9])),
    refused("fall", "got -2", kind=IndexError, offsets=dynograd.tensor([0, 4, 2, 7])),
    refused("(2, 'S')", "got (2,)", data=dynograd.ones(2, 3), lengths=dynograd.tensor([1, 2]), axis=1),
    refused("0-dim", "reshape(1)", data=dynograd.tensor(1.0), lengths=three),
    refused("floating", "int64", data=x.long(), lengths=three),
    refused("integer", "float32", ".long()", lengths=three.float()),
    refused("must be Tensor", "list", "tensor([2, 5])", kind=TypeError, lengths=[2, 5]),
    refused("[-1, 0]", "got 3", kind=IndexError, lengths=three, axis=3),
]

ROWS = [
    row("sum", "any", lengths=[2, 0, 5]),
    row("sum", "any", (7,), "offsets", offsets=[0, 2, 2, 7]),
    row("sum", "any", (7,), "offsets that leave rows out", offsets=[1, 3, 6]),
    row("sum", "any", (2, 3, 2), "axis 1", axis=1, lengths=[[1, 2], [3, 0]], initial=2),
    row("mean", "any", (7,), lengths=[2, 4, 1]),
    row("mean", "any", (7,), "initial", lengths=[2, 0, 5], initial=1.5),
    row("mean", "any", (2, 3), "last axis", axis=-1, offsets=[[0, 1, 3], [0, 2, 3]]),
    row("max", "distinct", (7,), lengths=[2, 1, 4]),
    row("max", "distinct", (7, 3), "initial", lengths=[2, 0, 5], initial=0.25),
    row("min", "distinct", (7, 3), lengths=[2, 1, 4]),
    row("min", "distinct", (7,), "initial", lengths=[2, 0, 5], initial=0.25),
    row("prod", "any", (9,), lengths=[2, 0, 6, 1]),
    row("prod", "any", (7, 3), "initial", lengths=[2, 0, 5], initial=2),
]
ROWS[0].errors = ERRORS


def of_each(fold, kind=float):
    """A reference that folds each segment alone; segments may leave rows out."""

    def reference(values, starts, ends, *options):
        made = numpy.zeros(values.shape, kind)
        for first, last in zip(starts, ends, strict=True):
            made[first:last] = fold(values[first:last], *options)
        return made

    return reference


def np_cumsum(rows, backwards=False):
    return rows[::-1].cumsum(0)[::-1] if backwards else rows.cumsum(0)


def np_softmax(rows):
    powers = numpy.exp(rows - rows.max(0, initial=-numpy.inf))
    return powers / powers.sum(0)


def bounded(name, reference, shape, starts, ends, *options):
    """A row of an op on (M, D) values and bounds."""
    function = registry[name].function
    bounds = [numpy.array(starts), numpy.array(ends)]
    return Row(name, of_each(reference), function=function, args=lambda rng: [rng.normal(size=shape), *bounds, *options],
               dtypes=("float32", "float64"), strided=False, id=f"{shape} {options}")  # fmt: skip


ROWS += [
    bounded("segment_cumsum", np_cumsum, (7, 3), [0, 2, 2], [2, 2, 7]),
    bounded("segment_cumsum", np_cumsum, (7, 1), [0, 3], [2, 7], True),
    bounded("segment_softmax", np_softmax, (7, 3), [0, 2, 2], [2, 2, 7]),
    bounded("segment_softmax", np_softmax, (7, 1), [0, 3], [3, 7]),
]


def np_squares(rows, centered=False):
    return ((rows - rows.mean(0) if centered and len(rows) else rows) ** 2).sum(0)


def np_recurrence(rows, decay, backwards):
    made, held = numpy.zeros_like(rows), 0
    order = range(len(rows))
    for k in reversed(order) if backwards else order:
        made[k] = held = rows[k] + decay[k] * held
    return made


def np_moved(rows, step, fill=0.0):
    made = numpy.full_like(rows, fill)
    for k in range(len(rows)):
        if 0 <= k - step < len(rows):
            made[k] = rows[k - step]
    return made


def np_places(rows, how, k=0):
    """Places in each column, (how many, D)."""
    order = numpy.argsort(rows, 0, kind="stable")
    if how in ("descending", "largest"):
        order = numpy.argsort(-rows, 0, kind="stable")
    if how in ("max", "min"):
        return (rows if how == "max" else -rows).argmax(0)[None] if len(rows) else numpy.zeros((1, rows.shape[1]), int)
    if how in ("cummax", "cummin"):
        sign = 1 if how == "cummax" else -1
        found = [[i - (sign * column[: i + 1])[::-1].argmax() for i in range(len(rows))] for column in rows.T]
        return numpy.array(found, int).reshape(rows.shape[1], len(rows)).T
    if how in ("kth", "median", "nanmedian"):
        return order[k if how == "kth" else (len(rows) - 1) // 2][None]
    return order[:k] if how in ("largest", "smallest") else order


def np_pick(values, places, starts, ends, per=0):
    made = numpy.zeros((len(places), values.shape[1]))
    for number, (first, last) in enumerate(zip(starts, ends, strict=True)):
        own = slice(number * per, (number + 1) * per) if per else slice(first, last)
        made[own] = numpy.take_along_axis(values[first:last], places[own], 0)
    return made


def np_put(g, places, starts, ends, per, rows):
    made = numpy.zeros((rows, g.shape[1]))
    for number, (first, last) in enumerate(zip(starts, ends, strict=True)):
        own = slice(number * per, (number + 1) * per) if per else slice(first, last)
        for place, given in zip(places[own], g[own], strict=True):
            made[first + place, range(g.shape[1])] += given
    return made


def of_one(fold):
    """A reference that makes one row, or several, of each segment."""
    return lambda values, starts, ends, *options: numpy.concatenate(
        [numpy.atleast_2d(fold(values[first:last], *options)) for first, last in zip(starts, ends, strict=True)]
    )


def each_row(name, reference, args, **options):
    return Row(
        name,
        reference,
        function=registry[name].function,
        args=args,
        dtypes=("float32", "float64"),
        strided=False,
        **options,
    )


def values_and(*rest, shape=(7, 3)):
    """Numbers without ties or zeros, and what else an op takes."""
    size = int(numpy.prod(shape))
    return lambda rng: [rng.permutation(size).reshape(shape) / size - 0.51, *rest]


def np_logsumexp(rows):
    return numpy.logaddexp.reduce(rows, 0)


def np_recurrences(values, decay, starts, ends, backwards):
    made = numpy.zeros_like(values)
    for first, last in zip(starts, ends, strict=True):
        made[first:last] = np_recurrence(values[first:last], decay[first:last], backwards)
    return made


def np_combined(values, g, starts, ends, how):
    spread = numpy.repeat(g, ends - starts, 0)
    return {"add": numpy.add, "mul": numpy.multiply, "div": numpy.divide}[how](values, spread)


EACH = ("ascending", "descending", "cummax", "cummin")
PLACES = dict.fromkeys([*EACH, "max", "min", "median", "nanmedian"], 0) | {"largest": 2, "smallest": 2, "kth": 1}
BOUNDS = numpy.array([0, 2, 2]), numpy.array([2, 2, 7])
APART = numpy.array([0, 3]), numpy.array([2, 7])
FOUR = numpy.array([[0, 3, 1], [1, 0, 0], [2, 2, 3], [0, 1, 1]])

ROWS += [
    each_row("segment_squares", of_one(np_squares), values_and(*BOUNDS), id="from 0"),
    each_row("segment_squares", of_one(np_squares), values_and(*BOUNDS, True), id="from the mean"),
    each_row("segment_logsumexp", of_one(lambda rows: np_logsumexp(rows)), values_and(*APART)),
    *[
        each_row(
            "segment_combine",
            np_combined,
            lambda rng, how=how, one=one: [
                rng.normal(size=(7, 3)),
                rng.uniform(0.5, 2, (2, one)),
                numpy.array([0, 3]),
                numpy.array([3, 7]),
                how,
            ],
            id=f"{how} {one}",
        )
        for how in ("add", "mul", "div")
        for one in (3, 1)
    ],
    bounded("segment_cumprod", lambda rows: rows.cumprod(0), (7, 3), [0, 2, 2], [2, 2, 7]),
    bounded("segment_logcumsumexp", lambda rows: numpy.logaddexp.accumulate(rows, 0), (7, 3), [0, 3], [2, 7]),
    bounded("segment_move", np_moved, (7, 3), [0, 2, 2], [2, 2, 7], 1),
    bounded("segment_move", np_moved, (7, 1), [0, 3], [2, 7], -2),
    bounded("segment_behind_one", lambda rows: np_moved(rows, 1, 1.0), (7, 3), [0, 2, 2], [2, 2, 7]),
    *[
        each_row(
            "segment_recurrence",
            np_recurrences,
            lambda rng, way=way: [*rng.normal(size=(2, 7, 3)), *APART, way],
            id=f"{way}",
        )
        for way in (True, False)
    ],
    *[
        each_row(
            "segment_places",
            of_each(np_places, int) if how in EACH else of_one(np_places),
            values_and(*APART, how, k),
            result="int64",
            id=how,
        )
        for how, k in PLACES.items()
    ],
    each_row("segment_gather", np_pick, values_and(FOUR[:4] % 2, *APART, 2)),
    each_row(
        "segment_gather",
        np_pick,
        values_and(numpy.concatenate([FOUR[1:3] % 2, FOUR[:1] * 0, FOUR]), *APART),
        id="one each",
    ),
    each_row("segment_scatter", np_put, values_and(FOUR % 2, *APART, 2, 7, shape=(4, 3))),
]
test_rows = generate(ROWS)


def test_empty_segments():
    empty = dynograd.zeros(3, dtype=dynograd.long)
    for reduce, wanted in {"sum": "0.", "prod": "1.", "max": "-inf", "min": "inf", "mean": "nan"}.items():
        assert str(dynograd.segment_reduce(x[:0], reduce, lengths=empty)) == f"tensor([{', '.join([wanted] * 3)}])"
        assert (dynograd.segment_reduce(x[:0], reduce, lengths=empty, initial=4) == 4).all()
    assert dynograd.segment_reduce(x[:0], "sum", lengths=empty[:0]).shape == (0,)


def test_unsafe_sums_what_there_is():
    assert dynograd.segment_reduce(x, "sum", lengths=dynograd.tensor([2, 1]), unsafe=True).tolist() == [2, 1]
    assert dynograd.segment_reduce(x, "sum", lengths=dynograd.tensor([5, 90]), unsafe=True).tolist() == [5, 2]
    rows, lengths = dynograd.ones(2, 3), dynograd.tensor([[1, 90], [3, 3]])
    assert dynograd.segment_reduce(rows, "sum", lengths=lengths, axis=1, unsafe=True).tolist() == [[1, 2], [3, 0]]


@pytest.mark.parametrize(
    "reduce, wanted",
    [("max", [0.5, 0.5, 0, 1, 0, 0, 1]), ("min", [0.5, 0.5, 1, 0, 0.5, 0.5, 0]), ("prod", [2, 2, 3, 0, 0, 0, 0])],
)
def test_gradients_at_ties_and_zeros(reduce, wanted):
    data = dynograd.tensor([2.0, 2.0, 0.0, 3.0, 0.0, 0.0, 5.0], requires_grad=True)
    (found,) = grad(dynograd.segment_reduce(data, reduce, lengths=dynograd.tensor([2, 2, 3])).sum(), data)
    assert found.tolist() == wanted


def test_second_derivatives_of_products_with_zeros():
    data = dynograd.tensor([2.0, 0.0, 3.0, 0.0, 0.0], dtype=dynograd.float64)

    def product(data):
        return dynograd.segment_reduce(data, "prod", lengths=dynograd.tensor([3, 2])).sum()

    found = dynograd.func.hessian(product)(data)
    wanted = numpy.zeros((5, 5))
    wanted[:3, :3] = [[0, 3, 0], [3, 0, 2], [0, 2, 0]]
    wanted[3:, 3:] = [[0, 1], [1, 0]]
    assert found.tolist() == wanted.tolist()


def test_nan_is_every_extreme():
    data = dynograd.tensor([numpy.nan, 2.0, numpy.nan, 1.0], requires_grad=True)
    for reduce in ("max", "min"):
        found = dynograd.segment_reduce(data, reduce, lengths=dynograd.tensor([3, 1]))
        assert found[0].isnan() and found[1] == 1
        assert grad(found.sum(), data)[0].tolist() == [0.5, 0, 0.5, 1]


@pytest.mark.parametrize("reduce", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiled_kernels_of_any_lengths(reduce, columns, dtype, monkeypatch):
    """Short, empty, long and, with small pieces, very long segments; one thread gives the bits of several."""
    monkeypatch.setattr(segments_cpu, "_PIECE", 500)
    rng = numpy.random.default_rng(0)
    lengths = numpy.array([0, 3, 90000, 1, 0, 1001, 400, 20, 0])
    ends = lengths.cumsum()
    starts = ends - lengths
    values = (1 + rng.normal(size=(ends[-1], columns)) / 200).astype(dtype)
    values[20], values[90_002] = -5, 9
    found = segments_cpu.reduce_segments(values, starts, ends, reduce)
    wanted = np_segment_reduce(values.astype("float64"), reduce, lengths=lengths)
    numpy.testing.assert_allclose(found, wanted, rtol=1e-12 if dtype == "float64" else 2e-4)
    monkeypatch.setattr(threads, "_threads", 1)
    assert (segments_cpu.reduce_segments(values, starts, ends, reduce) == found).all()
    spread = segments_cpu.spread_segments(found[1:], starts[1:], ends[1:] - 1, len(values))
    again = numpy.zeros_like(values)
    for row, first, last in zip(found[1:], starts[1:], ends[1:] - 1, strict=True):
        again[first:last] = row
    assert (spread == again).all()


def test_sums_of_many_numbers_keep_their_digits():
    values = numpy.random.default_rng(1).uniform(size=(200_000, 1)).astype("float32")
    found = segments_cpu.reduce_segments(values, numpy.array([0]), numpy.array([200_000]), "sum")
    numpy.testing.assert_allclose(found, values.astype("float64").sum(0, keepdims=True), rtol=2e-7)


def test_vmap_lays_the_examples_behind_one_another():
    data, lengths = dynograd.randn(3, 6, 2), dynograd.tensor([[1, 5], [0, 6], [3, 3]])
    dynograd.func.vmap_fallbacks(clear=True)
    for reduce in ("sum", "mean", "max", "prod"):

        def loss(data, lengths, reduce=reduce):
            return (dynograd.segment_reduce(data, reduce, lengths=lengths, initial=2) ** 2).sum()

        found, slopes = vmap(loss)(data, lengths), vmap(grad_of(loss))(data, lengths)
        shared = vmap(grad_of(loss), (0, None))(data, lengths[0])
        for n in range(3):
            assert found[n].item() == pytest.approx(loss(data[n], lengths[n]).item(), rel=1e-5)
            assert (slopes[n] - grad_of(loss)(data[n], lengths[n])).abs().max() < 1e-4
            assert (shared[n] - grad_of(loss)(data[n], lengths[0])).abs().max() < 1e-4
    assert not dynograd.func.vmap_fallbacks()


@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_vmap_of_second_derivatives(reduce):
    data, lengths = dynograd.randn(3, 6, 2, dtype=dynograd.float64), dynograd.tensor([[1, 5], [0, 6], [3, 3]])

    def loss(data, lengths):
        return (dynograd.segment_reduce(data, reduce, lengths=lengths, initial=2) ** 3).sum()

    def steepness(data, lengths):
        return (grad_of(loss)(data, lengths) ** 2).sum()

    dynograd.func.vmap_fallbacks(clear=True)
    found = vmap(grad_of(steepness))(data, lengths)

    def spread(g, lengths):
        ends = lengths.cumsum(0)
        return segment_spread(g, ends - lengths, ends, 6)

    spreads = vmap(spread)(data[:, :2], lengths)
    for n in range(3):
        assert (found[n] - grad_of(steepness)(data[n], lengths[n])).abs().max() < 1e-10
        assert (spreads[n] == spread(data[n, :2], lengths[n])).all()
    assert not dynograd.func.vmap_fallbacks()
