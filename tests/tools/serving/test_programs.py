"""Exported programs as models of a service: what a request brings, what answers it, and what clients are told of inputs and outputs."""

import threading

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.errors import ProgramError
from dynograd.serving import Batcher, Caller, Service

ROWS = [[1, 2, 3], [4], [5, 6], [7, 8, 9, 1, 2]]


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.states, self.scores = nn.Embedding(10, 4), nn.GRU(4, 3, batch_first=True), nn.Linear(3, 2)

    def forward(self, words):
        states, _ = self.states(self.words(words))
        return {"scores": self.scores(states.mean(1)), "states": states}


@pytest.fixture(scope="module")
def tagger():
    dynograd.manual_seed(0)
    return Tagger().eval()


def exported(function, *args, **options):
    return dynograd.export.export(function, args, **options)


def weighted(x, y, rows):
    return x @ y, rows * 2


def plain():
    return exported(
        weighted,
        dynograd.ones(2, 3),
        dynograd.ones(3, 4),
        dynograd.ragged_tensor([[1.0, 2.0], [3.0]]),
        dynamic_shapes={"x": {0: "n"}},
    )


def test_rows_of_requests_are_answered_in_ragged_batches(tagger, tmp_path):
    path = tmp_path / "tagger.dg"
    dynograd.export.save_program(tagger, (dynograd.ragged_tensor(ROWS[:2]),), path)
    with Service() as service:
        with dynograd.use_batch_invariant(True):
            model = service.add_program("tag", path, max_wait=0.2)
            with dynograd.no_grad():
                alone = [tagger(dynograd.ragged_tensor([row])) for row in ROWS]
        answers = [model.submit(row, None) for row in ROWS]
        for answer, expected in zip(answers, alone):
            assert answer.result()["scores"].tolist() == expected["scores"][0].tolist()
            assert answer.result()["states"].tolist() == expected["states"].unbind()[0].tolist()
        assert isinstance(model.engine, Batcher) and model.engine.batches < len(ROWS)


def test_clients_are_told_of_inputs_and_outputs(tagger):
    with Service() as service:
        rows = service.add_program("tag", exported(tagger, dynograd.ragged_tensor(ROWS)))
        assert rows.inputs == (("words", "INT64", [-1]),)
        assert rows.outputs == (("scores", "FP32", [2]), ("states", "FP32", [-1, 3]))
        whole = service.add_program("plain", plain())
        assert isinstance(whole.engine, Caller)
        assert whole.inputs == (
            ("x", "FP32", [-1, 3]),
            ("y", "FP32", [3, 4]),
            ("rows", "FP32", [-1]),
            ("rows_offsets", "INT64", [-1]),
        )
        assert whole.outputs == (
            ("output_0", "FP32", [-1, 4]),
            ("output_1", "FP32", [-1]),
            ("output_1_offsets", "INT64", [-1]),
        )


def test_whole_tensors_are_answered_by_the_program():
    with Service() as service:
        body = {"x": [[1, 2, 3]], "y": [[1.0] * 4] * 3, "rows": [1.0, 2.0, 3.0], "rows_offsets": [0, 1, 3]}
        answer = service.add_program("plain", plain()).submit(body, None).result()
        assert answer["output_0"].tolist() == [[6.0] * 4]
        assert (answer["output_1"].tolist(), answer["output_1_offsets"].tolist()) == ([2.0, 4.0, 6.0], [0, 1, 3])


def test_an_answer_of_another_number_of_rows_is_no_answer_for_rows():
    with Service() as service:
        total = exported(lambda rows: rows.values.sum(0), dynograd.ragged_tensor([[1.0], [2.0, 3.0]]))
        model = service.add_program("total", total)
        assert isinstance(model.engine, Caller)
        assert model.submit({"rows": [1.0, 2.0, 4.0], "rows_offsets": [0, 3]}, None).result().item() == 7.0


