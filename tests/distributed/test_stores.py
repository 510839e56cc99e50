"""Stores: what processes tell each other by names."""

import contextlib
import gc
import socket
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

import dynograd.distributed as dist

SHORT = timedelta(milliseconds=50)


class OfAProgram(dist.Store):
    """The least that a derived store defines."""

    def __init__(self):
        super().__init__()
        self.values = {}

    def set(self, key, value):
        self.values[key] = value if isinstance(value, bytes) else value.encode()

    def get(self, key):
        return self.values[key]

    def add(self, key, amount):
        self.set(key, str(int(self.values.get(key, 0)) + amount))
        return int(self.values[key])

    def compare_set(self, key, expected, desired):
        there = self.values.get(key)
        if there is None and expected:
            return expected
        if there is None or there == expected:
            self.values[key] = there = desired
        return there


KINDS = {
    "hash": lambda path: dist.HashStore(),
    "file": lambda path: dist.FileStore(path, 1),
    "tcp": lambda path: dist.TCPStore("localhost", 0, 1, True),
    "prefix": lambda path: dist.PrefixStore("a", dist.PrefixStore("b", dist.HashStore())),
    "prefix of tcp": lambda path: dist.PrefixStore("a", dist.TCPStore("localhost", 0, is_master=True)),
    "clone of file": lambda path: dist.FileStore(path, 2).clone(),
    "clone of tcp": lambda path: dist.TCPStore("localhost", 0, is_master=True).clone(),
}


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    return KINDS[request.param](str(tmp_path / "store"))


def test_values(store):
    before = store.num_keys()
    store.set("text", "välue")
    store.set("bytes", b"\x00\xff")
    store.set("bytes", b"\x00\xfe\n")
    assert store.get("text") == "välue".encode() and store.get("bytes") == b"\x00\xfe\n"
    assert [store.add("count", amount) for amount in (1, 2, -5)] == [1, 3, -2] and store.get("count") == b"-2"
    assert store.num_keys() == before + 3 and {"text", "bytes", "count"} <= {*store.list_keys()}
    assert store.check(["text", "count"]) and not store.check(["text", "other"]) and store.check([])
    assert store.delete_key("text") and not store.delete_key("text") and not store.check(["text"])


def test_a_value_in_the_place_of_another(store):
    assert store.compare_set("key", "expected", "new") == b"expected" and not store.check(["key"])
    assert store.compare_set("key", "", "first") == b"first"
    assert store.compare_set("key", "other", "second") == b"first" == store.get("key")
    assert store.compare_set("key", "first", "second") == b"second" == store.get("key")


def test_several_values(store):
    store.append("joined", "po")
    store.append("joined", "po")
    store.append("joined", b"tato")
    store.multi_set(["one", "two"], ["1", b"2"])
    assert store.multi_get(["two", "joined", "one"]) == [b"2", b"popotato", b"1"]
    with pytest.raises(ValueError, match=r"multi_set: 2 keys, but 1 values\. Give one for each"):
        store.multi_set(["one", "two"], ["1"])


def test_queues(store):
    store.queue_push("jobs", "first")
    store.queue_push("jobs", b"second")
    assert store.queue_len("jobs") == 2 and not store.check(["jobs"])
    assert [store.queue_pop("jobs"), store.queue_pop("jobs", block=False)] == [b"first", b"second"]
    assert store.queue_len("jobs") == 0
    with pytest.raises(dist.QueueEmptyError, match="queue is empty: '.*jobs'. With block=True it is waited for"):
        store.queue_pop("jobs", block=False)
    store.set_timeout(SHORT)
    with pytest.raises(dist.DistStoreError, match=r"wait timeout after 50ms, keys: /.*jobs\."):
        store.queue_pop("jobs")


def test_waits_end(store):
    store.set("there", "1")
    store.wait(["there"], SHORT)
    with pytest.raises(
        dist.DistStoreError, match=r"wait timeout after 50ms, keys: /.*there, /.*absent\. .* set_timeout"
    ):
        store.wait(["there", "absent"], SHORT)
    store.set_timeout(SHORT)
    assert store.timeout == SHORT
    for call in (lambda: store.get("absent"), lambda: store.multi_get(["there", "absent"])):
        with pytest.raises(RuntimeError, match="wait timeout after 50ms, keys: .*/.*absent"):
            call()
    store.set("absent", "2")  # and the store can be used again
    assert store.get("absent") == b"2"


