"""`x[index]` and `x[index] = value`: every form against NumPy, gradients, views and errors."""

import numpy
import pytest

import dynograd
from dynograd.ops.readers import set_quick_ways_aside
from tests.ops.harness import BOOL, COMPLEX, FLOATS, INTEGERS, Row, error, generate

ALL = FLOATS + INTEGERS + BOOL + COMPLEX
zeros, tensor = dynograd.zeros, dynograd.tensor
MASK = numpy.array([[True, False, True, True], [False, False, True, False], [False, True, False, False]])


def at(index):
    """Row that reads `x[index]`; index arrays are part of the index, not arguments."""
    return lambda x: x[index]


def put(x, indices, values, accumulate=False):
    created = x.copy()
    key = tuple(slice(None) if element is None else element for element in indices)
    if accumulate:
        numpy.add.at(created, key, values)
    else:
        created[key] = values
    return created


BASIC = {
    "int": 1,
    "negative": -2,
    "slice": slice(1, 3),
    "step": slice(None, None, 2),
    "none": None,
    "ellipsis": Ellipsis,
    "ints": (1, -1, 0),
    "int-last": (Ellipsis, 1),
    "mixed": (slice(1, None), None, -1, slice(0, 2)),
    "empty": slice(2, 1),
    "nothing": (),
}
ADVANCED = {
    "list": [2, 0, 2],
    "array": numpy.array([[2, 0], [-1, 1]]),
    "pair": (numpy.array([2, 0]), numpy.array([1, -1])),
    "outer": (numpy.array([[2], [0]]), numpy.array([1, 3, 3])),
    "last": (Ellipsis, numpy.array([1, 0, 1])),
    "middle": (slice(None), numpy.array([1, 0, 1])),
    "apart": (numpy.array([2, 0]), slice(None), numpy.array([1, 0])),
    "apart-slice": (numpy.array([2, 0]), slice(1, 3), numpy.array([1, 0])),
    "new-dim": (None, numpy.array([2, 0])),
    "mask": MASK,
    "mask-first": MASK[0, :3],
    "mask-and-array": (MASK[0, :3], numpy.array([1, 3])),
    "mask-last": (slice(0, 1), slice(None), numpy.array([True, False])),
    "bool": True,
    "bools": (True, numpy.array([1, 1])),
    "false": False,
    "no-elements": numpy.zeros((0, 2), int),
    "no-list": [],
}


def row_of(name, index):
    covered = [] if name in BASIC else ["index", "index_backward"]
    return Row(
        "getitem",
        at(index),
        shapes=[(3, 4, 2)],
        function=at(index),
        dtypes=ALL,
        result="same",
        ones=False,
        empty=False,
        grad=name not in ("empty", "false", "no-elements", "no-list"),
        covers=covered,
        id=name,
    )


ROWS = [
    *[row_of(name, index) for name, index in {**BASIC, **ADVANCED}.items()],
    Row(
        "index_put",
        put,
        args=lambda rng: [rng.normal(size=(3, 4)), (numpy.array([2, 0]), numpy.array([1, 1])), rng.normal(size=2)],
        dtypes=ALL,
        result="same",
        covers=["index_put_at"],
        errors=[
            error(lambda op: op(zeros(3), tensor([0]), zeros(1)), TypeError, "indices must be a tuple of Tensors"),
            error(lambda op: op(zeros(3), (tensor([0]),), 1.0), TypeError, "values must be a Tensor, not float"),
            error(lambda op: op(zeros(3), (tensor([0]),), tensor(1)), RuntimeError, "dtypes match", "int64", "float32"),
            error(
                lambda op: op(zeros(3), (tensor([3]),), zeros(1)),
                IndexError,
                "index 3 is out of bounds for dimension 0",
            ),
            error(
                lambda op: op(zeros(3), (tensor([0, 1]),), zeros(3)),
                RuntimeError,
                "shape [3]",
                "indexing result of shape [2]",
            ),
        ],
    ),
    Row(
        "index_put",
        put,
        args=lambda rng: [rng.normal(size=(3, 4)), (numpy.array([2, 0, 2]),), rng.normal(size=(3, 4)), True],
        id="accumulate",
    ),
    Row(
        "index_put",
        put,
        args=lambda rng: [rng.normal(size=(3, 4)), (None, numpy.array([1, 0, 1])), rng.normal(size=(3, 1)), True],
        id="accumulate-columns",
    ),
    Row("index_put", put, args=lambda rng: [rng.normal(size=(3, 4)), (MASK,), rng.normal(size=())], id="mask"),
    Row(
        "index_put",
        put,
        args=lambda rng: [rng.normal(size=(3, 4)), (MASK,), rng.normal(size=5), True],
        id="mask-accumulate",
    ),
]
test_rows = generate(ROWS)


