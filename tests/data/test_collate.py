"""From samples to batches."""

import collections
import dataclasses
import io
import pickle
import types

import numpy as np
import pytest

import dynograd as dg
from dynograd.data import DataLoader, collate_pad, collate_ragged, default_collate, default_convert, progress
from dynograd.errors import ShapeError

Pair = collections.namedtuple("Pair", "tokens label")


def same(made, expected):
    """Equal values, dtypes and kinds of container."""
    if isinstance(expected, dg.Tensor):
        return isinstance(made, dg.Tensor) and made.dtype == expected.dtype and made.tolist() == expected.tolist()
    if isinstance(expected, collections.abc.Mapping):
        return (
            type(made) is type(expected)
            and list(made) == list(expected)
            and all(same(made[k], expected[k]) for k in made)
        )
    if isinstance(expected, (list, tuple)):
        return type(made) is type(expected) and len(made) == len(expected) and all(map(same, made, expected))
    return made == expected


@pytest.mark.parametrize(
    "batch, expected",
    [
        ([dg.tensor([1, 2]), dg.tensor([3, 4])], dg.tensor([[1, 2], [3, 4]])),
        ([dg.tensor(1.0), dg.tensor(2.0)], dg.tensor([1.0, 2.0])),
        ([dg.zeros(0, 2)] * 3, dg.zeros(3, 0, 2)),
        ([dg.tensor([1, 2]).t(), dg.tensor([1.5, 2.5])], dg.tensor([[1.0, 2.0], [1.5, 2.5]])),
        ([np.array([1, 2], np.int32)], dg.tensor([[1, 2]], dtype=dg.int32)),
        ([np.float32(1), np.float32(2)], dg.tensor([1.0, 2.0])),
        ([np.array(3)], dg.tensor([3])),
        ([1, 2], dg.tensor([1, 2])),
        ([True, False], dg.tensor([True, False])),
        ([1.0, 2.5], dg.tensor([1.0, 2.5], dtype=dg.float64)),
        (["a", "b"], ["a", "b"]),
        ([b"a"], [b"a"]),
        ([(1, "a"), (2, "b")], [dg.tensor([1, 2]), ("a", "b")]),
        ([[1, 2.0], [3, 4.0]], [dg.tensor([1, 3]), dg.tensor([2.0, 4.0], dtype=dg.float64)]),
        ([Pair(1, "a"), Pair(2, "b")], Pair(dg.tensor([1, 2]), ("a", "b"))),
        ([{"x": 1, "y": (2, 3)}] * 2, {"x": dg.tensor([1, 1]), "y": [dg.tensor([2, 2]), dg.tensor([3, 3])]}),
        (
            [collections.OrderedDict(x=1), collections.OrderedDict(x=2)],
            collections.OrderedDict(x=dg.tensor([1, 2])),
        ),
        ([range(2), range(2)], [dg.tensor([0, 0]), dg.tensor([1, 1])]),
        (np.array([[1, 2], [3, 4]]), dg.tensor([[1, 2], [3, 4]])),
        (dg.tensor([[1.0, 2.0], [3.0, 4.0]]), dg.tensor([[1.0, 2.0], [3.0, 4.0]])),
    ],
)
def test_default_collate(batch, expected):
    assert same(default_collate(batch), expected)


def test_default_collate_keeps_other_mappings_and_sequences():
    made = default_collate([types.MappingProxyType({"x": 1})] * 2)
    assert made["x"].tolist() == [1, 1]
    made = default_collate([collections.UserList([1, 2])] * 2)
    assert type(made) is collections.UserList
    assert made[1].tolist() == [2, 2]


def test_default_collate_passes_gradients():
    x = dg.tensor([1.0, 2.0], requires_grad=True)
    default_collate([x, x * 3])[1].sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_different_shapes_are_named_with_the_way_out():
    batch = [{"x": dg.zeros(3)}, {"x": dg.zeros(3)}, {"x": dg.zeros(4)}]
    with pytest.raises(
        ShapeError, match=r"sample\['x'\] has different shapes .*\(3,\) in number 0, \(4,\) in number 2.*collate_pad"
    ):
        default_collate(batch)
    with pytest.raises(RuntimeError, match="and 2 other shapes"):
        default_collate([np.zeros(size) for size in range(6)])


