"""`python -m dynograd.serve`: what it serves, worker processes, and how they end."""

import contextlib
import math
import os
import queue
import re
import signal
import subprocess
import sys
import threading

import pytest

import dynograd
from dynograd.tools import serve
from dynograd.tools.serve import service_of
from dynograd.utils.programs import UsageError

pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("prometheus_client", reason="the extra serve is not installed")
httpx = pytest.importorskip("httpx2", reason="httpx2, the client of these tests, is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="the extra serve is not installed")


class Server:
    """The program in a process of its own; `until(text)` reads what it says up to a line with `text`."""

    def __init__(self, app, *options):
        command = [sys.executable, "-m", "dynograd.serve", str(app), "--port", "0", *map(str, options)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(command, text=True, start_new_session=True, **pipes)

    def until(self, text):
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            if text in line:
                return line
        raise AssertionError(f"it ended without {text!r}:\n{''.join(seen)}")

    @property
    def address(self):
        return re.search(r"http://\S+", self.until("running on")).group()

    def end(self):
        """SIGTERM; its status and what it said on stderr."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60), self.process.communicate()[1]


@contextlib.contextmanager
def serving(tmp_path, text, *options):
    app = tmp_path / "app.py"
    app.write_text(text)
    server = Server(app, *options)
    try:
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGKILL)  # its workers, too
        server.process.wait()
        server.process.communicate()


SLOW = """
from dynograd.serving import Service

service = Service()

def slow(x):
    print("begun", flush=True)
    input()
    return x * 2

service.add("slow", slow)
"""


def test_what_was_accepted_is_answered_after_sigterm(tmp_path):
    replies = []
    with serving(tmp_path, SLOW) as server:
        address = server.address
        asking = threading.Thread(
            target=lambda: replies.append(httpx.post(f"{address}/slow", json=21, timeout=60).json())
        )
        asking.start()
        assert server.process.stdout.readline() == "begun\n"
        server.process.send_signal(signal.SIGTERM)
        server.until("Shutting down")
        with pytest.raises(httpx.ConnectError):
            httpx.post(f"{address}/slow", json=1)
        server.process.stdin.write("go on\n")
        server.process.stdin.flush()
        asking.join(60)
        assert replies == [42]
        assert server.process.wait(60) in (0, -signal.SIGTERM)


WORKERS = """
import os
import dynograd
from dynograd import nn
from dynograd.serving import Batcher, Service

weights = dynograd.load({path!r}, mmap=True)
layer = nn.Linear(512, 1)
layer.load_state_dict(weights, assign=True)

def scores(rows):
    return layer(rows.mean(1)).squeeze(1)

service = Service()
with dynograd.use_batch_invariant(True):
    service.add("score", Batcher(scores), decode=lambda body: dynograd.tensor(body["rows"]).unsqueeze(1).expand(-1, 512))
service.add("process", lambda _: os.getpid())
service.add("place", lambda _: layer.weight.data_ptr())
"""


def spans_of(process, path):
    """(first, last) of the memory of a process that is the file's, and how many bytes of it are the process's own."""
    spans, own, inside = [], 0, False
    with open(f"/proc/{process}/smaps") as maps:
        for line in maps:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                inside = str(path) in line
                if inside:
                    spans.append([int(end, 16) for end in line.split()[0].split("-")])
            elif inside and line.startswith("Private_Dirty:"):
                own += int(line.split()[1])
    return spans, own


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="/proc tells whose memory it is, and kills are signals"
)
def test_a_worker_that_is_killed_loses_what_it_had_and_no_more(tmp_path):
    """Clients ask without a pause; a worker is killed. Each answer is the model's own, failures are at most those under way, and another worker comes."""
    path, clients = tmp_path / "weights.safetensors", 4
    layer = dynograd.nn.Linear(512, 1)
    dynograd.save(layer.state_dict(), path)
    with dynograd.no_grad(), dynograd.use_batch_invariant(True):
        right = [
            layer(dynograd.full((1, length, 512), float(length)).mean(1)).item() for length in range(1, clients + 1)
        ]
    failures, wrong, answering, stop = [], [], queue.SimpleQueue(), threading.Event()

    def ask(number):
        length = number + 1
        with httpx.Client(timeout=60) as client:
            while not stop.is_set():
                try:
                    answer = client.post(f"{address}/score", json={"rows": [float(length)] * length})
                    answering.put(client.post(f"{address}/process", json=0, headers={"Connection": "close"}).json())
                except httpx.TransportError as error:
                    failures.append(error)
                    continue
                if answer.status_code != 200 or answer.json() != right[number]:
                    wrong.append((number, answer.text))

    with serving(tmp_path, WORKERS.format(path=str(path)), "--workers", 2) as server:
        address = server.address
        for _ in range(2):
            server.until("Application startup complete")
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        try:
            processes = set()
            while len(processes) < 2:
                processes.add(answering.get(timeout=60))
            for process in processes:
                spans, own = spans_of(process, path)
                assert spans and own == 0, "the weights are the file's pages, in each worker"
            victim = min(processes)
            os.kill(victim, signal.SIGKILL)
            server.until(f"Child process [{victim}] died")
            server.until("Application startup complete")
            while answering.get(timeout=60) in processes:
                pass
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        reply = httpx.get(f"{address}/metrics")
        figures = reply.text.splitlines()
        status, _ = server.end()
    assert not wrong and "server" not in reply.headers
    assert len(failures) <= 2 * clients, failures  # what was under way, and a connection that was kept open
    assert status == 0
    assert 'dynograd_waiting{model="score",version="1"} 0.0' in figures
    answered = [line for line in figures if line.startswith('dynograd_requests_total{code="200",model="score"')]
    assert len(answered) == 1 and float(answered[0].split()[1]) > clients, "one figure for all workers"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells whose memory it is")
def test_workers_share_the_weights_of_a_program(program):
    with dynograd.no_grad():
        right = dynograd.export.load_program(program)(dynograd.ragged_tensor([dynograd.ones(3, 512)])).item()
    server = Server(f"score={program}", "--workers", 2)
    try:
        address = server.address
        workers, complete = [], 0
        while complete < 2:
            line = server.until("")
            workers += [int(number) for number in re.findall(r"Started server process \[(\d+)\]", line)]
            complete += "Application startup complete" in line
        for _ in range(8):
            assert httpx.post(f"{address}/score", json=[[1.0] * 512] * 3, timeout=60).json() == pytest.approx(right)
        for process in workers:
            spans, own = spans_of(process, program)
            assert spans and own == 0, "the weights are the file's pages, in each worker"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()
        server.process.communicate()


def test_an_app_that_cannot_start_ends_all_workers(tmp_path):
    with serving(tmp_path, "raise RuntimeError('no weights')", "--workers", 2) as server:
        server.until("RuntimeError: no weights")
        server.until("failed to start")
        server.process.communicate(timeout=60)
        assert server.process.returncode == 1


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nothing.py", "there is no file 'nothing.py'"),
        ("nothing:service", "there is no module 'nothing'"),
        ("math:nothing", "math has no 'nothing'"),
        ("math:pi", "to be a Service or a function, got float"),
        ("nothing.dg", "there is no file 'nothing.dg'"),
        ("score=nothing", "there is no file 'nothing'"),
        (f"score={__file__}", "is not a checkpoint"),
        ("math", "expected model.dg, app.py, app.py:name or module:name, got 'math'"),
    ],
)
def test_targets_that_are_none(target, words):
    with pytest.raises(UsageError, match=words):
        service_of(target)