def test_a_written_value_may_have_more_dims_of_one():
    x, value = (
        dynograd.zeros(3, 4, dtype=dynograd.float64, requires_grad=True),
        dynograd.randn(1, 1, 4, dtype=dynograd.float64),
    )

    def written(x, value):
        y = x * 2
        y[tensor([1])] = value
        return y

    assert dynograd.equal(written(x, value)[1], value[0, 0])
    assert dynograd.autograd.gradcheck(written, (x, value.requires_grad_()))
    assert dynograd.func.jvp(written, (x, value), (x, value * 0 + 1))[1].tolist()[1] == [1, 1, 1, 1]


# --- random expressions against NumPy ----------------------------------------------------------------------------------------


def random_slice(rng, size):
    def bound():
        return None if rng.random() < 0.3 else int(rng.integers(-size - 1, size + 2))

    return slice(bound(), bound(), None if rng.random() < 0.5 else int(rng.integers(1, 4)))


def random_index(rng, shape):
    """An index that means the same in NumPy: no int beside an index array, no ellipsis that stands for nothing."""
    advanced = rng.random() < 0.6
    length = int(rng.integers(1, 4))
    masked = ellipsis = False
    index = []
    dim = 0
    while dim < len(shape) and rng.random() < 0.9:
        size, kind = shape[dim], rng.random()
        if kind < 0.3:
            index.append(random_slice(rng, size))
        elif kind < 0.4:
            index.append(None)
            continue
        elif kind < 0.5 and not ellipsis:
            ellipsis = True
            index.append(Ellipsis)
            dim += int(rng.integers(1, len(shape) - dim + 1))
            continue
        elif not advanced:
            if not size:
                break
            index.append(int(rng.integers(-size, size)))
        elif kind < 0.6 and not masked:
            masked = True
            depth = int(rng.integers(1, min(2, len(shape) - dim) + 1))
            mask = numpy.zeros(shape[dim : dim + depth], bool)
            places = rng.permutation(mask.size)[: min(length, mask.size)]
            if len(places) not in (1, length):
                break
            mask.reshape(-1)[places] = True
            index.append(mask)
            dim += depth
            continue
        elif size:
            form = [(length,), (1,), (2, length), (2, 1)][int(rng.integers(0, 4))]
            array = rng.integers(-size, size, form)
            index.append(array.tolist() if len(form) == 1 and rng.random() < 0.3 else array)
        else:
            break
        dim += 1
    if ellipsis:
        index += [slice(None)] * (len(shape) - dim)
    return tuple(index)


def as_ours(rng, index):
    return tuple(
        dynograd.from_numpy(element) if isinstance(element, numpy.ndarray) and rng.random() < 0.7 else element
        for element in index
    )


def same(result, expected):
    assert tuple(result.shape) == expected.shape
    numpy.testing.assert_array_equal(result.detach().array, expected)


@pytest.mark.parametrize("seed", range(60))
def test_random_index_expressions_agree_with_numpy(seed):
    rng = numpy.random.default_rng(seed)
    for _ in range(25):
        shape = tuple(int(size) for size in rng.integers(0 if rng.random() < 0.1 else 1, 5, rng.integers(0, 5)))
        values = rng.normal(size=shape)
        index = random_index(rng, shape)
        ours = as_ours(rng, index)
        expected = values[index]
        x = tensor(values, requires_grad=True)
        result = x[ours]
        same(result, expected)
        weights = numpy.asarray(rng.normal(size=expected.shape))
        result.backward(tensor(weights))
        gradient = numpy.zeros(shape)
        numpy.add.at(gradient, index, weights)
        numpy.testing.assert_allclose(x.grad.array, gradient, rtol=1e-12, atol=1e-12, err_msg=f"{shape} {index}")


@pytest.mark.parametrize("seed", range(30))
def test_random_assignments_agree_with_numpy(seed):
    rng = numpy.random.default_rng(seed)
    for _ in range(25):
        shape = tuple(int(size) for size in rng.integers(1, 5, rng.integers(0, 5)))
        values = rng.normal(size=shape)
        index = random_index(rng, shape)
        region = values[index].shape
        places = numpy.arange(values.size).reshape(shape)[index]
        if len(numpy.unique(places)) != numpy.size(places):
            continue
        value = numpy.asarray(rng.normal(size=region if rng.random() < 0.6 else ()))
        x = tensor(values)
        x[as_ours(rng, index)] = tensor(value)
        values[index] = value
        same(x, values)


