"""Embeddings and bags of them."""

import numpy
import pytest

import dynograd
from dynograd.autograd import grad
from dynograd.nn import functional as F
from tests.ops.harness import Row, error, generate


def np_embedding(input, weight, padding_idx=None):
    return weight[input]


def np_bags(
    input, weight, offsets=None, mode="mean", per_sample_weights=None, include_last_offset=False, padding_idx=None
):
    """Bag by bag."""
    if input.ndim == 2:
        offsets = numpy.arange(0, input.size, input.shape[1])
        factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)
        input = input.reshape(-1)
    else:
        offsets = offsets[:-1] if include_last_offset else offsets
        factors = per_sample_weights
    ends = [*offsets[1:], len(input)]
    bags = []
    for start, end in zip(offsets, ends, strict=True):
        members = [place for place in range(start, end) if input[place] != padding_idx]
        rows = weight[input[members]] * (1 if factors is None else factors[members][:, None])
        if not members:
            bags.append(numpy.zeros(weight.shape[1]))
        else:
            bags.append({"sum": rows.sum(0), "mean": rows.mean(0), "max": rows.max(0)}[mode])
    return numpy.array(bags)


def table(rng):
    return rng.normal(size=(5, 3))


def index(*numbers):
    return numpy.array(numbers)


weight = dynograd.zeros(4, 2)
i = dynograd.tensor

ROWS = [
    Row(
        "nn.functional.embedding",
        np_embedding,
        args=lambda rng: [index([0, 2], [2, 4]), table(rng)],
        covers=["embedding_backward"],
        errors=[
            error(
                lambda op: op(i([[0, 1], [7, 1]]), weight),
                IndexError,
                "index out of range",
                "7",
                "[1, 0]",
                "4 rows",
                "0 to 3",
            ),
            error(lambda op: op(i([0, -1]), weight), IndexError, "-1", "[1]", "(4, 2)"),
            error(lambda op: op(i(4), weight), IndexError, "4", "4 rows"),
            error(lambda op: op(i([0.5]), weight), RuntimeError, "indices", "Long, Int", "float32", "input.long()"),
            error(lambda op: op(i([0]), dynograd.zeros(3)), RuntimeError, "2-D", "(3,)"),
            error(lambda op: op(i([0]), weight, padding_idx=4), ValueError, "Padding_idx must be within", "4"),
        ],
    ),
    Row(
        "nn.functional.embedding", np_embedding, args=lambda rng: [index(1, 1, 1), rng.normal(size=(3, 200))], id="wide"
    ),
    Row(
        "nn.functional.embedding",
        np_embedding,
        args=lambda rng: [numpy.zeros((0, 2), int), table(rng)],
        id="none",
        second=False,
        jvp=False,
    ),
    *[
        Row(
            "nn.functional.embedding_bag",
            np_bags,
            args=lambda rng: [index([0, 2, 2], [3, 4, 0]), table(rng)],
            kwargs={"mode": mode},
            id=mode,
        )
        for mode in ("sum", "mean", "max")
    ],
    *[
        Row(
            "nn.functional.embedding_bag",
            np_bags,
            args=lambda rng: [index(0, 2, 1, 2, 4), table(rng), index(0, 2, 2)],
            kwargs={"mode": mode, "padding_idx": 2},
            id=f"{mode}-offsets",
        )
        for mode in ("sum", "mean", "max")
    ],
    Row(
        "nn.functional.embedding_bag",
        np_bags,
        args=lambda rng: [index(0, 2, 1, 2, 4), table(rng), index(0, 2, 2, 5)],
        kwargs={"include_last_offset": True},
        id="ends",
    ),
    Row(
        "nn.functional.embedding_bag",
        np_bags,
        args=lambda rng: [index(0, 2, 1, 2, 4), table(rng), index(0, 2, 5)],
        kwargs=lambda rng: {"mode": "sum", "include_last_offset": True, "per_sample_weights": rng.normal(size=5)},
        id="weights",
        errors=[
            error(lambda op: op(i([0]), weight), ValueError, "offsets", "None", "1D"),
            error(lambda op: op(i([[0]]), weight, i([0])), ValueError, "2D", "offsets has to be None"),
            error(lambda op: op(i([0, 1]), weight, i([1])), RuntimeError, "offsets[0] has to be 0", "got 1"),
            error(lambda op: op(i([0, 1]), weight, i([0, 3])), RuntimeError, "offsets[-1]", "length (2)", "3"),
            error(
                lambda op: op(i([0, 1, 1]), weight, i([0, 2, 1])), RuntimeError, "never fall", "1 after 2", "position 2"
            ),
            error(
                lambda op: op(i([0, 1]), weight, i([0, 1]), include_last_offset=True),
                RuntimeError,
                "last offset",
                "(2)",
                "got 1",
            ),
            error(lambda op: op(i([0, 1]), weight, i([[0]])), ValueError, "1D", "(1, 1)"),
            error(lambda op: op(i([[0]]), weight, mode="median"), ValueError, "sum, mean or max", "median"),
            error(
                lambda op: op(i([[0]]), weight, per_sample_weights=i([[1.0]])),
                NotImplementedError,
                "mode='sum'",
                "'mean'",
            ),
            error(
                lambda op: op(i([[0]]), weight, per_sample_weights=i([1.0]), mode="sum"), RuntimeError, "(1, 1)", "(1,)"
            ),
            error(lambda op: op(i([[[0]]]), weight), ValueError, "1D or 2D", "(1, 1, 1)"),
            error(lambda op: op(i([[9]]), weight), IndexError, "embedding_bag", "9", "[0, 0]"),
        ],
    ),
]
test_rows = generate(ROWS)


