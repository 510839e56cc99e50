"""Calls without a written form: the noted launches, where they are the whole of it, proven on other numbers."""

from __future__ import annotations

import numpy
import pytest

import dynograd
from dynograd.ops.op import registry, rows_with
from dynograd.plans.lowering.bound import lower_bound
from dynograd.plans.lowering.forms import FORMS
from tests.plans.lowering_rows import Made, Row, check, tensor

F = ("float32",)


def _of(*shapes, numbers=()):
    return lambda random, dtype: (*[tensor(random, dtype, *shape) for shape in shapes], *numbers)


def _last(shape):
    """Channels side by side."""

    def turned(random, dtype):
        x = tensor(random, dtype, shape[0], *shape[2:], shape[1])
        return dynograd.from_numpy(x.detach().numpy().transpose(0, 3, 1, 2)).requires_grad_()

    return turned


def _norm(x, training=True):
    return lambda r, d: (x(r, d), tensor(r, d, 16), tensor(r, d, 16), None, None, training, 1e-5)


def _evaluated(x, bias):
    def make(random, dtype):
        statistics = tensor(random, dtype, 16, grad=False), tensor(random, dtype, 16, grad=False).abs()
        return (
            x(random, dtype),
            tensor(random, dtype, 16),
            tensor(random, dtype, 16) if bias else None,
            *statistics,
            False,
            1e-5,
        )

    return make


def _sequences(lengths=None):
    """Queries, keys and values of sequences behind one another; the lengths are others in each call unless they are given."""

    def make(random, dtype):
        cuts = numpy.sort(random.integers(0, 41, 4))
        own = numpy.diff(cuts, prepend=0, append=40) if lengths is None else numpy.array(lengths)
        offsets = dynograd.tensor(numpy.concatenate([[0], numpy.cumsum(own)]))
        operands = [tensor(random, dtype, 40, heads, 16) for heads in (4, 2, 2)]
        return (*operands, offsets, offsets, None, (-1, 0), False, 0.25, 0.0, (0, 0), (int(own.max()),) * 2)

    return make


def _alignments(random, dtype):
    """Padded targets of CTC: lengths and labels are others in each call, and one sequence is too short for its target."""
    scores = tensor(random, dtype, 12, 4, 5).log_softmax(2).detach().requires_grad_()
    steps = dynograd.tensor(numpy.append(random.integers(1, 13, 3), 1))
    lengths = dynograd.tensor(numpy.append(random.integers(0, 4, 3), 3))
    return (scores, dynograd.tensor(random.integers(1, 5, (4, 3))), steps, lengths, 0)