def test_two_apps_are_refused():
    with pytest.raises(UsageError, match="expected one app, got math:floor, math:ceil"):
        service_of("math:floor", "math:ceil")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The file of a program that takes ragged rows."""
    path = tmp_path_factory.mktemp("programs") / "mean score.dg"
    layer = dynograd.nn.Linear(512, 1).eval()
    rows = dynograd.ragged_tensor([dynograd.ones(2, 512), dynograd.ones(3, 512)])
    dynograd.export.save_program(lambda rows: layer(rows.mean(1)).squeeze(1), (rows,), path)
    return path


@pytest.mark.parametrize(
    ("labels", "versions"),
    [
        ([""], {"mean-score": ["1"]}),
        (["a=", "a=", "b="], {"a": ["1", "2"], "b": ["1"]}),
        (["a@old=", "a@new="], {"a": ["old", "new"]}),
    ],
)
def test_files_of_programs_are_models_with_versions(program, labels, versions):
    with service_of(*[f"{label}{program}" for label in labels], max_rows=7) as service:
        assert {name: list(models) for name, models in service.models.items()} == versions
        assert all(model.engine.max_rows == 7 for model in service.all_models)


def test_an_app_and_programs_are_one_service(program):
    with service_of("math:floor", f"score={program}") as service:
        assert list(service.models) == ["floor", "score"]


@pytest.mark.parametrize("label", ["a@1", "a@x"])
def test_a_version_twice_is_refused(program, label):
    with pytest.raises(UsageError, match="has a version '.' already"):
        service_of(f"{label}={program}", f"{label}={program}")


def test_a_function_is_served_under_its_name():
    with service_of("math:floor") as service:
        assert service.model("floor").submit(2.5, None).result() == math.floor(2.5)


@pytest.fixture
def options_of_server(monkeypatch, tmp_path):
    """What uvicorn is told."""
    seen = {}
    monkeypatch.setattr(uvicorn, "run", lambda app, **options: seen.update(options))
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "app.py").write_text("def double(x):\n    return 2 * x\n")
    assert serve.main([f"{tmp_path / 'app.py'}:double"]) == 0
    return seen


def test_idle_connections_outlive_those_of_proxies(options_of_server):
    """A proxy keeps them for 60 s, as is usual; one that the server closes before loses the request that is on its way."""
    assert options_of_server["timeout_keep_alive"] > 60


def test_answers_go_out_in_one_write(options_of_server):
    from dynograd.tools.web.writing import JoiningProtocol

    assert uvicorn.importer.import_from_string(options_of_server["http"]) is JoiningProtocol
