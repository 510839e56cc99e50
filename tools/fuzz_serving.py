"""Sends mutated bodies to a service: `python -m tools.fuzz_serving --count 10000`. Each has to be answered, or refused with {"error": a sentence}.

The service refuses what is no example of its models (400); anything else, 500 included, is a mistake of ours and ends the run with the body.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import dynograd
from dynograd.serving import Batcher, Service
from dynograd.utils import programs

__all__ = ["fuzz", "main"]

TENSOR = {"name": "x", "datatype": "FP32", "shape": [3], "data": [1.0, 2.5, -3.0]}
BODIES = {
    "/mean": [[1.0, 2.5, 3.0], [0.5], [[1, 2], [3, 4]]],
    "/halvings": [5, 0.25, 1000.0],
    "/v2/models/echo/infer": [
        {"inputs": [TENSOR], "id": "7"},
        {"inputs": [{**TENSOR, "datatype": "INT8", "data": [1, -2, 3]}], "outputs": [{"name": "output"}]},
        {"inputs": [TENSOR | {"name": "a"}, TENSOR], "parameters": {"binary_data_output": False}},
        {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1, 2], "data": [["a", "b"]]}]},
    ],
}
WORDS = [
    b"[",
    b"]",
    b"{",
    b"}",
    b'"',
    b",",
    b":",
    b"null",
    b"true",
    b"NaN",
    b"-1",
    b"1e999",
    b"9" * 30,
    b"0",
    b"\\ud800",
]
WORDS += [
    b"[" * 2000,
    b"BF16",
    b"UINT64",
    b"parameters",
    b'"binary_data_size": 8',
    b"\xff\xfe",
    b"\0",
    b"1.5",
    b"{}",
    b"[]",
]


def mean(body: Any) -> dynograd.Tensor:
    row = dynograd.tensor(body, dtype=dynograd.float32)
    if row.ndim != 1 or not len(row) or not row.isfinite().all():
        raise ValueError("expected a row of numbers")
    return row


def number(body: Any) -> float:
    if isinstance(body, bool) or not isinstance(body, (int, float)) or not abs(body) < 1e30:
        raise ValueError("expected a number")
    return float(body)


def halvings(x: float) -> Any:
    while x > 1:
        x = (dynograd.tensor(x) / 2).item()
        yield x


def echo(tensors: Any) -> Any:
    return tensors


def mutated(body: bytes, chance: random.Random) -> bytes:
    """The body with a few pieces changed, left out, doubled, or put in."""
    changed = bytearray(body)
    for _ in range(chance.randint(1, 4)):
        first = chance.randrange(len(changed) + 1)
        last = min(len(changed), first + chance.choice((0, 0, 1, 1, 3, 10)))
        piece = chance.choice(
            (b"", bytes([chance.randrange(256)]), chance.choice(WORDS), bytes(changed[first:last]) * 2)
        )
        changed[first:last] = piece
    return bytes(changed)


def fuzz(count: int, seed: int = 0) -> Counter[int]:
    """Sends `count` mutated bodies; how many were answered with which status.

    Raises:
        AssertionError: an answer that is none and no refusal.
    """
    from starlette.testclient import TestClient

    chance, codes = random.Random(seed), Counter[int]()
    with Service(max_body=4000) as service:
        service.add("mean", Batcher(lambda rows: rows.mean(1), max_wait=1e-4), decode=mean)
        service.add("halvings", halvings, decode=number)
        service.add("echo", echo)
        with TestClient(service.app(), raise_server_exceptions=False) as client:
            for _ in range(count):
                path = chance.choice(list(BODIES))
                body = mutated(json.dumps(chance.choice(BODIES[path])).encode(), chance)
                headers = {"Accept": "application/json"}
                if chance.random() < 0.2:
                    headers["Inference-Header-Content-Length"] = str(chance.choice((len(body), 0, -1, 10, 10**30, "x")))
                reply = client.post(path, content=body, headers=headers)
                codes[reply.status_code] += 1
                told = f"{path} {headers} {body!r}: {reply.status_code} {reply.text}"
                assert reply.status_code in (200, 400, 413), told
                answer = reply.json()
                assert reply.status_code == 200 or (list(answer) == ["error"] and isinstance(answer["error"], str)), (
                    told
                )
    return codes


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tools.fuzz_serving", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--count", type=programs.whole_number(1), default=10_000, help="bodies (%(default)s)")
    parser.add_argument("--seed", type=programs.seed, default=0, help="the same bodies (%(default)s)")
    options = parser.parse_args(arguments)
    return programs.run(lambda: print(dict(fuzz(options.count, options.seed))), "tools.fuzz_serving")


if __name__ == "__main__":
    sys.exit(main())
