"""Random offsets, most of them wrong, through everything that reads them. Run with NUMBA_BOUNDSCHECK=1 by `test_apart.py`; prints (refused, passed).

What reads offsets is asked of the table of ops: an op with such an argument has to be among the segment ops, which are called as they
are, or in `FACES`, which say through which function users reach it.
"""

import re
import sys

import numpy

import dynograd
from dynograd import RaggedTensor, from_numpy, nn
from dynograd.kernels.build.compiled_kernels import compiled_for
from dynograd.kernels.matmul.product_plans import ProductPlan
from dynograd.nn import functional as F
from dynograd.nn.attention.varlen import varlen_attn
from dynograd.ops.op import registry
from dynograd.ragged.rules import kind_of
from tests.ragged.samples import Sample, items

BOUNDS = re.compile(r"starts|ends|.*offsets.*|.*lengths|cu_\w+|batch_sizes|plan")
REFUSALS = (IndexError, ValueError, RuntimeError, TypeError, NotImplementedError)


def wild(rng, size, count=None):
    """Numbers around 0 to `size`, in order or not."""
    created = rng.integers(-5, size + 6, int(rng.integers(0, 5)) if count is None else count)
    return numpy.sort(created) if rng.random() < 0.5 else created


def kinds(created, rng):
    """As int64 or int32, or with a number that no array can count."""
    if len(created) and rng.random() < 0.05:
        created = created.copy()
        created[rng.integers(len(created))] = rng.choice([1 << 62, -(1 << 62), (1 << 63) - 1])
        return from_numpy(created)
    return from_numpy(created.astype(numpy.int32 if rng.random() < 0.3 else numpy.int64))


# --- segment ops, with bounds that no user can give ----------------------------------------------------------------------------


def segment_ops():
    """The ops with the two arrays `starts` and `ends`."""
    return [op for op in registry.values() if op.kind == "op" and {"starts", "ends"} <= set(op.array_names)]


def arguments(op, rng):
    """Any arguments: every parameter of the op has to be known here."""
    columns, rows = int(rng.integers(1, 4)), int(rng.integers(0, 9))
    bounds = {name: wild(rng, rows, 3) for name in ("starts", "ends")}
    if rng.random() < 0.5:  # segments behind one another, partly outside
        cuts = numpy.sort(rng.integers(-5, rows + 6, 6))
        bounds = {"starts": cuts[::2].copy(), "ends": cuts[1::2].copy()}
    per = int(rng.integers(0, 3))
    of_segments = op.name in ("segment_spread",)
    several = 3 * per if per else rows
    first = 3 if of_segments else several if op.name == "segment_scatter" else rows

    def numbers(count):
        return from_numpy(rng.normal(size=(count, columns))).requires_grad_()

    hows = "ascending descending largest smallest kth median nanmedian max min cummax cummin".split()
    known = {
        "values": lambda: numbers(first), "g": lambda: numbers(3 if op.name == "segment_combine" else first), "decay": lambda: numbers(rows),
        "how": lambda: str(rng.choice(["add", "mul", "div"] if op.name == "segment_combine" else hows)),
        "places": lambda: from_numpy(rng.integers(-3, rows + 4, (several, columns))),
        "starts": lambda: from_numpy(bounds["starts"]), "ends": lambda: from_numpy(bounds["ends"]),
        "rows": lambda: rows, "per": lambda: per, "k": lambda: int(rng.integers(0, 4)), "step": lambda: int(rng.integers(-9, 9)),
        "which": lambda: str(rng.choice(["max", "min"])),
        "backwards": lambda: bool(rng.integers(2)), "centered": lambda: bool(rng.integers(2)),
    }  # fmt: skip
    return {name: known[name]() for name in op.signature.parameters}


def through_segment_op(op, rng):
    try:
        result = op.function(**arguments(op, rng))
    except IndexError as error:
        assert "segment" in str(error), f"{op.name}: {error}"
        return
    if result.requires_grad:
        (result * result).sum().backward()


# --- functions that users call -------------------------------------------------------------------------------------------------


def floats(rng, *shape):
    return from_numpy(rng.normal(size=shape)).requires_grad_()


def reduced(rng):
    data, name = floats(rng, int(rng.integers(0, 7)), 2), str(rng.choice(["lengths", "offsets"]))
    how = str(rng.choice(["sum", "mean", "max", "min", "prod"]))
    return dynograd.segment_reduce(data, how, **{name: kinds(wild(rng, len(data)), rng)}, unsafe=bool(rng.integers(2)))


def bags(rng):
    index = from_numpy(rng.integers(0, 5, int(rng.integers(0, 7))))
    options = {"mode": str(rng.choice(["sum", "mean", "max"])), "include_last_offset": bool(rng.integers(2))}
    return F.embedding_bag(index, floats(rng, 5, 3), kinds(wild(rng, len(index)), rng), **options)


def attention(rng):
    tokens, keys = (int(integer) for integer in rng.integers(0, 7, 2))
    q, k, v = floats(rng, tokens, 1, 4), floats(rng, keys, 1, 4), floats(rng, keys, 1, 4)
    argument = kinds(wild(rng, tokens, 3), rng), kinds(wild(rng, keys, 3), rng)
    if rng.random() < 0.5:
        return varlen_attn(q, k, v, *argument, 7, 7)
    return F.varlen_attention(q, k, v, *argument)