def test_threads_wait_for_each_other(store):
    """One that waits keeps no other from setting what it waits for."""
    results = []

    def run(number):
        results.append((number, store.get("begin")))
        store.barrier("end", 3)
        results.append((number, "end"))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    assert not results
    store.set("begin", "now")
    store.barrier("end", 3)
    for thread in threads:
        thread.join(30)
    assert sorted(results[:2]) == [(0, b"now"), (1, b"now")] and sorted(results[2:]) == [(0, "end"), (1, "end")]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda store: store.set("key", 3), TypeError, r"set: values are text or bytes, got int\. Write str\(value\)"),
        (lambda store: store.get(3), TypeError, r"get: keys are text, got int\. Write str\(key\)"),
        (
            lambda store: (store.set("x", "y"), store.add("x", 1)),
            ValueError,
            "add: '.*x' holds b'y', which is no whole",
        ),
        (lambda store: store.set_timeout(3), TypeError, "set_timeout: expected a timedelta, got int"),
    ],
)
def test_what_is_no_value_is_refused(store, call, error, message):
    with pytest.raises(error, match=message):
        call(store)


def test_a_store_of_a_program():
    inner = OfAProgram()
    for store in (inner, dist.PrefixStore("p", inner)):
        assert not store.has_extended_api()
        store.append("a", "po")
        store.append("a", "tato")
        store.multi_set(["b", "c"], ["1", b"2"])
        assert store.multi_get(["a", "b", "c"]) == [b"potato", b"1", b"2"] and store.add("n", 3) == 3
    assert {*inner.values} == {*"abcn"} | {f"p/{name}" for name in "abcn"}
    with pytest.raises(NotImplementedError, match=r"OfAProgram: check\(\) is not defined.*derived from Store"):
        inner.check(["a"])


def test_prefixes():
    inner = dist.HashStore()
    outer = dist.PrefixStore("x", dist.PrefixStore("y", inner))
    outer.set("key", "1")
    inner.set("other", "2")
    assert inner.get("y/x/key") == b"1" and outer.list_keys() == ["key"] and outer.num_keys() == 2
    assert outer.underlying_store.underlying_store is inner is outer._underlying_non_prefix_store
    with pytest.raises(ValueError, match="PrefixStore: expected a Store, got NoneType"):
        dist.PrefixStore("x", None)


def test_the_last_user_removes_the_file(tmp_path):
    path = tmp_path / "store"
    first, second = dist.FileStore(path, 2), dist.FileStore(path, 2)
    first.set("key", "1")
    assert second.get("key") == b"1" and second.path == str(path)
    del first
    gc.collect()
    assert path.exists()
    del second
    gc.collect()
    assert not path.exists()
    kept = dist.FileStore(path)
    del kept
    gc.collect()
    assert path.exists()


def test_ports():
    master = dist.TCPStore("localhost", 0, 1, True, multi_tenant=True)
    assert master.host == "localhost" and master.port > 0 and master.libuvBackend
    other = dist.TCPStore("localhost", master.port, 1, True, multi_tenant=True)
    master.set("key", "1")
    assert other.get("key") == b"1" and f"TCPStore(localhost:{master.port}, kept here)" == repr(other)
    with pytest.raises(
        dist.DistNetworkError, match=f"failed to listen on any local network address. port: {master.port}"
    ):
        dist.TCPStore("localhost", master.port, 1, True)
    port = master.port
    client = dist.TCPStore("localhost", port)
    del master, other
    gc.collect()
    with pytest.raises(dist.DistNetworkError, match="had no answer from localhost.*has ended"):
        client.get("key")
    with pytest.raises(
        dist.DistNetworkError, match=r"timed out after 100ms while trying to connect to \(localhost, \d+\)"
    ):
        dist.TCPStore("localhost", port, timeout=timedelta(milliseconds=100))
    with pytest.raises(
        dist.DistStoreError, match=r"Timed out after 0 seconds waiting for clients\. 1/2 clients joined"
    ):
        dist.TCPStore("localhost", 0, 2, True, timeout=timedelta(milliseconds=100))
    with pytest.raises(ValueError, match="world size cannot be 0"):
        dist.TCPStore("localhost", 0, world_size=0)


