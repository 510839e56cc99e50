"""The HTTP routes of a service: answers, streams, limits, health, metrics, KServe's protocol."""

import asyncio
import contextlib
import json
import socket
import sys
import threading

import numpy
import pytest

import dynograd
from dynograd.serving import Batcher, Service
from dynograd.tools.web import protocol
from tools.fuzz_serving import fuzz

pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("prometheus_client", reason="the extra serve is not installed")
Metrics = pytest.importorskip("dynograd.tools.web.metrics", reason="the extra serve is not installed").Metrics
httpx = pytest.importorskip("httpx2", reason="httpx2, which starlette's client of tests needs, is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the extra serve is not installed")
TestClient = pytest.importorskip("starlette.testclient", reason="the extra serve is not installed").TestClient
Starlette = pytest.importorskip("starlette.applications", reason="the extra serve is not installed").Starlette
Mount = pytest.importorskip("starlette.routing", reason="the extra serve is not installed").Mount


def halvings(x):
    x = dynograd.tensor(float(x))
    while x > 1:
        x = x / 2
        yield x.item()
    return "done"


def failing(x):
    raise LookupError(f"no {x}")


class Gate:
    def __init__(self):
        self.begun, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, x):
        self.begun.set()
        assert self.go.wait(60)
        return x

    def endless(self, x):
        """Yields until it is stopped."""
        x = dynograd.tensor(float(x))
        try:
            while True:
                self.begun.set()
                yield (x * 2).item()
        finally:
            self.ended.set()

    def looking(self, x):
        """Decides until it is stopped."""
        x = dynograd.tensor(float(x))
        try:
            while (x * 2).item() >= 0:
                self.begun.set()
        finally:
            self.ended.set()


def doubled(value):
    if isinstance(value, dict):
        return {"sum": value["a"] + value["b"], "difference": value["a"] - value["b"]}
    return [text * 2 for text in value] if isinstance(value, list) else value * 2


def service_with(**options):
    service = Service(**options)
    service.add("double", doubled, inputs=[("x", "FP32", [-1])], outputs=[("output", "FP32", [-1])])
    service.add("double", lambda x: x * 4, version="4")
    service.add("sum", Batcher(lambda rows: rows.sum(1)), max_length=5)
    service.add("halvings", halvings)
    service.add("failing", failing)
    service.page("/", "<h1>hello</h1>")
    return service


@pytest.fixture
def client():
    with service_with() as service, TestClient(service.app()) as opened:
        yield opened


@contextlib.contextmanager
def served(service):
    """The address of a real server in a thread."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    server = uvicorn.Server(uvicorn.Config(service.app(), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"127.0.0.1:{listening.getsockname()[1]}"  # connections queue up until it accepts them
    finally:
        server.should_exit = True
        thread.join(60)
        listening.close()
        assert not thread.is_alive()


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        ("/double", 4, 16),  # the version added last
        ("/double/versions/1", 4, 8),
        ("/sum", [1.0, 2.0, 3.5], 6.5),
        ("/sum", [1e-7], numpy.float32(1e-7).item()),
        ("/sum", [-0.0], -0.0),
        ("/sum", [1, 2], 3),
        ("/double/versions/1", 1e-300, 2e-300),
    ],
)
def test_json_in_json_out(client, path, body, answer):
    reply = client.post(path, json=body)
    assert (reply.status_code, reply.json()) == (200, answer)


@pytest.mark.parametrize(
    ("path", "content", "code", "words"),
    [
        ("/nothing", "1", 404, "there is no model 'nothing'; there are: double (1, 4)"),
        ("/double/versions/3", "1", 404, "no model 'double' of version '3'"),
        ("/double", "{", 400, "the body is no JSON"),
        ("/sum", "3", 400, "expected a row"),
        ("/sum", "[1, 2, 3, 4, 5, 6]", 400, "length 6, and at most 5"),
        ("/failing", "7", 500, "LookupError: no 7"),
        ("/double", "NaN", 400, "NaN is no number of JSON"),
        ("/double", "1e308", 500, "Out of range float values are not JSON compliant"),
        ("/double", "[" * 100_000, 400, "recursion"),
        ("/sum", '["\\ud800"]', 400, "TypeError"),
        ("/v2/models/double/infer", "[]", 400, 'expected {"inputs"'),
    ],
)
def test_errors_are_told_with_their_status(client, path, content, code, words):
    reply = client.post(path, content=content)
    assert reply.status_code == code and words in reply.json()["error"]


def test_a_body_beyond_the_limit_is_refused():
    with service_with(max_body=100) as service, TestClient(service.app()) as client:
        assert client.post("/sum", content="[1" + " " * 97 + "]").status_code == 200
        reply = client.post("/sum", content="[1" + " " * 98 + "]")
        assert reply.status_code == 413 and "more than 100 bytes" in reply.json()["error"]


def test_parts_of_a_body_are_joined_up_to_the_limit():
    with service_with(max_body=100) as service, TestClient(service.app()) as client:
        assert client.post("/sum", content=iter([b"[1,", b" 2", b"]"])).json() == 3.0
        assert client.post("/sum", content=iter([b"[1" + b" " * 97, b" ", b"]"])).status_code == 413


REQUESTS = [
    ("POST", "/double", "4", 200),
    ("POST", "/double/versions/3", "4", 404),
    ("POST", "/v2/models/double/versions/1/infer", '{"inputs": []}', 400),
    ("POST", "/v2/models/nothing/infer", "{}", 404),
    ("POST", "/metrics", "1", 404),
    ("POST", "/", "1", 405),
    ("POST", "/double/others", "1", 404),
    ("GET", "/double", None, 405),
]


@pytest.mark.parametrize(("method", "path", "content", "code"), REQUESTS)
def test_requests_to_models_are_answered_alike_past_starlette_and_through_it(method, path, content, code):
    """Straight, through a middleware of the user's, and mounted in another application."""
    seen = []

    class Noting:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            seen.append(scope.get("path"))
            await self.app(scope, receive, send)

    with service_with() as service:
        straight, through = service.app(), service.app()
        through.add_middleware(Noting)
        mounted = Starlette(routes=[Mount("/models", service.app())])
        replies = [
            TestClient(app).request(method, before + path, content=content)
            for app, before in ((straight, ""), (through, ""), (mounted, "/models"))
        ]
    assert [reply.status_code for reply in replies] == [code] * 3
    assert (
        len({reply.content for reply in replies}) == len({reply.headers.get("content-type") for reply in replies}) == 1
    )
    assert seen == [path]