@pytest.mark.parametrize(
    "batch, error, words",
    [
        ([], ValueError, "got none"),
        ([None], TypeError, "batch must contain tensors, numpy arrays, numbers, .* sample is NoneType"),
        ([(1, {"y": object()})], TypeError, r"sample\[1\]\['y'\] is object"),
        ([np.array(["a"])], TypeError, "an array of <U1"),
        ([dg.zeros(1), None], TypeError, "is a tensor in number 0 of the batch but NoneType in number 1"),
        (
            [(1, 2), (1, 2, 3)],
            RuntimeError,
            "equal size: sample has 2 elements in number 0 of the batch and 3 in number 1",
        ),
        ([{"x": 1}, {"y": 1}], KeyError, "the key 'x', but number 1 of the batch has only"),
    ],
)
def test_default_collate_refuses(batch, error, words):
    with pytest.raises(error, match=words):
        default_collate(batch)


@pytest.mark.parametrize(
    "data, expected",
    [
        (np.array([1.0]), dg.tensor([1.0], dtype=dg.float64)),
        (np.int64(2), dg.tensor(2)),
        ({"x": np.array([1])}, {"x": dg.tensor([1])}),
        ((np.array([1]), "a"), [dg.tensor([1]), "a"]),
        (Pair(np.array([1]), "a"), Pair(dg.tensor([1]), "a")),
        ([np.array([1]), b"a", None, 3], [dg.tensor([1]), b"a", None, 3]),
        (dg.tensor([1]), dg.tensor([1])),
    ],
)
def test_default_convert(data, expected):
    assert same(default_convert(data), expected)


def test_default_convert_leaves_arrays_of_text():
    text = np.array(["a"])
    assert default_convert(text) is text


A, B = dg.tensor([1, 2, 3]), dg.tensor([4])
PADDED, LENGTHS = dg.tensor([[1, 2, 3], [4, 0, 0]]), dg.tensor([3, 1])


@pytest.mark.parametrize(
    "batch, expected",
    [
        ([A, B], (PADDED, LENGTHS)),
        ([np.array([1, 2, 3]), np.array([4])], (PADDED, LENGTHS)),
        ([[1, 2, 3], [4]], (PADDED, LENGTHS)),
        ([(A, 0), (B, 1)], (PADDED, LENGTHS, dg.tensor([0, 1]))),
        ([[A, 0], [B, 1]], (PADDED, LENGTHS, dg.tensor([0, 1]))),
        ([(A, B), (B, A)], (PADDED, LENGTHS, dg.tensor([[4, 0, 0], [1, 2, 3]]), dg.tensor([1, 3]))),
        ([{"t": A, "y": "a"}, {"t": B, "y": "b"}], {"t": PADDED, "t_lengths": LENGTHS, "y": ["a", "b"]}),
        ([Pair(A, 0), Pair(B, 1)], Pair((PADDED, LENGTHS), dg.tensor([0, 1]))),
        ([(B, 0), (B, 1)], (dg.tensor([[4], [4]]), dg.tensor([1, 1]), dg.tensor([0, 1]))),
        ([([], 0), ([4], 1)], (dg.tensor([[0], [4]]), dg.tensor([0, 1]), dg.tensor([0, 1]))),
        ([dg.zeros(0), dg.ones(1)], (dg.tensor([[0.0], [1.0]]), dg.tensor([0, 1]))),
        ([dg.ones(2, 1), dg.ones(1, 1)], (dg.tensor([[[1.0], [1.0]], [[1.0], [0.0]]]), dg.tensor([2, 1]))),
        ([dg.tensor([1]), dg.tensor([0.5, 0.5])], (dg.tensor([[1.0, 0.0], [0.5, 0.5]]), dg.tensor([1, 2]))),
    ],
)
def test_collate_pad(batch, expected):
    assert same(collate_pad()(batch), expected)


def test_collate_pad_options():
    padded, lengths = collate_pad(-1, batch_first=False)([A, B])
    assert (padded.tolist(), lengths.tolist()) == ([[1, 4], [2, -1], [3, -1]], [3, 1])
    words, _, tags, _ = collate_pad((0, -100))([(A, A), (B, B)])
    assert (words[1].tolist(), tags[1].tolist()) == ([4, 0, 0], [4, -100, -100])
    made = collate_pad({"t": 9}, fields=["t"])([{"t": A, "image": dg.zeros(2, 2)}, {"t": B, "image": dg.zeros(2, 2)}])
    assert made["t"][1].tolist() == [4, 9, 9]
    assert made["image"].shape == (2, 2, 2)
    made = collate_pad({"tokens": 9}, fields=["tokens"])([Pair(A, B), Pair(B, B)])
    assert made.tokens[0][1].tolist() == [4, 9, 9]
    assert made.label.tolist() == [[4], [4]]
    assert len(collate_pad(fields=[0])([(A, dg.zeros(2)), (B, dg.zeros(2))])) == 3