PLAIN, TURNED = lambda r, d: tensor(r, d, 8, 16, 20, 20), _last((8, 16, 20, 20))
WINDOW = ((1, 1), (1, 1), (1, 1), 1)
STATES = [(5, 64), (5, 64)]
ROWS = [
    Row("convolution", _of((4, 8, 20, 20), (16, 8, 3, 3), (16,), numbers=WINDOW), dtypes=F),
    Row("convolution", lambda r, d: (TURNED(r, d), tensor(r, d, 16, 16, 3, 3), None, *WINDOW), "channels last", F),
    Row("convolution", _of((16, 1, 28, 28), (6, 1, 5, 5), (6,), numbers=((1, 1), (2, 2), (1, 1), 1)), "one channel", F),
    Row("convolution_input_gradient", _of((8, 4, 14, 14), (4, 1, 4, 4), (1,), numbers=((8, 1, 28, 28), (2, 2), (1, 1), (1, 1), 1)), "bias", F),
    Row("max_pool_values", _of((8, 16, 20, 20), numbers=(((2, 2), (2, 2), (0, 0), (1, 1), False),)), dtypes=F),
    *[Row("adaptive_max_pool", _of(shape, numbers=(sizes,)), f"{sizes}", F)
      for shape, sizes in (((8, 16, 20, 20), (6, 7)), ((8, 16, 20), (5,)), ((2, 16, 8, 9, 10), (3, 4, 5)))],
    Row("batch_norm", _norm(PLAIN), dtypes=F),
    Row("batch_norm", _norm(TURNED), "channels last", F),
    *[Row("batch_norm", _evaluated(x, bias), f"running {name} {bias}", F)
      for x, name in ((PLAIN, "plain"), (TURNED, "channels last")) for bias in (True, False)],
    Row("moved_statistics", _of((16,), (16,), numbers=(0.1,)), dtypes=F, rule=False),
    Row("adaptive_avg_pool", _of((8, 16, 20, 20), numbers=((1, 1),)), dtypes=F),
    Row("scaled_dot_product_attention", _of(*[(2, 4, 64, 32)] * 3, numbers=(None, True, 0.2, 0.0, (0, 0))), dtypes=F),
    Row("scaled_dot_product_attention", _of(*[(2, 4, 64, 32)] * 3, numbers=(None, True, 0.2, 0.5, (1, 2))), "dropout", dtypes=F),
    Row("varlen_attention", _sequences(), dtypes=F, rule=False),
    Row("varlen_attention", _sequences([7, 0, 3, 20, 10]), "same lengths", F),
    Row("lstm_layer", _of((20, 5, 32), *STATES, (256, 32), (256, 64), (256,), (256,)), dtypes=F),
    Row("lstm_layer", _of((20, 5, 32), *STATES, (256, 32), (256, 64)), "no bias", dtypes=F),
    Row("lstm_layer", lambda r, d: (_of((20, 8, 32))(r, d)[0][:, :5], *_of(*STATES, (256, 32), (256, 64))(r, d)), "part of a batch", F),
    Row("lstm_layer", lambda r, d: (_of((5, 20, 32))(r, d)[0].transpose(0, 1), *_of(*STATES, (256, 32), (256, 64))(r, d)), "batch first", F),
    Row("gru_layer", _of((20, 5, 32), (5, 64), (192, 32), (192, 64), (192,), (192,)), dtypes=F),
    Row("lstm_step", _of((5, 64), (5, 16)), dtypes=F),
    Row("lstm_step", lambda r, d: (_of((64, 5))(r, d)[0].transpose(0, 1), *_of((5, 16))(r, d)), "turned", dtypes=F),
    Row("gru_step", _of((5, 48), (5, 48), (5, 16)), dtypes=F),
    *[Row("ctc_losses", lambda r, d, zeros=zeros: (*_alignments(r, d), zeros), f"{zeros}", F) for zeros in (True, False)],
    Row("cumsum", _of((40, 900), numbers=(1,)), dtypes=F),
]  # fmt: skip
CASES = [
    pytest.param(row, kind, id=f"{row.id}-{kind}") for row in ROWS for kind in (("op", "rule") if row.rule else ("op",))
]


@pytest.mark.parametrize("row, kind", CASES)
def test_noted_launches_are_the_call(row, kind):
    check(row, "float32", kind)


def test_each_op_that_says_bound_has_a_row():
    assert set(rows_with("bound")) <= {row.name for row in ROWS}


def test_what_python_reads_from_an_array_is_not_bound():
    """The gradient of a loss is a plain number among the arguments of its kernel."""
    created = Made(Row("huber_in_one_pass", _of((90, 90), (90, 90), numbers=(1.0, "mean"))), "float32", 1, "rule")
    assert created.call.launches
    assert lower_bound(created.call) is None


def test_arrays_that_kernels_take_by_address_are_kept():
    make = _of((4, 8, 20, 20), (16, 8, 3, 3), (16,), numbers=WINDOW)
    created = Made(Row("convolution", make), "float32", 1)
    kept = [array for launch in created.call.launches for array in launch.kept]
    assert any([array is created.call.outputs[0] or array.base is created.call.outputs[0].base for array in kept])
    assert all([launch.kept for launch in created.call.launches if launch.name.endswith("correlate")])


# What training rows of the benchmarks record, and which of it stays in Python: ops whose shapes or steps follow from whole numbers.
TRAINING = """add basic_index batch_norm cat clone convolution cross_entropy div embedding exp gelu index index_put_at layer_norm linear lstm_layer
gru_layer matmul max_pool_values mean moved_statistics mul neg permute relu scaled_dot_product_attention sigmoid split_with_sizes stack sub sum
tanh to_copy unbind view where dropout dropout_add varlen_attention adaptive_avg_pool binary_cross_entropy_with_logits_in_one_pass softmax expand
lt gt eq clamp sqrt lstm_step gru_step""".split()
IN_PYTHON = "chain_likelihoods".split()


def test_ops_of_training_rows_have_a_form():
    """Prints the ops that have one, by how they came by it."""
    ways = {name: _way(name) for name in [*TRAINING, *IN_PYTHON]}
    for way in ("written", "formula", "view", "noted", ""):
        print(f"{way or 'Python'}: {' '.join([name for name, own in ways.items() if own == way])}")
    assert not [name for name in TRAINING if not ways[name]]
    assert not [name for name in IN_PYTHON if ways[name]]


def _way(name):
    op = registry[name]
    if ("op", name) in FORMS:
        return "written"
    if op.kind == "elementwise" and op.formula:
        return "formula"
    if op.view:
        return "view"
    return "noted" if name in {row.name for row in ROWS} else ""
