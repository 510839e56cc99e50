"""Serving measured: `python -m benchmarks.serving`, `... --sides ragged,torch`, `... --count 100000 --sides ragged`, `... --loops`.

The classifier of examples/sentiment.py answers sentences of 5 to 200 words (log-normal) behind one and the same server, for 64 clients on this
machine: as ragged batches, by onnxruntime with padded ones (`pip install onnx onnxruntime`), by PyTorch with padded ones and a mask (`torch`), and
with padded ones that are packed for the GRU (`torch_packed`). Every answer is compared with that of the model alone, of ragged batches bit by bit; not
those of `torch`, where the GRU comes backwards through the padding and answers otherwise. Then requests come by chance, half as many as were answered
a second; a request's time begins when it is sent, and how late it is sent is told. The sides take turns in `--rounds`; medians are printed, and
medians of the first side's figures by another's in the same round. geventhttpclient (`tritonclient[http]` brings it) is the client, on
one of the cores; so each side computes with one thread, unless `--threads` says otherwise. `--wrk 3`: the throughput is that of wrk's clients, in
three seconds, which leave the cores to the server; all else, and whether answers are right, is seen by geventhttpclient. `--workers 2`: the server has
two processes, each with the model. `--loops`: texts drawn character by character, in a pool and one by one. Processor time of the server is Linux's
figure.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy

import dynograd
from benchmarks import wrk
from benchmarks.sides import ROOT
from dynograd.serving import Batcher, Service
from dynograd.utils import programs
from examples import char_lm, sentiment

__all__ = ["main", "service"]

SENTENCES = 512  # different ones; clients ask them in turn
CLOSE = {"ragged": 0.0, "onnxruntime": 1e-4, "torch": float("inf"), "torch_packed": 1e-4}
MAX_ROWS = 64  # in a batch, on every side
MOST_CONNECTIONS = 128  # that are open while requests come by chance


def sentences() -> list[list[str]]:
    """Words of the reviews, in sentences of 5 to 200."""
    words = [word for split, _ in sentiment.read_splits()["train"][:3000] for word in split]
    numbers = numpy.random.default_rng(0)
    lengths = numpy.clip(numpy.exp(numbers.normal(3.2, 0.8, SENTENCES)), 5, 200).astype(int)
    starts = numbers.integers(0, len(words) - 200, SENTENCES)
    return [words[start : start + length] for start, length in zip(starts, lengths)]


def classifier() -> tuple[Any, Any]:
    """(the model, its vocabulary); the same in each process."""
    dynograd.manual_seed(0)
    vocabulary = sentiment.Vocabulary.of(sentiment.read_splits()["train"])
    return sentiment.Classifier(len(vocabulary)).eval(), vocabulary


# --- the sides: from ragged numbers (B, j, 8) to scores ---------------------------------------------------------------------------


def ragged(model: Any, threads: int) -> Callable[[Any], Any]:
    return model


def padded(rows: Any) -> tuple[numpy.ndarray, numpy.ndarray]:
    """(numbers (B, T, 8), lengths (B,))."""
    arrays = [row.numpy() for row in rows.unbind()]
    lengths = numpy.array([len(array) for array in arrays])
    numbers = numpy.zeros((len(arrays), lengths.max(), 8), numpy.int64)
    for place, array in enumerate(arrays):
        numbers[place, : len(array)] = array
    return numbers, lengths


def torch(model: Any, threads: int) -> Callable[[Any], Any]:
    """Padded rows, and a mask before the maximum: the GRU runs over the padding, too."""
    return _torch(model, threads, packs=False)


def torch_packed(model: Any, threads: int) -> Callable[[Any], Any]:
    return _torch(model, threads, packs=True)


def _torch(model: Any, threads: int, packs: bool) -> Callable[[Any], Any]:
    import torch as pytorch

    pytorch.set_num_threads(threads)
    weights = {name: pytorch.from_numpy(value.numpy()) for name, value in model.state_dict().items()}
    words = pytorch.nn.Embedding.from_pretrained(weights["words.weight"])
    pieces = pytorch.nn.EmbeddingBag.from_pretrained(weights["pieces.weight"], mode="mean", padding_idx=0)
    gru = pytorch.nn.GRU(128, 96, batch_first=True, bidirectional=True)
    gru.load_state_dict(
        {name.removeprefix("gru."): value for name, value in weights.items() if name.startswith("gru.")}
    )
    packed, unpacked = pytorch.nn.utils.rnn.pack_padded_sequence, pytorch.nn.utils.rnn.pad_packed_sequence

    def states_of(x: Any, lengths: Any) -> Any:
        if packs:
            return unpacked(gru(packed(x, lengths, True, enforce_sorted=False))[0], True, padding_value=-pytorch.inf)[0]
        padding = pytorch.arange(x.shape[1]) >= lengths[:, None]
        return gru(x)[0].masked_fill(padding[..., None], -pytorch.inf)

    def answer(rows: Any) -> list[float]:
        with pytorch.inference_mode():
            numbers, lengths = map(pytorch.from_numpy, padded(rows))
            x = words(numbers[..., 0]) + pieces(numbers[..., 1:].flatten(0, 1)).unflatten(0, numbers.shape[:2])
            return (states_of(x, lengths).amax(1) @ weights["output.weight"][0] + weights["output.bias"]).tolist()

    return answer


def onnxruntime(model: Any, threads: int) -> Callable[[Any], Any]:
    import onnxruntime as runtime
    from onnx import TensorProto, checker, helper, numpy_helper

    state = {name: value.numpy() for name, value in model.state_dict().items()}

    def gates(name: str) -> numpy.ndarray:
        """Both directions, with ONNX's order of gates (update, reset, new) in place of PyTorch's (reset, update, new)."""
        ways = [numpy.split(state[f"gru.{name}_l0{way}"], 3) for way in ("", "_reverse")]
        return numpy.stack([numpy.concatenate([update, reset, new]) for reset, update, new in ways])

    weights = {
        "words": state["words.weight"],
        "pieces": state["pieces.weight"],
        "w": gates("weight_ih"),
        "r": gates("weight_hh"),
        "b": numpy.concatenate([gates("bias_ih"), gates("bias_hh")], 1),
        "out": state["output.weight"].T,
        "bias": state["output.bias"],
        "one": numpy.float32(1),
        "zero": numpy.int64(0),
        "rest": numpy.arange(1, 8),
        "axis2": numpy.array([2]),
        "axis3": numpy.array([3]),
        "flat": numpy.array([0, 0, -1]),
        "low": numpy.float32(-1e30),
    }
    node = helper.make_node
    nodes = [
        node("Gather", ["x", "zero"], ["word"], axis=2),
        node("Gather", ["x", "rest"], ["piece"], axis=2),
        node("Gather", ["words", "word"], ["e"]),
        node("Gather", ["pieces", "piece"], ["p"]),
        node("Equal", ["piece", "zero"], ["none"]),
        node("Where", ["none", "zero_f", "one"], ["some"]),
        node("ReduceSum", ["some", "axis2"], ["count"]),
        node("Max", ["count", "one"], ["divisor"]),
        node("Unsqueeze", ["some", "axis3"], ["some3"]),
        node("Mul", ["p", "some3"], ["kept"]),
        node("ReduceSum", ["kept", "axis2"], ["total"], keepdims=0),
        node("Div", ["total", "divisor"], ["mean"]),
        node("Add", ["e", "mean"], ["inputs"]),
        node("Transpose", ["inputs"], ["steps"], perm=[1, 0, 2]),
        node(
            "GRU",
            ["steps", "w", "r", "b", "lengths"],
            ["y"],
            hidden_size=96,
            direction="bidirectional",
            linear_before_reset=1,
        ),
        node("Transpose", ["y"], ["y2"], perm=[2, 0, 1, 3]),
        node("Reshape", ["y2", "flat"], ["states"]),
        node("Where", ["mask", "states", "low"], ["real"]),
        node("ReduceMax", ["real", "axis1"], ["strongest"], keepdims=0),
        node("MatMul", ["strongest", "out"], ["product"]),
        node("Add", ["product", "bias"], ["score"]),
    ]
    weights |= {"zero_f": numpy.float32(0), "axis1": numpy.array([1])}
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "sentiment",
        [
            info("x", TensorProto.INT64, ["b", "t", 8]),
            info("lengths", TensorProto.INT32, ["b"]),
            info("mask", TensorProto.BOOL, ["b", "t", 1]),
        ],
        [info("score", TensorProto.FLOAT, ["b", 1])],
        [numpy_helper.from_array(numpy.asarray(value), name) for name, value in weights.items()],
    )
    exported = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    checker.check_model(exported)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    session = runtime.InferenceSession(exported.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def answer(rows: Any) -> list[float]:
        numbers, lengths = padded(rows)
        mask = (numpy.arange(numbers.shape[1]) < lengths[:, None])[..., None]
        inputs = {"x": numbers, "lengths": lengths.astype(numpy.int32), "mask": mask}
        return session.run(None, inputs)[0][:, 0].tolist()

    return answer


SIDES = {"ragged": ragged, "onnxruntime": onnxruntime, "torch": torch, "torch_packed": torch_packed}


def service(side: str, threads: int) -> Service:
    """What `benchmarks/serving_app.py` serves."""
    dynograd.set_num_threads(threads)
    model, vocabulary = classifier()
    served = Service()
    with dynograd.use_batch_invariant(True):
        batcher = Batcher(SIDES[side](model, threads), max_rows=MAX_ROWS, max_tokens=1 << 20)
    served.add("score", batcher, decode=lambda body: vocabulary.encode(body["words"]))
    batcher.submit(vocabulary.encode(["warm"])).result()
    return served


class Server:
    """`python -m dynograd.serve` with a side, in processes of its own."""

    def __init__(self, side: str, threads: int, workers: int) -> None:
        app = str(ROOT / "benchmarks" / "serving_app.py")
        command = [sys.executable, "-m", "dynograd.serve", app, "--port", "0", "--workers", str(workers)]
        environment = {**os.environ, "SERVING_SIDE": side, "SERVING_THREADS": str(threads)}
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        said: list[str] = []
        self.address, ready = "", 0
        while not self.address or ready < workers:
            said.append(self.process.stderr.readline())
            if not said[-1]:
                raise programs.UsageError(f"{side}: the server did not start: {''.join(said[-2:]).strip()}")
            if match := re.search(r"running on (http://\S+)", said[-1]):
                self.address = match.group(1)
            ready += "Application startup complete" in said[-1]

    def seconds(self) -> float:
        """Processor time that it and its workers have used; Linux tells it of each process."""
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        stats = [Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split() for process in (own, *children)]
        return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate()


# --- the load ---------------------------------------------------------------------------------------------------------------------


class Load:
    """Clients of one server."""

    def __init__(self, side: str, address: str, expected: list[float]) -> None:
        self.address = address
        self.host, port = address.removeprefix("http://").split(":")
        self.port, self.expected, self.close = int(port), expected, CLOSE[side]
        self.bodies = [json.dumps({"words": words}).encode() for words in sentences()]
        self.asked = 0
        self.seconds: list[float] = []
        self.wrong = self.lost = 0

    def ask(self, client: Any) -> None:
        number, self.asked = self.asked % SENTENCES, self.asked + 1
        begun = time.perf_counter()
        reply = client.post("/score", self.bodies[number])
        answer = json.loads(reply.read())
        self.seconds.append(time.perf_counter() - begun)
        if reply.status_code != 200:
            self.lost += 1
        elif not abs(answer - self.expected[number]) <= self.close:
            self.wrong += 1

    def client(self, connections: int) -> Any:
        from geventhttpclient import HTTPClient

        waits = dict.fromkeys(("connection_timeout", "network_timeout"), 120)
        return HTTPClient(self.host, self.port, concurrency=connections, **waits)

    def connected(self, connections: int) -> Any:
        """A client whose connections are open: each has had an answer."""
        import gevent

        client = self.client(connections)
        gevent.joinall([gevent.spawn(self.ask, client) for _ in range(connections)], raise_error=True)
        return client

    def closed(self, clients: int, count: int) -> tuple[float, float]:
        """Each client asks when it has its answer; (requests a second, processor time that a request has cost the clients)."""
        import gevent

        client, last = self.connected(clients), self.asked + count

        def ask_on() -> None:
            while self.asked < last:
                self.ask(client)

        self.seconds, begun, busy = [], time.perf_counter(), time.process_time()
        gevent.joinall([gevent.spawn(ask_on) for _ in range(clients)], raise_error=True)
        client.close()
        return len(self.seconds) / (time.perf_counter() - begun), (time.process_time() - busy) / len(self.seconds)

    def by_wrk(self, clients: int, seconds: int) -> wrk.Sent:
        """As `closed`, with another program's clients."""
        sent = wrk.send(self.address, "/score", self.bodies, clients, seconds)
        self.lost += sent.lost
        return sent

    def open(self, rate: float, count: int) -> float:
        """Requests come by chance, `rate` a second, whatever has been answered; the seconds by which one in a hundred was sent late."""
        import gevent

        client, chance, late = self.connected(MOST_CONNECTIONS), random.Random(0), []
        due = time.perf_counter()

        def ask(due: float) -> None:
            late.append(time.perf_counter() - due)
            self.ask(client)

        self.seconds, asking = [], []
        for _ in range(count):
            due += chance.expovariate(rate)
            gevent.sleep(max(0.0, due - time.perf_counter()))
            asking.append(gevent.spawn(ask, due))
        gevent.joinall(asking, raise_error=True)
        client.close()
        return sorted(late)[int(0.99 * count)]

    def quantile(self, share: float) -> float:
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))] * 1e3