def test_the_place_of_a_mounted_application_is_no_name_of_a_model():
    with service_with() as service:
        client = TestClient(Starlette(routes=[Mount("/double", service.app())]))
        assert client.post("/double/versions/1", json=4).status_code == 404
        assert client.post("/double/double/versions/1", json=4).json() == 8


def test_a_full_queue_is_429():
    gate = Gate()
    with Service() as service:
        service.add("slow", dynograd.batched(gate, running=True, concurrent=1, queue=1))
        with TestClient(service.app()) as client:
            pool = service.model("slow").engine
            first = pool.submit(1)
            assert gate.begun.wait(60)
            second = pool.submit(2)
            reply = client.post("/slow", json=3)
            gate.go.set()
            assert reply.status_code == 429 and reply.headers["retry-after"] == "1"
            assert first.result() == 1 and second.result() == 2


def test_a_deadline_by_header_is_504():
    gate = Gate()
    with Service() as service:
        service.add("looking", gate.looking)
        with TestClient(service.app()) as client:
            reply = client.post("/looking", json=1, headers={"X-Request-Timeout": "0.05"})
            assert reply.status_code == 504 and "deadline of" in reply.json()["error"]
            assert gate.ended.wait(60)
            wrong = client.post("/looking", json=1, headers={"X-Request-Timeout": "soon"})
            assert wrong.status_code == 400 and "positive number of seconds, got 'soon'" in wrong.json()["error"]


def test_streams_are_events(client):
    reply = client.post("/halvings", json=5)
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.text == 'data: 2.5\n\ndata: 1.25\n\ndata: 0.625\n\nevent: end\ndata: "done"\n\n'
    assert client.post("/halvings", json=5, headers={"Accept": "application/json"}).json() == [2.5, 1.25, 0.625]
    many = client.post("/halvings", json=2.0**100, headers={"Accept": "application/json"})
    assert len(many.json()) == 100
    assert 'event: error\ndata: {"error": "ValueError' in client.post("/halvings", json="five").text


@pytest.mark.parametrize("program", ["endless", "looking"])
def test_a_client_that_goes_away_stops_its_program(program):
    gate = Gate()
    with Service() as service:
        service.add("model", getattr(gate, program))
        with served(service) as address:
            host, port = address.split(":")
            with socket.create_connection((host, int(port))) as client:
                client.sendall(b"POST /model HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n2")
                assert gate.begun.wait(60)
            assert gate.ended.wait(60)


