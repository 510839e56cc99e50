"""The harness finds what it is there to find: rows about wrong ops fail in the case that tells."""

import numpy
import pytest

import dynograd
from dynograd.autograd.nodes import Node
from dynograd.tensor.tensor import wrap
from tests.ops.cases import cases_of
from tests.ops.harness import FLOATS, INTEGERS, Row, error, generate
from tests.support.cases import run_all


def failures(row):
    """The names of the cases that fail."""
    failed = []
    for name, check in cases_of(row):
        try:
            check()
        except Exception:
            failed.append(name)
    return failed


def names(row):
    return [name for name, _ in cases_of(row)]


def test_right_ops_pass_every_case():
    rows = [
        Row("tanh", numpy.tanh, shapes=[(3, 4)], dtypes=FLOATS + INTEGERS),
        Row("mul", numpy.multiply, shapes=[(3, 4), (3, 4)], broadcast=True),
        Row("matmul", numpy.matmul, shapes=[(2, 3), (3, 2)], empty=[[(0, 3), (3, 2)], [(2, 0), (0, 2)]]),
    ]
    for row in rows:
        assert failures(row) == []


def test_a_wrong_value_fails_forward():
    assert "forward-float64" in failures(Row("tanh", lambda x: numpy.tanh(x) + 1e-6, shapes=[(3,)]))


def test_a_wrong_gradient_fails_every_check_of_derivatives():
    class Wrong(Node):
        __slots__ = ()

        def apply(self, g):
            return (g * 2,)

        apply_graph = apply

    def identity(x):
        created = wrap(x.array * 1)
        if x.requires_grad and dynograd.is_grad_enabled():
            created.node, created._requires_grad = Wrong(), True
            created.node.edges, created.node.seq, created.node.hooks, created.node.attrs = (x,), 10**9, None, None
        return created

    failed = failures(Row("wrong", lambda x: x, shapes=[(3,)], function=identity, jvp=False))
    assert "gradient" in failed
    assert "forward-float64" not in failed


def test_an_op_that_writes_into_its_input_fails():
    def careless(x):
        x.array[...] += 1
        return x

    assert "forward-float32" in failures(Row("careless", lambda x: x + 1, shapes=[(3,)], function=careless, grad=False))


def test_a_wrong_dtype_fails():
    row = Row("narrow", lambda x: x, shapes=[(3,)], function=lambda x: wrap(x.array.astype("float32")), grad=False)
    assert "forward-float32" not in failures(row)
    assert "forward-float64" in failures(row)


def test_an_op_that_ignores_strides_fails():
    def careless(x):
        first = x.array.reshape(-1)[:1] if not x.array.size else x.array
        while first.base is not None:
            first = first.base
        return wrap(first.reshape(-1)[: x.array.size].reshape(x.array.shape).copy())

    assert failures(Row("careless", lambda x: x, shapes=[(3, 4)], function=careless, grad=False)) == ["strided", "meta"]


def test_errors_need_type_and_words():
    def refuses(x):
        raise ValueError("refuses: expected 3, got 4.")

    row = Row(
        "refuses",
        None,
        shapes=[(3,)],
        dtypes=(),
        ones=False,
        empty=False,
        function=refuses,
        errors=[
            error(lambda op: op(1), ValueError, "expected 3", "got 4"),
            error(lambda op: op(1), ValueError, "expected 5"),
            error(lambda op: op(1), TypeError, "expected 3"),
            error(lambda op: None, ValueError),
        ],
    )
    assert failures(row) == ["error1", "error2", "error3"]


def test_a_missing_op_is_one_failing_case():
    assert names(Row("no_such_op", numpy.tanh, shapes=[(3,)])) == ["exists"]
    with pytest.raises(LookupError, match="no_such_op"):
        next(cases_of(Row("no_such_op", numpy.tanh, shapes=[(3,)])))[1]()


def test_two_rows_of_one_name_need_ids():
    rows = [Row("tanh", numpy.tanh, shapes=[(3,)]), Row("tanh", numpy.tanh, shapes=[(2, 3)])]
    with pytest.raises(ValueError, match=r"'tanh'.*id"):
        generate(rows)


def test_a_failing_case_is_named_and_the_others_run():
    ran = []

    def check(number):
        ran.append(number)
        if number % 2:
            raise ArithmeticError(f"number {number}")

    with pytest.raises(ArithmeticError, match="number 1") as caught:
        run_all("numbers", [(f"of {number}", lambda number=number: check(number)) for number in range(3)])
    assert caught.value.__notes__ == ["in the case numbers-of 1"] and ran == [0, 1, 2]
    with pytest.raises(BaseExceptionGroup, match="numbers: 2 of 4 cases failed: of 1, of 3") as caught:
        run_all("numbers", [(f"of {number}", lambda number=number: check(number)) for number in range(4)])
    assert [str(exception) for exception in caught.value.exceptions] == ["number 1", "number 3"]


def test_a_case_depends_on_no_other():
    drawn = []

    def draw():
        drawn.append((float(dynograd.rand(())), float(numpy.random.rand())))

    run_all("draws", [("first", draw), ("second", draw)])
    assert drawn[0] == drawn[1]
