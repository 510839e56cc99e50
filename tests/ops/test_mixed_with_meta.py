"""An operand on "meta" behind one of the CPU: an error that says so, never a number that was read from no memory, nor a crash."""

import pytest

import dynograd
from dynograd.arrays.meta_arrays import MetaArray, NoValuesError
from dynograd.tensor.tensor import Tensor, wrap
from tests.ops.arguments import Subject, converted, draw
from tests.ops.tables import all_rows, title_of

# They ask the second operand for its shape or dtype only.
OF_SHAPES = ("expand_as", "reshape_as", "type_as", "view_as")


def test_every_op_of_several_operands_refuses():
    silent, checked = [], 0
    for family, row in all_rows():
        if not row.dtypes or row.name in OF_SHAPES or family == "complexes":
            continue
        arrays = draw(row).map(lambda array, row=row: converted(array, row.dtypes[0]))
        if len(arrays.leaves()) < 2 or not arrays.leaves()[0].ndim:
            continue
        for behind in range(1, len(arrays.leaves())):
            numbers = iter(range(len(arrays.leaves())))

            def placed(array, behind=behind, numbers=numbers):
                return wrap(array).to("meta") if next(numbers) == behind else wrap(array)

            checked += 1
            try:
                results = Subject(row).run(arrays.map(placed))
            except (NoValuesError, ValueError, IndexError, RuntimeError, TypeError):
                continue
            results = results if isinstance(results, (tuple, list)) else (results,)
            if not any(isinstance(result, Tensor) and type(result.array) is MetaArray for result in results):
                silent.append(f"{family} {title_of(row)} {behind}")
    assert checked > 500 and not silent


def test_what_is_said_and_writes():
    x, m = dynograd.ones(3, 4), dynograd.ones(3, 4, device="meta")
    places = dynograd.tensor([0, 2]).to("meta")
    text = r"layer_norm: an operand of shape \(4,\) lies on device 'meta', which has no values, and the first, of shape \(3, 4\), on 'cpu'"
    with pytest.raises(NoValuesError, match=text):
        dynograd.nn.functional.layer_norm(x, (4,), m[0])
    for write in (
        lambda: x.__setitem__(places, 1.0),
        lambda: x.__setitem__(dynograd.tensor([0, 1, 2]), m),
        lambda: x.__setitem__(0, m[0]),
        lambda: x.copy_(m),
        lambda: x.add_(m),
        lambda: x.index_put_((places,), dynograd.tensor(2.0)),
    ):
        with pytest.raises(NoValuesError):
            write()
    assert dynograd.equal(x, dynograd.ones(3, 4))
    assert dynograd.nn.functional.embedding(dynograd.tensor([1]), m).is_meta  # indices may lie anywhere
