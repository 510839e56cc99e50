"""Many matrix products at once, against each for itself."""

import numpy
import pytest

from dynograd.kernels.matmul.product_plans import ProductPlan
from dynograd.ops.matmul.grouped_products import grouped_products
from tests.ops.harness import Row, generate

SIZES = [(2, 3, 4), (1, 1, 1), (0, 2, 3), (3, 2, 0), (5, 4, 3)]  # m, n, k


def plan_of(sizes, apart=0):
    """Matrices behind one another, in all three vectors; `apart` elements between them."""
    table, ends = [], numpy.zeros(3, int)
    for m, n, k in sizes:
        table.append([*ends, m, n, k])
        ends += [m * k + apart, k * n + apart, m * n + apart]
    return ProductPlan(numpy.array(table, numpy.int64).reshape(-1, 6), tuple(ends.tolist()))


def np_products(a, b, plan, transposed_a=False, transposed_b=False):
    created = numpy.zeros(plan.sizes[2])
    for at_a, at_b, at_c, m, n, k in plan.table:
        element, two = a[at_a : at_a + m * k], b[at_b : at_b + k * n]
        element = element.reshape(k, m).T if transposed_a else element.reshape(m, k)
        two = two.reshape(n, k).T if transposed_b else two.reshape(k, n)
        created[at_c : at_c + m * n] = (element @ two).reshape(-1)
    return created


def row(plan, a, b, id=""):
    return Row(
        "grouped_products", np_products, function=grouped_products, dtypes=("float32", "float64"), strided=False,
        args=lambda rng: [rng.normal(size=plan.sizes[0]), rng.normal(size=plan.sizes[1]), plan, a, b], id=f"{a} {b} {id}",
    )  # fmt: skip


ROWS = [row(plan_of(SIZES), a, b) for a in (False, True) for b in (False, True)]
ROWS += [row(plan_of(SIZES[:2], apart=2), False, True, "with gaps"), row(plan_of([]), False, False, "nothing")]
test_rows = generate(ROWS)


@pytest.mark.parametrize(
    "table, words",
    [
        ([[-1, 0, 0, 1, 1, 1]], "matrix a goes from -1 to 0"),
        ([[0, 0, 0, 1, 1, 1], [0, 4, 0, 1, 2, 1]], "product 1: matrix b goes from 4 to 6 of 5"),
        ([[0, 0, 3, 1, 3, 1]], "matrix c goes from 3 to 6 of 5"),
        ([[0, 0, 0, -1, 1, -1]], r"m, n, k = \[-1, 1, -1\]"),
    ],
)
def test_a_plan_that_leads_outside_is_refused(table, words):
    with pytest.raises(IndexError, match=words):
        ProductPlan(numpy.array(table), (5, 5, 5))


@pytest.mark.parametrize("large", [0, 3, 5, 16, 31], ids="large at {}".format)
def test_halves_have_about_the_same_work_beside_one_large_product(large):
    sizes = [(20, 20, 16)] * 32
    sizes[large] = (160, 160, 16)  # two thirds of all
    until = numpy.cumsum([0] + [m * n * k for m, n, k in sizes])
    heavier = numpy.maximum(until, until[-1] - until)  # of the two halves, for each place to cut
    starts = plan_of(sizes).groups(64)
    assert heavier[starts[len(starts) // 2]] <= heavier.min() + 20 * 20 * 16