def ctc(rng):
    scores = floats(rng, 6, 3, 4).log_softmax(2)
    return F.ctc_loss(
        scores, from_numpy(rng.integers(1, 4, (3, 5))), kinds(wild(rng, 6, 3), rng), kinds(wild(rng, 5, 3), rng)
    )


def recurrent(rng):
    kind = (nn.LSTM, nn.GRU, nn.RNN)[rng.integers(3)]
    layer = kind(3, 3, bidirectional=True).double()
    if rng.random() < 0.5:
        lengths = kinds(wild(rng, 6, 3), rng)
        x = nn.utils.rnn.pack_padded_sequence(floats(rng, 6, 3, 3), lengths, enforce_sorted=bool(rng.integers(2)))
    else:
        x = nn.utils.rnn.PackedSequence(floats(rng, 6, 3), from_numpy(wild(rng, 4, 3)))
    return layer(x)[0].data


def chains(rng):
    layer = nn.CRF(3).double()
    emissions, tags = floats(rng, 6, 3), from_numpy(rng.integers(0, 3, 6))
    offsets = kinds(wild(rng, 6), rng)
    call = rng.integers(3)
    if call == 2:
        layer.decode(emissions, offsets=offsets)
        return emissions
    return layer(emissions, tags, offsets=offsets) if call else layer.marginals(emissions, offsets=offsets)


def jagged(rng):
    values = floats(rng, int(rng.integers(0, 7)), 2)
    name = str(rng.choice(["lengths", "offsets"]))
    if rng.random() < 0.3:
        return dynograd.nested.nested_tensor_from_jagged(values, kinds(wild(rng, len(values)), rng)).sum(1)
    return RaggedTensor(values, **{name: kinds(wild(rng, len(values)), rng)}).sum(1)


def padded(rng):
    x = floats(rng, 3, 4, 2)
    return dynograd.ragged_from_padded(x, kinds(wild(rng, 4, 3), rng)).sum(1)


# function -> the ops that it leads to
FACES = {
    reduced: "", bags: "embedding_bag", attention: "varlen_attention varlen_attention_with_logarithms", ctc: "ctc_losses",
    recurrent: "lstm_layer gru_layer rnn_layer", chains: "chain_likelihoods chain_marginals chain_best_paths", jagged: "", padded: "",
}  # fmt: skip


def through_face(face, rng):
    """Refused with a message that says something, or computed inside."""
    try:
        result = face(rng)
        result.sum().backward()
    except REFUSALS as error:
        assert str(error), face
        assert "is out of bounds" not in str(error) or "expected" in str(error), f"{face.__name__}: {error}"
        return False
    return True


def plans(rng):
    """Products of matrices that may lie outside."""
    sizes = tuple(int(integer) for integer in rng.integers(0, 12, 3))
    try:
        plan = ProductPlan(rng.integers(-1, 4, (int(rng.integers(0, 3)), 6)), sizes)
    except IndexError:
        return False
    a, b = (floats(rng, size) for size in sizes[:2])
    registry["grouped_products"].function(a, b, plan, bool(rng.integers(2)), bool(rng.integers(2))).sum().backward()
    return True


def check_all_are_known():
    known = {op.name for op in segment_ops()} | set(" ".join(FACES.values()).split()) | {"grouped_products"}
    reads = {
        op.name
        for op in registry.values()
        if op.kind == "op" and any(BOUNDS.fullmatch(name) for name in op.array_names)
    }
    assert not reads - known, f"ops that read offsets, and that nothing here calls: {sorted(reads - known)}"


# --- rows of ragged tensors ------------------------------------------------------------------------------------------------------


def row_items():
    """The calls of ops with kernels or indices of their own for rows."""
    return [item for item in items() if item.mode == "rows" and kind_of(item.name)[0] in ("segments", "rows")]


def through_items(rng):
    """Every such op on rows of any lengths: what it refuses, it refuses for the row alone."""
    for item in row_items():
        created = Sample(
            [int(integer) for integer in rng.integers(0, 6, int(rng.integers(1, 5)))], int(rng.integers(1 << 30))
        )
        try:
            result = item.run(created.whole(wants=True))
        except REFUSALS as error:
            assert "is out of bounds" not in str(error), f"{item}: {error}"
            continue
        for element in result if isinstance(result, (tuple, list)) else [result]:
            while isinstance(element, RaggedTensor):
                element = element.packed
            if isinstance(element, dynograd.Tensor) and element.requires_grad and element.dtype.is_floating_point:
                (element * element).sum().backward(retain_graph=True)


def main(rounds=60) -> None:
    assert compiled_for(1 << 20) is not None  # compiled kernels from the first call on
    check_all_are_known()
    rng = numpy.random.default_rng(3)
    for op in segment_ops():
        for _ in range(rounds):
            through_segment_op(op, rng)
    passed = [through_face(face, rng) for face in [*FACES] for _ in range(rounds)] + [
        plans(rng) for _ in range(4 * rounds)
    ]
    for _ in range(rounds // 20):
        through_items(rng)
    print(len(passed) - sum(passed), sum(passed))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