# --- named cases -------------------------------------------------------------------------------------------------------------


def test_ints_beside_index_arrays_select_first_as_in_pytorch():
    x = zeros(3, 4, 5)
    assert x[0, :, [0, 1]].shape == (4, 2)  # NumPy would give (2, 4)
    assert x[[0, 1], :, 0].shape == (2, 4)


def test_an_ellipsis_for_no_dim_does_not_separate_index_arrays_as_in_pytorch():
    x = zeros(3, 4, 5)
    assert x[:, [0, 1], ..., [0, 1]].shape == (3, 2)  # NumPy would give (2, 3)


def test_number_tensors_and_numpy_numbers_are_ints():
    x = dynograd.arange(6).view(2, 3)
    for element in (tensor(1), numpy.int32(1), numpy.uint8(1), numpy.array(1)):
        assert x[element].tolist() == [3, 4, 5]
        assert numpy.shares_memory(x[element].array, x.array)
    assert x[tensor(0) : tensor(1), tensor(1) :].tolist() == [[1, 2]]


def test_bool_numbers_add_a_dim():
    x = dynograd.arange(2)
    for yes in (True, numpy.True_, tensor(True)):
        assert x[yes].tolist() == [[0, 1]]
    assert x[False].shape == (0, 2)


def test_bytes_are_masks_with_a_warning():
    with pytest.warns(UserWarning, match="uint8 is deprecated"):
        assert dynograd.arange(3)[tensor([1, 0, 1], dtype=dynograd.uint8)].tolist() == [0, 2]


def test_a_list_of_indices_is_read_as_a_tuple_with_a_warning():
    x = dynograd.arange(6).view(2, 3)
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[tensor([0, 1]), tensor([2, 0])]].tolist() == [2, 3]
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[[0, 1], [2, 0]]].tolist() == [2, 3]
    assert x[([0, 1], [2, 0])].tolist() == [2, 3]
    assert x[range(1, -1, -1)].tolist() == [[3, 4, 5], [0, 1, 2]]


def test_elements_picked_twice_get_both_gradients():
    x = tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x[[0, 0, 2]] * tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [11, 0, 100]


def test_large_scatter_of_rows():
    rng = numpy.random.default_rng(0)
    index = rng.integers(0, 50, 2000)
    x = tensor(rng.normal(size=(50, 16)), requires_grad=True)
    weights = rng.normal(size=(2000, 16))
    x[tensor(index)].backward(tensor(weights))
    expected = numpy.zeros((50, 16))
    numpy.add.at(expected, index, weights)
    numpy.testing.assert_allclose(x.grad.array, expected, rtol=1e-12)


def test_advanced_results_are_contiguous_copies():
    x = dynograd.arange(12.0).view(3, 4)
    for created in (x.t()[[0, 2]], x[:, [0, 2]], x[[0, 1]], x.t()[:, [1]]):
        assert created.is_contiguous()
        created.fill_(9.0)
    assert x.tolist() == dynograd.arange(12.0).view(3, 4).tolist()


def test_assignment_to_a_view_and_its_history():
    x = dynograd.ones(3, 2, requires_grad=True)
    value = tensor([5.0, 6.0], requires_grad=True)
    y = x * 2
    y[1] = value
    y[:, 0][[0, 2]] = value * 10
    assert y.tolist() == [[50, 2], [5, 6], [60, 2]]
    (y * tensor([[1.0], [10.0], [100.0]])).sum().backward()
    assert x.grad.tolist() == [[0, 2], [0, 0], [0, 200]]
    assert value.grad.tolist() == [10 + 10, 10 + 1000]


def test_assignment_by_mask_converts_and_stretches():
    x = dynograd.arange(6).view(2, 3)
    x[tensor([[True, False, True], [False, True, False]])] = 7.9
    assert x.tolist() == [[7, 1, 7], [3, 7, 5]]
    x[:, [0, 2]] = tensor([[1], [2]])
    assert x.tolist() == [[1, 1, 1], [2, 7, 2]]
    x[...] = 0
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_second_derivative_through_an_index():
    x = tensor([1.0, 2.0, 3.0], dtype=dynograd.float64, requires_grad=True)
    (g,) = dynograd.autograd.grad((x[[0, 1, 1]] ** 3).sum(), x, create_graph=True)
    g.sum().backward()
    assert x.grad.tolist() == [6, 24, 0]


