"""`python -m packages run [NAME ...]`: runs the programs, each in a process of its own, and compares; `store` writes PyTorch's results;
`table` writes docs/packages.md from the verdicts; `speed` times five programs beside PyTorch, in an environment that has it too.

`run` and `store` take the PyTorch that the environment has: the stand-in, or the real one.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
VERDICTS = HERE / "verdicts.json"
PAGE = HERE.parent / "docs" / "packages.md"
_TOLERANCE = 2e-3


def listed() -> list[tuple[str, str]]:
    """(file, program) of all, read without importing any."""
    places = []
    for path in sorted((HERE / "programs").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and any(
                [getattr(mark, "id", "") == "program" for mark in node.decorator_list]
            ):
                places.append((path.stem, node.name))
    return places


def one(file: str, name: str) -> None:
    """Runs one program in this process and prints its results as JSON."""
    warnings.simplefilter("ignore")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch

    from packages.values import without_extension

    if "dynograd" not in torch.__version__:
        without_extension(torch)
    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ.get("PACKAGES_THREADS", "1")))
    from packages.values import PROGRAMS, summary

    begin = time.perf_counter()
    importlib.import_module(f"packages.programs.{file}")
    ready = time.perf_counter()
    results = PROGRAMS[name]()
    seconds = time.perf_counter() - ready
    text = json.dumps(
        {"results": summary(results), "seconds": seconds, "import": ready - begin, "torch": torch.__version__}
    )
    print("\n@@" + text)


def in_process(file: str, name: str, seconds: float = 600) -> dict[str, Any]:
    """What `one` prints, from a process of its own; under "error" what went wrong."""
    command = [sys.executable, "-m", "packages", "one", file, name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, cwd=HERE.parent, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {seconds:.0f} s"}
    for line in done.stdout.splitlines():
        if line.startswith("@@"):
            return json.loads(line[2:])
    lines = [line for line in done.stderr.strip().splitlines() if line and not line.startswith((" ", "dynograd:"))]
    return {"error": lines[-1] if lines else f"exit code {done.returncode}", "trace": done.stderr[-3000:]}


def difference(expected: Any, got: Any, place: str = "") -> str | None:
    """Where two results differ, or None."""
    if isinstance(expected, dict) and isinstance(got, dict):
        if expected.keys() != got.keys():
            return f"{place}: {sorted(expected)} and {sorted(got)}"
        if "numbers" in expected and "size" in expected:
            if expected["shape"] != got["shape"]:
                return f"{place}: shape {expected['shape']} and {got['shape']}"
            scale = max(expected["size"], 1e-6)
            pairs = zip([expected["size"], *expected["numbers"]], [got["size"], *got["numbers"]])
            worst = max(
                [abs(a - b) / scale if a == a and b == b else (0.0 if a != a and b != b else 1.0) for a, b in pairs]
            )
            return f"{place}: {worst:.1e} of the mean magnitude" if worst > _TOLERANCE else None
        pairs = [(expected[key], got[key], f"{place}.{key}" if place else key) for key in expected]
    elif isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            return f"{place}: {len(expected)} and {len(got)} values"
        pairs = [(a, b, f"{place}[{number}]") for number, (a, b) in enumerate(zip(expected, got))]
    elif isinstance(expected, float) and isinstance(got, float):
        same = abs(expected - got) <= _TOLERANCE * max(abs(expected), 1e-3) or (expected != expected and got != got)
        return None if same else f"{place}: {expected:.6g} and {got:.6g}"
    else:
        return None if expected == got else f"{place}: {expected!r} and {got!r}"
    return next((text for text in (difference(*pair) for pair in pairs) if text), None)


def stored(file: str) -> dict[str, Any]:
    path = RESULTS / f"{file}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def store(chosen: list[tuple[str, str]], jobs: int) -> int:
    failed = 0
    with ThreadPoolExecutor(jobs) as pool:
        for (file, name), answer in zip(chosen, pool.map(lambda pair: in_process(*pair), chosen)):
            if "error" in answer:
                failed += 1
                print(f"{file}.{name}: {answer['error']}\n{answer.get('trace', '')}", flush=True)
                continue
            results = stored(file)
            results[name] = {key: answer[key] for key in ("results", "seconds", "torch")}
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / f"{file}.json").write_text(
                json.dumps(results, indent=0, sort_keys=True) + "\n", encoding="utf-8"
            )
            print(f"{file}.{name}: stored, {answer['seconds']:.2f} s", flush=True)
    return failed


def run(chosen: list[tuple[str, str]], jobs: int) -> int:
    verdicts = json.loads(VERDICTS.read_text(encoding="utf-8")) if VERDICTS.exists() else {}
    failed = 0
    with ThreadPoolExecutor(jobs) as pool:
        for (file, name), answer in zip(chosen, pool.map(lambda pair: in_process(*pair), chosen)):
            expected = stored(file).get(name)
            if "error" in answer:
                verdict = f"fails: {answer['error']}"
            elif expected is None:
                verdict = "no stored result"
            else:
                where = difference(expected["results"], answer["results"])
                verdict = "right" if where is None else f"differs: {where}"
            failed += verdict != "right"
            verdicts[f"{file}.{name}"] = {
                "verdict": verdict,
                "seconds": answer.get("seconds"),
                "torch_seconds": expected and expected["seconds"],
            }
            print(f"{file}.{name}: {verdict}", flush=True)
            if "-v" in sys.argv and "trace" in answer:
                print(answer["trace"])
    VERDICTS.write_text(json.dumps(verdicts, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(chosen) - failed} of {len(chosen)} programs give PyTorch's results")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m packages", description=__doc__)
    parser.add_argument("what", choices=["run", "store", "table", "speed", "one", "list"])
    parser.add_argument(
        "names", nargs="*", help="files (transformers_models) or programs (transformers_models.bert); all without"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-v", action="store_true", help="show the tracebacks")
    options = parser.parse_args()
    if options.what == "one":
        one(*options.names)
        return 0
    if options.what == "speed":
        from packages import speed

        speed.main(options.names)
        return 0
    if options.what == "table":
        from packages import table

        PAGE.write_text(table.page(), encoding="utf-8")
        return 0
    chosen = [
        (file, name)
        for file, name in listed()
        if not options.names or file in options.names or f"{file}.{name}" in options.names
    ]
    if options.what == "list":
        print("\n".join([f"{file}.{name}" for file, name in chosen]))
        return 0
    return 1 if (store if options.what == "store" else run)(chosen, options.jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
