"""What readers see of calls, and when the code that asks them is written."""

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import dynograd
from dynograd.ops.op import registry
from dynograd.ops.readers import Reader, end_rest, entry_of

KEY = "glu"
FUNCTION = registry[KEY].function


class Noting(Reader):
    """Notes the calls of one op, and when its code is written."""

    name = "checkpoint"

    def __init__(self):
        super().__init__()
        self.calls, self.writings = [], 0

    def sees(self, entry):
        return entry.function is entry_of(inspect.unwrap(FUNCTION)).function

    def call(self, entry, below, args, kwargs):
        self.calls.append(entry.key)
        return below(*args, **kwargs)

    def write(self, entry, below, names):
        self.writings += 1
        return super().write(entry, below, names)


@pytest.fixture
def noting():
    reader = Noting()
    reader.turn_on()
    yield reader
    while reader.times:
        reader.turn_off()


def glu():
    return dynograd.nn.functional.glu(dynograd.ones(2, 4))


def test_code_that_asks_is_written_at_the_first_call(noting):
    assert noting.writings == 0
    results = [glu(), glu()]
    assert noting.calls == [KEY, KEY] and noting.writings == 1
    noting.turn_off()
    assert dynograd.equal(glu(), results[0]) and dynograd.equal(*results) and noting.calls == [KEY, KEY]
    noting.turn_on()
    glu()
    assert noting.calls == [KEY] * 3 and noting.writings == 1


def test_code_is_written_once_for_several_threads(noting):
    begin = threading.Barrier(4)

    def call(_):
        begin.wait()
        return glu().tolist()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(call, range(4)))
    assert results == [results[0]] * 4 and noting.calls == [KEY] * 4 and noting.writings == 1


def test_a_function_looks_the_same_before_its_code_is_written(noting):
    entry = entry_of(inspect.unwrap(FUNCTION))
    shown = inspect.signature(entry.function), entry.function.__name__, entry.function.__doc__
    assert shown == (inspect.signature(entry.plain), entry.plain.__name__, entry.function.__doc__)
    with pytest.raises(dynograd.errors.DimError, match="glu: Dimension out of range"):
        dynograd.nn.functional.glu(dynograd.ones(2, 4), 7)
    assert noting.calls == [KEY]


def test_code_is_written_while_another_reader_is_on_that_does_not_see_the_function(noting):
    with dynograd.autocast("cpu", dtype=dynograd.bfloat16):
        assert glu().shape == (2, 2) and noting.calls == [KEY]
    glu()
    assert noting.calls == [KEY] * 2


def test_a_reader_sees_what_it_did_not_see_before():
    """Nothing else has changed meanwhile: the functions have code of their own already."""

    class Choosing(Noting):
        keys = {KEY}

        def sees(self, entry):
            return entry.key in self.keys

    end_rest()
    first, reader = Choosing(), Choosing()
    for other, keys in ((first, {KEY, "selu"}), (reader, {KEY}), (reader, {KEY, "selu"})):
        if keys != other.keys:
            other.keys = keys
            other.look_anew([entry_of(inspect.unwrap(registry["selu"].function))])
        for _ in range(2):
            other.turn_on()
            glu(), dynograd.selu(dynograd.ones(2))
            other.turn_off()
    assert first.calls == [KEY, "selu"] * 2
    assert reader.calls == [KEY, KEY] + [KEY, "selu"] * 2