@pytest.mark.parametrize("kind", ["rows", "offsets", "ends"])
@pytest.mark.parametrize("padding_idx", [None, 0, -3])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_without_a_gradient_have_the_bits_of_those_with_one(mode, padding_idx, kind):
    numbers = numpy.random.default_rng(0)
    table = dynograd.tensor(numbers.normal(size=(50, 37)).astype("float32"))
    table[7] = -0.0
    indices = dynograd.tensor(numbers.integers(0, 50, (60, 9)))
    indices[3], indices[4] = 7, 47
    offsets = {"rows": None, "offsets": [0, 4, 4, 90, 540], "ends": [0, 4, 4, 90, 540]}[kind]
    arguments = [indices] if kind == "rows" else [indices.reshape(-1), dynograd.tensor(offsets)]
    bags = [
        F.embedding_bag(
            arguments[0], weight, *arguments[1:], mode=mode, padding_idx=padding_idx, include_last_offset=kind == "ends"
        )
        for weight in (table, table.clone().requires_grad_())
    ]
    assert bags[0].shape == bags[1].shape and bags[1].requires_grad and not bags[0].requires_grad
    assert bags[0].numpy().tobytes() == bags[1].detach().numpy().tobytes()


@pytest.mark.parametrize("padding_idx", [50, -51])
def test_bags_without_a_gradient_refuse_a_padding_row_that_is_not_there(padding_idx):
    with pytest.raises(ValueError, match="[Pp]adding_idx"):
        F.embedding_bag(dynograd.tensor([[0, 1]]), dynograd.ones(50, 3), padding_idx=padding_idx)


def test_padding_row_gets_no_gradient_of_any_order():
    w = dynograd.ones(3, 2, requires_grad=True)
    out = F.embedding(dynograd.tensor([0, 1, 1]), w, padding_idx=-2)
    (first,) = grad((out**2).sum(), w, create_graph=True)
    assert first.tolist() == [[2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
    (second,) = grad((first**2).sum(), w)
    assert second.tolist() == [[8.0, 8.0], [0.0, 0.0], [0.0, 0.0]]


def test_gradients_scaled_by_frequency():
    w = dynograd.ones(3, 1, requires_grad=True)
    F.embedding(dynograd.tensor([0, 1, 1]), w, scale_grad_by_freq=True).sum().backward()
    assert w.grad.flatten().tolist() == [1.0, 1.0, 0.0]


def test_max_norm_shrinks_the_rows_that_are_used_in_place():
    w = dynograd.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]], requires_grad=True)
    out = F.embedding(dynograd.tensor([0, 1]), w, max_norm=1.0)
    numpy.testing.assert_allclose(w.detach().numpy(), [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]], rtol=1e-5)
    assert out.tolist() == w[:2].tolist()


def test_indices_of_any_integer_dtype():
    w = dynograd.arange(6.0).reshape(3, 2)
    assert F.embedding(dynograd.tensor([2], dtype=dynograd.int32), w).tolist() == [[4.0, 5.0]]
    assert F.embedding(dynograd.tensor(1), w).tolist() == [2.0, 3.0]


def test_a_bag_of_two_rows_is_their_embeddings_reduced():
    w = dynograd.randn(6, 4)
    indices = dynograd.tensor([[1, 5], [0, 0]])
    rows = F.embedding(indices, w)
    assert F.embedding_bag(indices, w, mode="sum").tolist() == pytest.approx(rows.sum(1).numpy())
    assert F.embedding_bag(indices, w, mode="max").tolist() == rows.max(1)[0].tolist()


@pytest.mark.parametrize("by_frequency", [False, True])
def test_rows_without_columns_have_an_empty_gradient(by_frequency):
    weight = dynograd.zeros(3, 0, requires_grad=True)
    F.embedding(dynograd.tensor([0, 2]), weight, scale_grad_by_freq=by_frequency).sum().backward()
    assert weight.grad.shape == (3, 0)