@pytest.mark.parametrize("listens", [True, False])
def test_a_socket_that_is_there_already(listens):
    listening = socket.socket()
    listening.bind(("localhost", 0))
    if listens:
        listening.listen()
    port = listening.getsockname()[1]
    store = dist.TCPStore("localhost", port, 1, True, master_listen_fd=listening.detach())
    store.set("key", "1")
    assert store.port == port and store.get("key") == b"1"


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"dynograd store 1\n" + b"\xff" * 8])
def test_what_is_no_store_is_sent_away(said):
    store = dist.TCPStore("localhost", 0, is_master=True)
    with socket.create_connection(("localhost", store.port), 10) as other:
        other.sendall(said)
        other.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            while other.recv(64):
                pass
    store.set("key", "1")
    assert store.get("key") == b"1"


PROGRAM = """
import sys
import dynograd.distributed as dist
kind, place, number = sys.argv[1:]
store = dist.FileStore(place, 3) if kind == "file" else dist.TCPStore("localhost", int(place), 3)
for _ in range(50):
    store.add("count", 1)
store.append("who", number)
store.barrier("end", 3)
"""


@pytest.mark.parametrize("kind", ["file", "tcp"])
def test_processes(kind, tmp_path):
    path = str(tmp_path / "store")
    store = (
        dist.FileStore(path, 3) if kind == "file" else dist.TCPStore("localhost", 0, 3, True, wait_for_workers=False)
    )
    place = path if kind == "file" else str(store.port)
    others = [subprocess.Popen([sys.executable, "-c", PROGRAM, kind, place, str(number)]) for number in range(2)]
    store.barrier("end", 3, timedelta(seconds=60))
    assert store.get("count") == b"100" and sorted(store.get("who")) == sorted(b"01")
    assert [other.wait(60) for other in others] == [0, 0]


@pytest.mark.parametrize("scheme", ["file", "file of four slashes", "tcp", "env"])
def test_processes_meet(scheme, tmp_path, monkeypatch):
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    urls = {
        "file": f"file://{tmp_path}/store",
        "file of four slashes": f"file:///{tmp_path}/store",
        "tcp": f"tcp://localhost:{port}",
        "env": "env://",
    }
    url = urls[scheme]
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(port))
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    store, rank, size = next(dist.rendezvous(url, 0, 1, timeout=timedelta(seconds=20)))
    assert (rank, size, store.timeout) == (0, 1, timedelta(seconds=20))
    monkeypatch.setenv("WORLD_SIZE", "2")
    other, rank, size = next(dist.rendezvous(f"{url}?rank=1" + ("" if scheme == "env" else "&world_size=2")))
    store.set("key", "1")
    assert (rank, size, other.get("key")) == (1, 2, b"1")


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("other://", RuntimeError, "^No rendezvous handler for other://.*env, file, tcp"),
        ("file://?rank=0&world_size=1", ValueError, "path missing"),
        ("file:///tmp/foo?world_size=1", ValueError, "rank parameter missing"),
        ("file:///tmp/foo?rank=0", ValueError, "world size parameter missing"),
        ("tcp://localhost?rank=0&world_size=1", ValueError, "port number missing"),
        (3, RuntimeError, "`url` must be a string, got int"),
    ],
)
def test_addresses_that_lack_something(url, error, message):
    with pytest.raises(error, match=message):
        next(dist.rendezvous(url))


def test_an_address_says_a_number_once():
    with pytest.raises(AssertionError, match="has node-specific arguments"):
        dist.rendezvous("file://foo?rank=12&world_size=16", 12, 16)
    with pytest.raises(RuntimeError, match="Rendezvous handler for tcp:// already registered"):
        dist.register_rendezvous_handler("tcp", lambda url: iter(()))