class Figures(NamedTuple):
    """Of one round of one side; times in milliseconds, processor times in microseconds."""

    rate: float  # requests a second
    of_server: float  # processor time of a request
    of_clients: float
    alone: float
    alone_p99: float
    half: float  # at half load
    half_p99: float
    late: float  # by which one in a hundred was sent late


class Side:
    """A side's server, and its figures in each round."""

    def __init__(self, name: str, options: argparse.Namespace, expected: list[float]) -> None:
        self.name, self.options, self.figures = name, options, list[Figures]()
        self.server = Server(name, options.threads, options.workers)
        self.load = Load(name, self.server.address, expected)

    def warm(self) -> None:
        self.load.closed(self.options.clients, max(SENTENCES, min(self.options.count, 2000)))

    def measure(self) -> None:
        load, count = self.load, self.options.count
        busy = self.server.seconds()
        if self.options.wrk:
            asked, rate, _, of_clients = load.by_wrk(self.options.clients, self.options.wrk)
            of_clients /= asked
        else:
            asked = count
            rate, of_clients = load.closed(self.options.clients, count)
        busy = (self.server.seconds() - busy) / asked
        load.closed(1, 300)
        alone = load.quantile(0.5), load.quantile(0.99)
        late = load.open(rate / 2, min(count, 4000))
        half = load.quantile(0.5), load.quantile(0.99)
        self.figures.append(Figures(rate, busy * 1e6, of_clients * 1e6, *alone, *half, late * 1e3))

    def tell(self) -> None:
        middle = Figures(*map(median, zip(*self.figures, strict=True)))
        rates = [round(figures.rate) for figures in self.figures]
        tails = median([figures.half_p99 / figures.alone_p99 for figures in self.figures])
        print(
            f"{self.name}: {middle.rate:.0f} requests/s ({min(rates)} to {max(rates)}) with {self.options.clients} clients "
            f"({middle.of_server:.0f} us of processor time each, {middle.of_clients:.0f} us of the clients); alone {middle.alone:.1f} ms "
            f"(p99 {middle.alone_p99:.1f}); at half load {middle.half:.1f} ms, p99 {middle.half_p99:.1f} ms ({tails:.2f} of alone; sent up to "
            f"{middle.late:.1f} ms late); {self.load.lost} lost, {self.load.wrong} wrong",
            flush=True,
        )