def test_collate_pad_keeps_half_precision_and_can_be_sent_to_workers():
    collate = pickle.loads(pickle.dumps(collate_pad(0.5)))
    padded, _ = collate([dg.ones(2, dtype=dg.bfloat16), dg.ones(1, dtype=dg.bfloat16)])
    assert padded.dtype == dg.bfloat16
    assert padded.tolist() == [[1.0, 1.0], [1.0, 0.5]]
    assert repr(collate) == "collate_pad(padding_value=0.5, batch_first=True, fields=None)"


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: collate_pad([A, B]), TypeError, r"write collate_fn=collate_pad\(\)"),
        (lambda: collate_pad()([]), ValueError, "got none"),
        (
            lambda: collate_pad()([dg.zeros(1, 2), dg.zeros(2, 3)]),
            ShapeError,
            r"\(1, 2\) in number 0, \(2, 3\) in number 1",
        ),
        (lambda: collate_pad(fields=[2])([(A, 0)]), ValueError, r"fields \[2\] are not among the fields \[0, 1"),
        (lambda: collate_pad(fields=["z"])([{"t": A}]), ValueError, r"fields \['z'\] are not among"),
        (
            lambda: collate_pad(fields=[1])([(A, 0)]),
            ShapeError,
            r"sample\[1\] must be a sequence to be padded, got the single value 0",
        ),
        (lambda: collate_pad((0,))([(0, A)]), ValueError, r"padding_value \(0,\) has no value for the field 1"),
        (lambda: collate_pad()([(A, 0), (B,)]), RuntimeError, "equal size"),
    ],
)
def test_collate_pad_refuses(call, error, words):
    with pytest.raises(error, match=words):
        call()


# --- samples of fields within fields, and ragged batches ----------------------------------------------------------------------


@dataclasses.dataclass
class Sentence:
    tokens: list
    label: int
    text: str


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: float


SENTENCES = [Sentence([1, 2, 3], 0, "a"), Sentence([4], 1, "b")]
NESTED = [
    {"id": 1, "in": ({"tokens": np.array([1, 2])}, "a"), "tags": ["x", "y"], "sizes": (1, 2.0)},
    {"id": 2, "in": ({"tokens": np.array([3])}, "b"), "tags": ["z", "w"], "sizes": (3, 4.0)},
]


def test_dataclasses_stay_dataclasses():
    batch = default_collate([Frozen(1.0), Frozen(2.0)])
    assert type(batch) is Frozen
    assert batch.x.tolist() == [1.0, 2.0]
    assert default_convert(Frozen(np.ones(1))).x.tolist() == [1.0]
    padded = collate_pad(padding_value=9)(SENTENCES)
    assert type(padded) is Sentence
    assert [one.tolist() for one in padded.tokens] == [[[1, 2, 3], [4, 9, 9]], [3, 1]]
    assert (padded.label.tolist(), padded.text) == ([0, 1], ["a", "b"])
    assert type(SENTENCES[0].tokens) is list
    ragged = collate_ragged()(SENTENCES)
    assert ragged.tokens.values().tolist() == [1, 2, 3, 4]


def test_fields_within_fields_are_padded():
    batch = collate_pad()(NESTED)
    inner, text = batch["in"]
    assert inner["tokens"].tolist() == [[1, 2], [3, 0]]
    assert inner["tokens_lengths"].tolist() == [2, 1]
    assert text == ["a", "b"]
    assert batch["tags"] == [["x", "z"], ["y", "w"]] or batch["tags"] == [("x", "z"), ("y", "w")]
    assert [one.tolist() for one in batch["sizes"]] == [[1, 3], [2.0, 4.0]]
    again = collate_pad(fields=["tokens"])(NESTED)
    assert again["in"][0]["tokens"].tolist() == [[1, 2], [3, 0]]
    with pytest.raises(ValueError, match=r"fields \['words'\] are not among the fields \['id'"):
        collate_pad(fields=["words"])(NESTED)


