"""Every op in the table on rows drawn by hypothesis: any lengths, empty rows, empty batches, one ragged dim, two levels of rows, images.

An op gives for each row what it gives for that row alone, and so do its first and second derivatives; and which dims of a result are ragged
does not depend on the lengths that happen to be there. Rows that an op refuses alone (too short for a kernel) are left out.
"""

from __future__ import annotations

import os
from functools import cache, partial

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import dynograd
from dynograd.tensor.tensor import Tensor
from tests.ragged.samples import Documents, Images, Item, Sample
from tests.ragged.test_every_op import ITEMS, alone, expected, several
from tests.ragged.test_every_op import check as check_every
from tests.support.cases import run_all

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of the ops, of rows alone and together alike

MISTAKES = (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError)
SEEDS = st.integers(0, 99)
KINDS = {
    "rows": st.builds(Sample, st.lists(st.integers(0, 5), max_size=5), SEEDS),
    "levels": st.builds(Documents, st.lists(st.lists(st.integers(0, 4), max_size=3), max_size=3), SEEDS),
    "images": st.builds(Images, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=4), SEEDS),
}
USUAL = {
    "rows": Sample([3, 2, 5, 3]),
    "levels": Documents([[3, 2], [], [5, 3]]),
    "images": Images([(2, 3), (3, 2), (2, 5), (2, 3)]),
}
# Dims of these are counted by name, so that of several levels they are others: tested by name in test_levels.py.
BY_NUMBER = frozenset("hstack column_stack dstack hsplit dsplit fliplr".split())
# Of these the sizes are cut: at what rows have, or at the shorter of two dims.
CUT = frozenset(
    "diag diagonal diagonal_copy linalg_diagonal hsplit tensor_split pad constant_pad_nd slice_copy".split()
)
GARBAGE = frozenset(["median_of_all"])  # of nothing; `median` knows

FEW = int(os.environ.get("DYNOGRAD_EXAMPLES", "2"))
MANY = max(8, FEW)
SETTINGS = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


def takes(item: Item, created: Sample) -> bool:
    """Whether the op takes these rows alone."""
    try:
        expected(item, created)
    except MISTAKES:
        return False
    return True


def takes_nothing(item: Item, created: Sample) -> bool:
    """Whether the op takes a dense batch without rows."""
    try:
        item.run(created.no_rows())
    except MISTAKES:
        return False
    return True


def forms(result) -> list[list]:
    """The sizes behind the rows, "j" where they are ragged."""
    return [
        [size if isinstance(size, int) else "j" for size in element.shape[1:]]
        for element in several(result)
        if isinstance(element, Tensor)
    ]


@cache
def usual_forms(item: Item, kind: str) -> list[list]:
    return forms(item.run(USUAL[kind].whole()))


def check(item: Item, kind: str, created: Sample) -> None:
    apart, refused = [], set()
    for number in [-1] if item.mode == "all" else range(len(created.lengths)):
        try:
            apart.append(alone(item, created, number))
        except MISTAKES:
            refused.add(number)
    if refused and not apart:
        return
    if item.mode == "all":
        if item.name not in GARBAGE or created.whole()["x"].numel():
            check_every(item, created, apart)
        return
    created = created.without(refused)
    if not created.lengths and not takes_nothing(item, created):
        return
    check_every(item, created, apart)
    result = item.run(created.whole())
    for element in several(result):
        assert not isinstance(element, Tensor) or len(element) == len(created)
    if (
        created.lengths and item.name not in CUT and created.whole()["x"].numel()
    ):  # without elements a 0 may stay a number
        assert forms(result) == usual_forms(item, kind)


def test_images_are_taken_by_most():
    """Ops that name the dims of a row (a convolution) do not take rows of one dim more; all others do."""
    taken = {item.name for item in ITEMS if takes(item, USUAL["images"])}
    assert len(taken) > 0.85 * len({item.name for item in ITEMS})


@cache
def drawn(kind: str, count: int) -> list[Sample]:
    """The same ones in every process."""
    created = []

    @settings(SETTINGS, max_examples=count)
    @given(one=KINDS[kind])
    def note(one: Sample) -> None:
        created.append(one)

    note()
    return created


@pytest.mark.parametrize("item", ITEMS, ids=repr)
def test_any_rows(item, request):
    """On few draws where the slow tests are left out."""
    count = FEW if "not slow" in request.config.option.markexpr else MANY
    cases = []
    for kind in KINDS:
        if kind == "levels" and item.name in BY_NUMBER:
            continue
        if kind == "images" and not takes(item, USUAL[kind]):
            continue  # a row of one dim more is none that the op takes alone
        cases += [(f"{kind}-{created!r}", partial(check, item, kind, created)) for created in drawn(kind, count)]
    run_all(repr(item), cases)


def test_what_is_refused_names_the_reason():
    x = dynograd.ragged_tensor([[dynograd.ones(2, 4)], [dynograd.ones(1, 4), dynograd.ones(3, 4)]])
    for call in (lambda: x.sum(1), lambda: x.cumsum(1), lambda: x.tril(diagonal=0).sort(1), lambda: x.kthvalue(1, 1)):
        with pytest.raises(NotImplementedError, match=r"dim 1 .* have different lengths"):
            call()
    with pytest.raises(NotImplementedError, match=r"a dense operand of shape \(2, 3, 1, 3\) has no levels of rows"):
        dynograd.linalg.cross(x[..., :3], dynograd.ones(2, 3, 1, 4)[..., :3])
