"""How many small faults the tests notice: `python -m tools.mutants HALF [--count 15] [--seed 1] [tests ...]`.

A mutant is the package with one comparison, sign, small number or `not` turned into another one. Each is written into this working
tree, the tests run until the first failure, and the file is put back. Test files whose names share a word with that of the file run
first, then the others; what noticed a mutant is printed behind it. Halves: "cpu" (ops and their kernels), "gpu" (kernels for GPUs, in
emulation) and "ragged". Run it in a clone of its own.
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
HALVES = {  # folders, whether their files for GPUs are meant, the tests, and which of them run before the rest
    "cpu": (["ops/elementwise", "ops/reduce", "ops/index", "ops/layout", "ops/loss", "kernels/reduce", "kernels/elementwise",
             "kernels/norm", "kernels/index"], False, ["tests/ops", "tests/kernels"], []),
    "gpu": (["kernels"], True, ["tests/gpu"],
            ["tests/gpu/test_op_rows.py"]),
    "ragged": (["ragged"], False, ["tests/ragged"], ["tests/ragged/test_every_op.py"]),
}  # fmt: skip
_KINDS = {"cpu", "cuda", "triton", "simt", "numba", "test", "rows"}
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


def related(path: Path, tests: list[str]) -> tuple[list[str], list[str]]:
    """(test files whose names share a word with the file's, the others); the most alike first."""
    words = _words(path)
    files = [
        file
        for name in tests
        for file in ([ROOT / name] if name.endswith(".py") else sorted((ROOT / name).rglob("test_*.py")))
    ]
    files.sort(key=lambda file: -len(words & _words(file)))
    return (
        [str(file.relative_to(ROOT)) for file in files if words & _words(file)],
        [str(file.relative_to(ROOT)) for file in files if not words & _words(file)],
    )


def _words(path: Path) -> set[str]:
    """Of a file's name, without what says for which processor it is, and whether of one or of many."""
    return {word.removesuffix("es").removesuffix("s") for word in path.stem.split("_") if word not in _KINDS}


def noticed_by(tests: list[str], for_gpu: bool, workers: int) -> str:
    """The first test that fails; "" where none does."""
    if not tests:
        return ""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider", "-m", "not slow"]
    command += ["-n", str(workers)] if workers > 1 else ["-p", "no:xdist"]
    environment = os.environ | ({"DYNOGRAD_CUDA": "emulated"} if for_gpu else {})
    done = subprocess.run([*command, *tests], cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode in (0, 5):  # 5: the files given have no test
        return ""
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0] if lines else f"pytest ended with {done.returncode}"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("half", choices=HALVES)
    parser.add_argument("--count", type=programs.whole_number(1), default=15, help="how many mutants")
    parser.add_argument("--seed", type=programs.whole_number(0), default=1, help="which ones")
    parser.add_argument("--workers", type=programs.whole_number(1), default=2, help="test processes")
    parser.add_argument("--related-only", action="store_true", help="leave the others out: MISSED then means unknown")
    parser.add_argument("tests", nargs="*", help="what to run instead of the half's tests")
    options = parser.parse_args(arguments)
    folders, for_gpu, tests, soon = HALVES[options.half]
    files = [path for folder in folders for path in sorted((ROOT / "dynograd" / folder).rglob("*.py"))]
    files = [path for path in files if path.name.endswith(_GPU) is for_gpu]
    everything = [(path, *mutant) for path in files for mutant in mutants(path.read_text(encoding="utf-8"))]
    chosen = random.Random(options.seed).sample(everything, options.count)
    killed = 0
    for path, what, text in chosen:
        before, start = path.read_text(encoding="utf-8"), time.monotonic()
        path.write_text(text, encoding="utf-8")
        close, far = related(path, options.tests or tests)
        try:
            noticed = noticed_by(close, for_gpu, options.workers)
            if not noticed and soon:
                families = ["-k", " or ".join(sorted(_words(path)))] if for_gpu else []  # of the rows of ops
                noticed = noticed_by([*soon, *families], for_gpu, options.workers)
            if not noticed and not options.related_only:
                noticed = noticed_by(far, for_gpu, options.workers)
        finally:
            path.write_text(before, encoding="utf-8")
        killed += bool(noticed)
        told = "noticed" if noticed else "MISSED"
        print(f"{told} {time.monotonic() - start:5.0f} s  {path.relative_to(ROOT)}:{what}  {noticed}", flush=True)
    print(f"{killed} of {len(chosen)} noticed")


if __name__ == "__main__":
    main(sys.argv[1:])