@pytest.mark.parametrize(
    "samples, values",
    [
        ([dg.tensor([1.0, 2.0]), dg.tensor([3.0])], [1.0, 2.0, 3.0]),
        ([[1, 2], [], [3]], [1, 2, 3]),
        ([np.ones((2, 3)), np.zeros((0, 3))], [[1.0] * 3] * 2),
        ([np.array([1]), np.array([2.5])], [1.0, 2.5]),
    ],
)
def test_ragged_batches(samples, values):
    batch = collate_ragged()(samples)
    assert isinstance(batch, dg.RaggedTensor)
    assert batch.values().tolist() == values
    assert batch.lengths().tolist() == [len(sample) for sample in samples]
    labelled, labels = collate_ragged()([(sample, number) for number, sample in enumerate(samples)])
    assert labelled.values().tolist() == values
    assert labels.tolist() == list(range(len(samples)))
    named = collate_ragged(fields=["x"])([{"x": sample, "y": dg.ones(2)} for sample in samples])
    assert named["x"].values().tolist() == values
    assert named["y"].shape == (len(samples), 2)


def test_ragged_arguments():
    with pytest.raises(
        TypeError, match=r"collate_ragged: fields should be names .* write collate_fn=collate_ragged\(\)"
    ):
        collate_ragged(fields=[(1, 2)])
    with pytest.raises(TypeError, match="got str x"):
        collate_ragged(fields="x")
    with pytest.raises(
        ShapeError, match=r"collate_ragged: sample\[0\] must be a sequence to be joined, got the single value 1"
    ):
        collate_ragged(fields=[0])([(1, 2)])
    with pytest.raises(
        ShapeError, match=r"agree in all sizes but the first, got shapes \(1, 2\) in number 0, \(1, 3\)"
    ):
        collate_ragged()([np.ones((1, 2)), np.ones((1, 3))])
    with pytest.raises(ValueError, match="collate_ragged: expected a batch of at least one"):
        collate_ragged()([])
    assert repr(collate_ragged(fields=["x"])) == "collate_ragged(fields=('x',))"


def test_fields_of_named_tuples_have_positions_and_those_of_dicts_have_not():
    pair = collections.namedtuple("pair", "words label")
    batch = collate_ragged(fields=[0])([pair(dg.ones(2), 0), pair(dg.ones(1), 1)])
    assert batch.words.lengths().tolist() == [2, 1]
    with pytest.raises(ValueError, match=r"fields \[0\] are not among the fields \['words'\] of a sample"):
        collate_ragged(fields=[0])([{"words": dg.ones(2)}])


@pytest.mark.parametrize("workers", [0, 2])
def test_how_much_was_padding(workers):
    data = [(dg.ones(size), 0) for size in (3, 1, 2, 2, 5)]
    loader = DataLoader(data, 2, collate_fn=collate_pad(), num_workers=workers)
    assert str(loader.statistics) == "0 samples"
    for _ in range(2):
        list(loader)
        told = loader.statistics
        assert (told.batches, told.samples, told.elements, told.places) == (3, 5, 13, 15)
    assert str(told) == "padding 13.3%"
    assert "places=15, padding=0.1333" in repr(told)
    loader = DataLoader(data, 2, collate_fn=collate_ragged(), num_workers=workers)
    list(loader)
    assert loader.statistics.padding == 0.0


def test_the_progress_line_shows_it():
    loader = DataLoader([[1, 2, 3], [4], [5, 6]], 2, collate_fn=collate_pad())
    line = io.StringIO()
    bar = progress(loader, desc="epoch 1", file=line, mininterval=0)
    for _ in bar:
        bar.set_postfix(loss=0.5)
    assert "epoch 1: 100%" in line.getvalue()
    assert "padding 25.0%, loss=0.5" in line.getvalue()
    batches = iter(loader)
    next(batches)
    loader.load_state_dict(loader.state_dict())
    bar = progress(loader, file=line)
    assert bar.n == 1
    bar.close()


def test_collate_ragged_itself_is_a_collate_fn():
    samples = [(dg.tensor([1, 2, 3]), 0), (dg.tensor([4]), 1)]
    (tokens, labels) = next(iter(DataLoader(samples, batch_size=2, collate_fn=collate_ragged)))
    assert tokens.tolist() == [[1, 2, 3], [4]] and labels.tolist() == [0, 1]


def test_sequences_of_other_shapes_are_named():
    for rows in ([dg.ones(3), dg.ones(2, 2)], [dg.ones(1, 2), dg.ones(2, 3)]):
        with pytest.raises(ShapeError, match=r"must agree in all sizes but the first, got shapes"):
            collate_pad()(rows)
