"""Mutants are valid texts that differ in one place; tests of files with like names run first."""

from tools.mutants import ROOT, mutants, related

TEXT = '''
LIMIT = 1

def f(x, n):
    """Docs with 1 + 1."""
    if not x or n < 2:
        return "ä", n - 1
    return n == 3
'''


def test_each_mutant_differs_in_one_place():
    results = dict(mutants(TEXT))
    assert sorted(results) == [
        "6: 2 -> 3",
        "6: n < 2 -> (n <= 2)",
        "6: not x -> (x)",
        "7: 1 -> 2",
        "7: n - 1 -> (n + 1)",
        "8: n == 3 -> (n != 3)",
    ]
    assert results["7: n - 1 -> (n + 1)"] == TEXT.replace("n - 1", "(n + 1)")
    for text in results.values():
        compile(text, "mutant", "exec")


def test_files_of_like_names_come_first():
    close, far = related(ROOT / "dynograd/kernels/index/scatters_numba.py", ["tests/ops", "tests/kernels"])
    assert close == ["tests/ops/test_scatters.py", "tests/kernels/test_large_scatters.py"]
    assert "tests/ops/test_scans.py" in far and not {*close} & {*far}
    close, _ = related(ROOT / "dynograd/ops/loss/margin_losses.py", ["tests/ops"])
    assert close[0] == "tests/ops/test_margin_losses.py" and "tests/ops/test_losses.py" in close
