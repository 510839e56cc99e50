"""How many small faults the tests notice: `python -m tools.mutants HALF [--count 15] [--seed 1] [tests ...]`.

A mutant is the package with one comparison, sign, small number or `not` turned into another one. Each is written into this working
tree, the tests run until the first failure, and the file is put back. Halves: "cpu" (ops and their kernels), "gpu" (kernels for
GPUs, in emulation) and "ragged". Run it in a clone of its own.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from dynograd.utils import programs

__all__ = ["HALVES", "main", "mutants"]

ROOT = Path(__file__).resolve().parent.parent
_GPU = ("_cuda.py", "_triton.py", "_simt.py")
HALVES = {  # folders, whether their files for GPUs are meant, and the tests
    "cpu": (["ops/elementwise", "ops/reduce", "ops/index", "ops/layout", "ops/loss", "kernels/reduce", "kernels/elementwise",
             "kernels/norm", "kernels/index"], False, ["-m", "not slow", "tests/ops", "tests/kernels"]),
    "gpu": (["kernels"], True, ["tests/gpu"]),
    "ragged": (["ragged"], False, ["tests/ragged"]),
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_SIGNS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip


def _turned(node: ast.AST) -> ast.expr | None:
    """What a mutant has in place of the node; None where it stays."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        return ast.Compare(node.left, [_COMPARISONS[type(node.ops[0])]()], node.comparators)
    if (
        isinstance(node, ast.BinOp)
        and type(node.op) in _SIGNS
        and not isinstance(node.left, (ast.Constant, ast.JoinedStr))
    ):
        return ast.BinOp(node.left, _SIGNS[type(node.op)](), node.right)
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value in (0, 1, 2):
        return ast.Constant(node.value + 1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    return None


def mutants(text: str) -> Iterator[tuple[str, str]]:
    """(what differs, the text) of each mutant of a file."""
    source = text.encode()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    bodies = [
        inner for outer in ast.walk(ast.parse(text)) if isinstance(outer, ast.FunctionDef) for inner in outer.body
    ]
    nodes = {id(node): node for body in bodies for node in ast.walk(body)}.values()
    for node in nodes:
        turned = _turned(node)
        if turned is None or not isinstance(node, ast.expr) or node.end_lineno is None or node.end_col_offset is None:
            continue
        start, stop = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        new = ast.unparse(turned) if isinstance(node, ast.Constant) else f"({ast.unparse(turned)})"
        yield (
            f"{node.lineno}: {source[start:stop].decode()} -> {new}",
            (source[:start] + new.encode() + source[stop:]).decode(),
        )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("half", choices=HALVES)
    parser.add_argument("--count", type=programs.whole_number(1), default=15, help="how many mutants")
    parser.add_argument("--seed", type=programs.whole_number(0), default=1, help="which ones")
    parser.add_argument("tests", nargs="*", help="what to run instead of the half's tests")
    options = parser.parse_args(arguments)
    folders, for_gpu, tests = HALVES[options.half]
    files = [path for folder in folders for path in sorted((ROOT / "dynograd" / folder).rglob("*.py"))]
    files = [path for path in files if path.name.endswith(_GPU) is for_gpu]
    everything = [(path, *mutant) for path in files for mutant in mutants(path.read_text(encoding="utf-8"))]
    chosen = random.Random(options.seed).sample(everything, options.count)
    killed = 0
    for path, what, text in chosen:
        before, start = path.read_text(encoding="utf-8"), time.monotonic()
        path.write_text(text, encoding="utf-8")
        try:
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "--tb=no", "-p", "no:cacheprovider"]
            environment = os.environ | ({"DYNOGRAD_CUDA": "emulated"} if for_gpu else {})
            done = subprocess.run([*command, *(options.tests or tests)], cwd=ROOT, env=environment, capture_output=True)
        finally:
            path.write_text(before, encoding="utf-8")
        killed += done.returncode != 0
        outcome = "noticed" if done.returncode else "MISSED"
        print(f"{outcome} {time.monotonic() - start:5.0f} s  {path.relative_to(ROOT)}:{what}", flush=True)
    print(f"{killed} of {len(chosen)} noticed")


if __name__ == "__main__":
    main(sys.argv[1:])