def measured(options: argparse.Namespace, expected: list[float]) -> None:
    """Starts the servers, measures them in turn, and prints the medians of the rounds."""
    gc.freeze()  # with a model and its kernels loaded a full collection takes a tenth of a second, in which nothing would be sent
    sides: list[Side] = []
    try:
        for name in options.sides:
            sides.append(Side(name, options, expected))
            sides[-1].warm()
        for _ in range(options.rounds):
            for side in sides:
                side.measure()
        for side in sides:
            side.tell()
        for side in sides[1:]:
            pairs = list(zip(sides[0].figures, side.figures, strict=True))
            rate = median([ours.rate / theirs.rate for ours, theirs in pairs])
            work = median([theirs.of_server / ours.of_server for ours, theirs in pairs])
            print(f"{sides[0].name} / {side.name}: {rate:.2f} by requests a second, {work:.2f} by processor time")
    finally:
        for side in sides:
            side.server.end()


def loops(texts: int, characters: int) -> None:
    """Characters a second of plain decoding loops, in a pool and one by one."""
    dynograd.manual_seed(0)
    model = char_lm.CharacterModel(65).eval()

    def write(number: int) -> list[int]:
        """The likeliest characters; a text ends where its length says."""
        ids, state, text = dynograd.tensor([[number % 65]]), None, []
        for _ in range(characters // 2 + number * characters // texts):
            scores, state = model(ids, state)
            ids = scores[:, -1].argmax(-1, keepdim=True)
            text.append(int(ids.item()))
        return text

    def one_by_one() -> list[list[int]]:
        with dynograd.no_grad():
            return [write(number) for number in range(texts)]

    def together() -> list[list[int]]:
        with dynograd.batched(write, running=True) as pool:
            return list(pool.map(range(texts)))

    speeds, costs, answers = {}, {}, []
    for name, way in (("one by one", one_by_one), ("in a pool", together)):
        way()
        begun, busy = time.perf_counter(), time.process_time()
        answers.append(way())
        characters_written = sum(map(len, answers[-1]))
        speeds[name] = characters_written / (time.perf_counter() - begun)
        costs[name] = (time.process_time() - busy) / characters_written
    same = sum(text == other for text, other in zip(*answers))
    ratio = speeds["in a pool"] / speeds["one by one"]
    figures = ", ".join(f"{speed:.0f} {name}" for name, speed in speeds.items())
    work = costs["one by one"] / costs["in a pool"]
    print(
        f"loops: characters/s {figures}: {ratio:.2f}x ({work:.2f}x by processor time); {same} of {texts} texts the same"
    )


def compared(options: argparse.Namespace) -> int:
    if options.loops:
        loops(64, 100)
        return 0
    model, vocabulary = classifier()
    with dynograd.no_grad(), dynograd.use_batch_invariant(True):
        expected = [model(dynograd.ragged_tensor([vocabulary.encode(words)])).item() for words in sentences()]
    measured(options, expected)
    return 0


def _sides(text: str) -> list[str]:
    sides = text.split(",")
    if not set(sides) <= set(SIDES):
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(SIDES)}, got {text!r}")
    return sides


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.serving", description=(__doc__ or "").split("\n\n")[0])
    add = parser.add_argument
    add("--sides", type=_sides, default=list(SIDES), help=f"some of {', '.join(SIDES)}")
    add("--clients", type=programs.whole_number(1), default=64, help="that ask at the same time (%(default)s)")
    add("--count", type=programs.whole_number(1), default=4000, help="requests of a side (%(default)s)")
    add(
        "--rounds",
        type=programs.whole_number(1),
        default=5,
        help="in each of which all sides are measured (%(default)s)",
    )
    add("--threads", type=programs.whole_number(1), default=1, help="that a batch is computed with (%(default)s)")
    add("--loops", action="store_true", help="measure decoding loops")
    add("--wrk", type=programs.whole_number(1), metavar="SECONDS", help="measure the throughput with wrk's clients")
    add("--workers", type=programs.whole_number(1), default=1, help="processes of the server (%(default)s)")
    options = parser.parse_args(arguments)
    return programs.run(lambda: compared(options), "benchmarks.serving")


if __name__ == "__main__":
    sys.exit(main())