def test_arguments_are_nested_as_they_were():
    with Service() as service:
        mean = exported(
            lambda batch, scale: batch["a"] * scale - batch["b"], {"a": dynograd.ones(2), "b": dynograd.ones(2)}, 3
        )
        model = service.add_program("mean", mean)
        names = [spec.name for spec in model.inputs]
        assert model.submit(dict(zip(names, ([1, 2], [1, 1]))), None).result().tolist() == [2.0, 5.0]


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (5, ValueError, r"expected shape \[-1\] for words"),
        ([1.5], ValueError, "data is not of INT64"),
        ([[1]], ValueError, r"got \[1, 1\]"),
        ("word", ValueError, "data is not of INT64"),
        ([1, [2]], ValueError, "data is not of INT64"),
        ([2**70], ValueError, "data is not of INT64"),
        ({"text": [1]}, ValueError, "expected the inputs words, got text"),
        (dynograd.ones(2), TypeError, "expected INT64 for words, got FP32"),
        ([1] * 9, ValueError, "length 9, and at most 8"),
    ],
)
def test_rows_that_do_not_fit_are_the_clients_mistake(tagger, body, error, words):
    with Service() as service:
        model = service.add_program("tag", exported(tagger, dynograd.ragged_tensor(ROWS)), max_length=8)
        with pytest.raises(error, match=words):
            model.submit(body, None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": [[1.0, 2.0]]}, r"expected shape \[-1, 3\] for x"),
        ({"x": [], "y": [[1.0] * 4] * 3}, "expected shape"),
        ({"rows_offsets": [0, 9]}, "offsets end with 9|past the values"),
        ({"rows_offsets": [0, 2, 1, 3]}, "must not fall"),
        ({"rows_offsets": [-1, 3]}, "must begin with 0"),
        ({"z": [1]}, "expected the inputs x, y, rows, rows_offsets, got x, y, rows, rows_offsets, z"),
    ],
)
def test_tensors_that_do_not_fit_are_the_clients_mistake(changes, words):
    with Service() as service:
        model = service.add_program("plain", plain())
        body = {"x": [[1, 2, 3]], "y": [[1.0] * 4] * 3, "rows": [1.0, 2.0, 3.0], "rows_offsets": [0, 1, 3]}
        with pytest.raises((ValueError, LookupError), match=words):
            model.submit({**body, **changes}, None)


def test_what_the_protocol_does_not_have_is_refused():
    with Service() as service, pytest.raises(ProgramError, match="x is complex64.*Export a program that converts it"):
        service.add_program("c", exported(lambda x: x.abs(), dynograd.ones(2, dtype=dynograd.complex64)))


def test_callers_answer_one_by_one_and_errors_are_of_their_example():
    inside = threading.Semaphore(1)

    def inverse(x):
        assert inside.acquire(blocking=False)
        inside.release()
        return 1 / x

    with Caller(inverse) as caller:
        futures = [caller.submit(x) for x in (2, 0, 4)]
        assert (futures[0].result(), futures[2].result()) == (0.5, 0.25)
        with pytest.raises(ZeroDivisionError):
            futures[1].result()
    assert caller.desk.counts["failed"] == 1


def test_kserves_clients_and_json_get_the_same(tagger):
    pytest.importorskip("starlette", reason="the extra serve is not installed")
    pytest.importorskip("prometheus_client", reason="the extra serve is not installed")
    pytest.importorskip("httpx2", reason="httpx2, which starlette's client of tests needs, is not installed")
    from starlette.testclient import TestClient

    with Service() as service:
        service.add_program("tag", exported(tagger, dynograd.ragged_tensor(ROWS)))
        with TestClient(service.app()) as client:
            answer = client.post("/tag", json=ROWS[0]).json()
            tensor = {"name": "words", "datatype": "INT64", "shape": [3], "data": ROWS[0]}
            reply = client.post("/v2/models/tag/infer", json={"inputs": [tensor]}).json()
            outputs = {each["name"]: numpy.reshape(each["data"], each["shape"]).tolist() for each in reply["outputs"]}
            assert outputs == answer
            assert client.get("/v2/models/tag").json()["outputs"][1] == {
                "name": "states",
                "datatype": "FP32",
                "shape": [-1, 3],
            }
            wrong = client.post("/v2/models/tag/infer", json={"inputs": [{**tensor, "datatype": "FP32"}]})
            assert wrong.status_code == 400 and "expected INT64 for words, got FP32" in wrong.json()["error"]