def test_only_the_key_opens():
    with service_with(api_key="secret") as service, TestClient(service.app()) as client:
        assert client.post("/double", json=1).status_code == 401
        assert client.post("/double", json=1, headers={"X-API-Key": "wrong"}).status_code == 401
        assert client.get("/v2/models/double").status_code == 401
        for header in ({"X-API-Key": "secret"}, {"Authorization": "Bearer secret"}):
            assert client.post("/double", json=1, headers=header).json() == 4
        assert client.get("/healthz").status_code == 200


def test_health_readiness_and_pages(client):
    assert client.get("/").text == "<h1>hello</h1>"
    for path in ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready", "/v2/models/double/ready"):
        assert client.get(path).status_code == 200, path
    with Service() as empty, TestClient(empty.app()) as other:
        assert other.get("/readyz").status_code == 503


def test_a_closed_service_is_not_ready(client):
    with service_with() as service, TestClient(service.app()) as client:
        service.close()
        assert client.get("/readyz").status_code == 503 and client.post("/double", json=1).status_code == 503


def test_metrics_count_requests_by_model_and_status(client):
    for path, body in (("/double", 1), ("/double", 2), ("/failing", 1)):
        client.post(path, json=body)
    lines = client.get("/metrics").text.splitlines()
    assert 'dynograd_requests_total{code="200",model="double",version="4"} 2.0' in lines
    assert 'dynograd_requests_total{code="500",model="failing",version="1"} 1.0' in lines
    assert 'dynograd_ended_total{how="answered",model="double",version="4"} 2.0' in lines
    assert 'dynograd_request_seconds_count{model="double",version="4"} 2.0' in lines
    assert 'dynograd_waiting{model="double",version="4"} 0.0' in lines


def test_the_figures_of_a_turn_are_counted_together(monkeypatch):
    """Worker processes write them to files."""
    noted = []

    async def main(service):
        metrics = Metrics(service)
        monkeypatch.setattr(metrics, "folder", "figures")
        monkeypatch.setattr(metrics, "_note", noted.append)
        model = service.model("sum")
        for code in (200, 200, 500):
            metrics.changed(model)
            metrics.answered(model, code, 0.01)
        assert not noted
        await asyncio.sleep(0)
        counts = [metrics.requests.labels("sum", "1", code)._value.get() for code in (200, 500)]
        return counts, [model.name for model in noted], metrics.seconds.labels("sum", "1")._sum.get()

    with service_with() as service:
        counts, names, seconds = asyncio.run(main(service))
    assert counts == [2.0, 1.0] and names == ["sum"] and seconds == pytest.approx(0.03)


def test_openapi_names_every_route_of_a_model(client):
    document = client.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    for path in ("/double", "/double/versions/1", "/v2/models/double/infer", "/v2/models/double/versions/4/infer"):
        assert document["paths"][path]["post"]["responses"]["429"], path
    assert "text/event-stream" in document["paths"]["/halvings"]["post"]["responses"]["200"]["content"]
    assert "/v2/models/sum/infer" in client.get("/docs").text


# --- KServe's protocol ---------------------------------------------------------------------------------------------------------------

INFER = "/v2/models/double/versions/1/infer"


def tensor(data, datatype="FP32", shape=None, **more):
    return {"name": "x", "datatype": datatype, "shape": [len(data)] if shape is None else shape, "data": data, **more}


def test_metadata(client):
    assert "binary_tensor_data" in client.get("/v2").json()["extensions"]
    assert client.get("/v2/models/double").json() == {
        "name": "double",
        "versions": ["1", "4"],
        "platform": "dynograd",
        "inputs": [],
        "outputs": [],
    }
    assert client.get("/v2/models/nothing/ready").status_code == 404