E5 = zeros(5, 3)
ERRORS = {
    "int": (lambda: E5[7], IndexError, ["index 7 is out of bounds for dimension 0 with size 5", "(5, 3)", "-5 to 4"]),
    "int-in-tuple": (lambda: E5[0, -4], IndexError, ["index -4 is out of bounds for dimension 1 with size 3"]),
    "array": (
        lambda: E5[:, tensor([[0], [3]])],
        IndexError,
        ["index 3 is out of bounds for dimension 1 with size 3", "at position [1, 0]"],
    ),
    "array-in-nothing": (
        lambda: zeros(0, 0)[:, [0]],
        IndexError,
        ["index 0 is out of bounds for dimension 1 with size 0", "no elements"],
    ),
    "array-of-no-rows": (
        lambda: zeros(0, 3)[:, [0, 5]],
        IndexError,
        ["index 5 is out of bounds for dimension 1 with size 3"],
    ),
    "array-after-int": (lambda: E5[0, [9]], IndexError, ["index 9 is out of bounds for dimension 1 with size 3"]),
    "pair": (lambda: E5[tensor([0]), tensor([-9])], IndexError, ["index -9", "dimension 1 with size 3"]),
    "rows": (lambda: E5[tensor([0, 5])], IndexError, ["index 5 is out of bounds for dimension 0", "at position [1]"]),
    "too-many": (lambda: E5[0, 0, 0], IndexError, ["too many indices for tensor of dimension 2", "got 3"]),
    "too-many-arrays": (lambda: E5[[0], [0], [0]], IndexError, ["too many indices", "dimension 2"]),
    "ellipses": (lambda: E5[..., 0, ...], IndexError, ["single ellipsis"]),
    "0-d": (lambda: zeros(())[0], IndexError, ["invalid index of a 0-dim tensor", "item()"]),
    "0-d-slice": (lambda: zeros(())[:], IndexError, ["too many indices", "dimension 0"]),
    "negative-step": (lambda: E5[::-1], ValueError, ["step must be greater than zero", "-1", "flip"]),
    "negative-step-in-tuple": (lambda: E5[:, ::-2], ValueError, ["step must be greater than zero", "flip"]),
    "zero-step": (lambda: E5[::0], ValueError, ["slice step cannot be zero"]),
    "mask": (
        lambda: E5[tensor([True, False])],
        IndexError,
        ["shape of the mask [2] at index 0", "does not match the shape of the indexed tensor [5, 3] at index 0"],
    ),
    "mask-second": (lambda: E5[:, tensor([True, False])], IndexError, ["mask [2]", "[5, 3] at index 1"]),
    "together": (lambda: E5[[0, 1], [0, 1, 2]], IndexError, ["could not be broadcast together", "[2], [3]"]),
    "float": (lambda: E5[1.5], IndexError, ["only integers, slices", "float", "1.5"]),
    "float-tensor": (lambda: E5[zeros(2)], IndexError, ["must be long, int, byte or bool", "float32", ".long()"]),
    "mask-without-elements": (
        lambda: E5[tensor([], dtype=dynograd.bool)],
        IndexError,
        ["mask [0]", "[5, 3] at index 0"],
    ),
    "mask-without-elements-second": (lambda: E5[:, tensor([], dtype=dynograd.bool)], IndexError, ["[5, 3] at index 1"]),
    "float-tensor-without-elements": (lambda: E5[zeros(0)], IndexError, ["must be long, int, byte or bool", "float32"]),
    "float-list": (lambda: E5[[1.5]], IndexError, ["must be long, int, byte or bool"]),
    "float-slice": (lambda: E5[1.0:], TypeError, ["slice indices must be integers", "1.0"]),
    "text": (lambda: E5["a"], IndexError, ["only integers, slices", "'a'"]),
    "set": (lambda: E5.__setitem__(7, 1.0), IndexError, ["index 7 is out of bounds for dimension 0 with size 5"]),
    "set-array": (lambda: E5.__setitem__(tensor([0, 7]), 1.0), IndexError, ["index 7", "at position [1]"]),
    "set-value": (
        lambda: E5.__setitem__(tensor([0, 1]), zeros(3, 3)),
        RuntimeError,
        ["shape mismatch", "[3, 3]", "[2, 3]"],
    ),
    "set-region": (lambda: E5.__setitem__(slice(2), zeros(3, 3)), RuntimeError, ["(3, 3)", "(2, 3)"]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, kind, words = ERRORS[name]
    with pytest.raises(kind) as caught:
        call()
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"the message lacks {missing}: {caught.value}"


# --- forms of one index --------------------------------------------------------------------------------------------------------

P, ROW_MASK, COLUMN_MASK = numpy.array([2, 0, -1]), MASK[0, :3], numpy.array([True, False, True, True])
FORMS = {  # index -> what NumPy is given, when that is another
    "0-d": (tensor(-2), -2),
    "0-d int32": (tensor(1, dtype=dynograd.int32), 1),
    "numpy int": (numpy.int64(2), 2),
    "numpy uint8": (numpy.uint8(2), 2),
    "0-d pair": ((tensor(1), numpy.int32(-1)), (1, -1)),
    "0-d beside slice": ((slice(1, None), tensor(2)), (slice(1, None), 2)),
    "0-d bounds": (slice(tensor(1), tensor(3)), slice(1, 3)),
    "0-d bound in a tuple": ((Ellipsis, slice(tensor(1), None), 0), (Ellipsis, slice(1, None), 0)),
    "numpy step": (slice(None, None, numpy.int64(2)), slice(None, None, 2)),
    "range": (range(2), [0, 1]),
    "lists": (([0, 1], [2, 3]), ([0, 1], [2, 3])),
    "list of bools": ([True, False, True], [True, False, True]),
    "int32": (tensor(P).int(), P),
    "array": (P, P),
    "array of int16": (P.astype("int16"), P),
    "tensor and slice": ((tensor(P), slice(1, 3)), (P, slice(1, 3))),
    "tensor and step": ((slice(None, None, 2), tensor(P)), (slice(None, None, 2), P)),
    "tensor and None": ((tensor(P), None), (P, None)),
    "tensor last": ((Ellipsis, tensor([1, 0])), (Ellipsis, [1, 0])),
    "tensor, all, tensor": ((tensor(P), slice(None), tensor([1, 0, 0])), (P, slice(None), [1, 0, 0])),
    "mask": (tensor(MASK), MASK),
    "mask of rows": (tensor(ROW_MASK), ROW_MASK),
    "mask of columns": ((slice(None), tensor(COLUMN_MASK)), (slice(None), COLUMN_MASK)),
    "array of bools": ((slice(None), COLUMN_MASK), (slice(None), COLUMN_MASK)),
}
SELECTED_FIRST = {  # an int beside index arrays selects before they pick
    "int after": ((tensor(P), 1), lambda x: x[:, 1][P]),
    "int before": ((1, tensor([2, 0])), lambda x: x[1][[2, 0]]),
    "0-d between": ((tensor(P), tensor(1), tensor([1, 0, 0])), lambda x: x[:, 1][P, [1, 0, 0]]),
    "mask and int": ((tensor(ROW_MASK), -1), lambda x: x[:, -1][ROW_MASK]),
    "0-d and mask": ((tensor(1), tensor(COLUMN_MASK)), lambda x: x[1][COLUMN_MASK]),
}


def expected(name, x):
    if name in SELECTED_FIRST:
        index, reference = SELECTED_FIRST[name]
        return index, reference(x)
    index, key = FORMS[name]
    return index, x[key]


@pytest.mark.parametrize("aside", [False, True], ids=["quick", "general"])
@pytest.mark.parametrize("name", [*FORMS, *SELECTED_FIRST])
def test_form(name, aside):
    """The same elements by the shortcut and without it, with the gradient of what was picked."""
    x = numpy.random.default_rng(3).normal(size=(3, 4, 2))
    index, reference = expected(name, x)
    places = expected(name, numpy.arange(24).reshape(3, 4, 2))[1]
    set_quick_ways_aside(1 if aside else 0)
    try:
        for argument in (tensor(x), tensor(x.transpose(2, 1, 0).copy()).permute(2, 1, 0)):
            result = argument[index]
            assert result.shape == reference.shape
            assert (result.numpy() == reference).all()
            argument.requires_grad_()
            weights = tensor(numpy.arange(1.0, 1 + reference.size).reshape(reference.shape))
            (argument[index] * weights).sum().backward()
            gradient = numpy.zeros(24)
            numpy.add.at(gradient, places.reshape(-1), weights.numpy().reshape(-1))
            assert (argument.grad.numpy().reshape(-1) == gradient).all()
    finally:
        set_quick_ways_aside(-1 if aside else 0)


def test_what_stands_for_ints_gives_views():
    x = zeros(3, 4)
    for index in (tensor(1), numpy.int64(1), slice(tensor(1), tensor(2)), (tensor(1), slice(None))):
        x[index].add_(1.0)
    assert x.tolist() == [[0.0] * 4, [4.0] * 4, [0.0] * 4]


def test_0d_uint8_is_a_mask_as_in_pytorch():
    with pytest.warns(UserWarning, match="uint8"):
        assert zeros(3)[tensor(1, dtype=dynograd.uint8)].shape == (1, 3)


def test_adding_to_a_part_writes_it_once():
    x = zeros(3, 4)
    part = slice(1, 3)
    x[part] += 1.0
    x[1] += 1.0
    x[0, 2:] += 1.0
    x[..., 0] -= 1.0
    assert x.tolist() == [[-1.0, 0.0, 1.0, 1.0], [1.0, 2.0, 2.0, 2.0], [0.0, 1.0, 1.0, 1.0]]
    y = x[1:]
    y[0] *= 10.0
    assert x[1].tolist() == [10.0, 20.0, 20.0, 20.0]


def test_adding_to_a_part_is_recorded():
    x = dynograd.ones(3, 4, requires_grad=True)
    y = x * 1.0
    y[1] *= 3.0
    y[:, 1] *= 2.0
    y.sum().backward()
    assert x.grad.tolist() == [[1.0, 2.0, 1.0, 1.0], [3.0, 6.0, 3.0, 3.0], [1.0, 2.0, 1.0, 1.0]]


def test_a_part_that_was_changed_is_written():
    x = dynograd.arange(12.0).reshape(3, 4)
    row = x[1]
    row.data = x[0].clone()
    x[1] = row
    assert x[1].tolist() == [0.0, 1.0, 2.0, 3.0]
    index, square = slice(0, 3), dynograd.arange(9.0).reshape(3, 3)
    turned = square[index]
    turned.t_()
    square[index] = turned.clone()
    assert square.tolist() == [[0.0, 3.0, 6.0], [1.0, 4.0, 7.0], [2.0, 5.0, 8.0]]


@pytest.mark.parametrize(
    "index", [[True, False], numpy.array([True, False]), tensor([True, False])], ids=["list", "array", "tensor"]
)
@pytest.mark.parametrize("grad", [False, True])
def test_a_mask_of_another_length(index, grad):
    with pytest.raises(IndexError, match=r"shape of the mask \[2\] at index 0 does not match"):
        dynograd.ones(3, 2, requires_grad=grad)[index]


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda x, y: x.__setitem__(-1, x[0]), lambda x, y: x.__setitem__(-1, x[0].copy())),
        (lambda x, y: x.__setitem__(slice(1, 3), x[3:5]), lambda x, y: x.__setitem__(slice(1, 3), x[3:5].copy())),
        (lambda x, y: x.__setitem__((0, slice(0, 2)), x[1, 2:4]), lambda x, y: x.__setitem__((0, slice(0, 2)), x[1, 2:4].copy())),
        (lambda x, y: y.__setitem__(tensor(3), 5.0), lambda x, y: y.__setitem__(3, 5.0)),
        (lambda x, y: y.__setitem__(tensor(-1), tensor(7.0)), lambda x, y: y.__setitem__(-1, 7.0)),
        (lambda x, y: x.__setitem__((tensor(1), tensor(2)), 4.0), lambda x, y: x.__setitem__((1, 2), 4.0)),
        (lambda x, y: x.__setitem__(tensor(1), x[2]), lambda x, y: x.__setitem__(1, x[2].copy())),
    ],
)  # fmt: skip
def test_quick_writes(write, expected):
    """Rows of the tensor itself, and places told by tensors without dims."""
    x, y = numpy.arange(20.0).reshape(5, 4), numpy.arange(6.0)
    reference = x.copy(), y.copy()
    ours = tensor(x), tensor(y)
    versions = [our._version for our in ours]
    write(*ours)
    expected(*reference)
    for element, other in zip(ours, reference, strict=True):
        numpy.testing.assert_array_equal(element.numpy(), other)
    assert sum(our._version for our in ours) > sum(versions)


def test_quick_writes_that_are_refused():
    y = zeros(3)
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        y[tensor(3)] = 1.0
    x = zeros(5, 2)
    with pytest.raises(RuntimeError, match="memory"):
        x[1:4] = x[0:3]