@pytest.mark.parametrize(
    ("data", "datatype", "answer"),
    [
        ([1.5, 2.0], "FP32", [3.0, 4.0]),
        ([1.5, 2.0], "FP64", [3.0, 4.0]),
        ([1.5, 2.0], "FP16", [3.0, 4.0]),
        ([1.5, 2.0], "BF16", [3.0, 4.0]),
        ([1, -2], "INT8", [2, -4]),
        ([1, 2], "UINT8", [2, 4]),
        ([1, 2], "INT64", [2, 4]),
        (["a", "ü"], "BYTES", ["aa", "üü"]),
    ],
)
def test_tensors_of_each_datatype(client, data, datatype, answer):
    reply = client.post(INFER, json={"id": "7", "inputs": [tensor(data, datatype)]}).json()
    assert reply == {
        "model_name": "double",
        "model_version": "1",
        "id": "7",
        "outputs": [{"name": "output", "datatype": datatype, "shape": [2], "data": answer}],
    }


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ([tensor([1.0], "FP128")], "expected a datatype of BOOL, .* got 'FP128'"),
        ([tensor([1.0], ["FP32"])], r"expected a datatype of BOOL, .* got \['FP32'\]"),
        ([tensor([1.0], shape=[2])], r"shape \[2\] has 2 elements, data 1"),
        ([tensor([1.0], shape=[-1])], "expected a shape such as"),
        ([tensor(["a"], "INT64")], "data is not of INT64"),
        ([tensor([1], "BYTES")], "expected 1 strings"),
        ([tensor(["\ud800"], "BYTES")], "expected 1 strings"),
        ([tensor([300], "INT8")], "data is not of INT8"),
        ([tensor([1.5], "INT8")], "data is not of INT8"),
        ([tensor([1e5], "FP16")], "data is not of FP16"),
        ([{**tensor([1.0]), "parameters": [1]}], "expected parameters to be an object"),
        ([{"name": "x", "datatype": "FP32", "shape": [1]}], "neither data nor binary_data_size"),
        ([{"name": "x", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}}], "0 bytes are left"),
        ([], "expected {.inputs"),
        ([3], "expected {.inputs"),
    ],
)
def test_what_is_no_tensor_is_said(inputs, words):
    with pytest.raises(ValueError, match=words):
        protocol.read_request(json.dumps({"inputs": inputs}).encode(), None)


def test_an_output_that_is_not_there(client):
    reply = client.post(INFER, json={"inputs": [tensor([1.0])], "outputs": [{"name": "other"}]})
    assert (reply.status_code, reply.json()["error"]) == (400, "there is no output 'other'; there are: output.")


def test_encode_sees_the_request():
    with Service() as service:
        service.add(
            "length", len, decode=lambda body: body["text"], encode=lambda length, body: {**body, "length": length}
        )
        with TestClient(service.app()) as client:
            assert client.post("/length", json={"text": "four"}).json() == {"text": "four", "length": 4}
            refused = client.post("/length", json={"word": "four"})
            assert (refused.status_code, refused.json()["error"]) == (400, "KeyError: 'text'")


@pytest.mark.parametrize("size", [3, 5, 8])
def test_binary_data_of_another_size_is_refused(size):
    header = json.dumps(
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": min(size, 5)}}]}
    ).encode()
    with pytest.raises(ValueError, match="takes 4 bytes|bytes are left|bytes behind"):
        protocol.read_request(header + b"\0" * size, len(header))


def test_mutated_bodies_are_answered_or_refused():
    """`python -m tools.fuzz_serving` sends more of them."""
    codes = fuzz(300, seed=0)
    assert set(codes) >= {200, 400} and min(codes[200], codes[400]) > 20


def test_the_fuzzer_finds_what_breaks(monkeypatch):
    monkeypatch.setattr(protocol, "read_request", lambda body, length: 1 / 0)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        fuzz(300, seed=0)


def test_existing_client():
    triton = pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")
    with (
        service_with() as service,
        served(service) as address,
        contextlib.closing(triton.InferenceServerClient(address)) as client,
    ):
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("double", "1")
        assert client.get_model_metadata("double", "1")["inputs"][0]["datatype"] == "FP32"
        for binary in (True, False):
            inputs = []
            for name, values in (("a", [1.0, 2.0]), ("b", [10.0, 20.0])):
                inputs.append(triton.InferInput(name, [2], "FP32"))
                inputs[-1].set_data_from_numpy(numpy.float32(values), binary_data=binary)
            outputs = [triton.InferRequestedOutput(name, binary_data=binary) for name in ("difference", "sum")]
            reply = client.infer("double", inputs, "1", outputs=outputs, request_id="r")
            assert reply.as_numpy("sum").tolist() == [11.0, 22.0]
            assert reply.as_numpy("difference").tolist() == [-9.0, -18.0]
        words = triton.InferInput("x", [2], "BYTES")
        words.set_data_from_numpy(numpy.array(["so", "ü"], dtype=object))
        assert client.infer("double", [words], "1").as_numpy("output").tolist() == [b"soso", "üü".encode()]
        with pytest.raises(Exception, match="no model 'nothing'"):
            client.infer("nothing", [words])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Service(max_body=0), "max_body to be a positive whole number"),
        (lambda: Service().add("a b", doubled), "a name of letters, digits"),
        (lambda: Service().add("v2", doubled), "none of"),
        (lambda: Service().add("a", doubled, version="/"), "a version such as '1'"),
        (lambda: service_with().add("sum", doubled), "'sum' has a version '1' already"),
    ],
)
def test_what_a_service_refuses(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dynograd.tools.web.http", None)
    with pytest.raises(ModuleNotFoundError, match="pip install 'dynograd.serve.'"):
        Service().app()
