"""Mutants are valid texts that differ in one place."""

from tools.mutants import mutants

TEXT = '''
LIMIT = 1

def f(x, n):
    """Docs with 1 + 1."""
    if not x or n < 2:
        return "ä", n - 1
    return n == 3
'''


def test_each_mutant_differs_in_one_place():
    found = dict(mutants(TEXT))
    assert sorted(found) == [
        "6: 2 -> 3",
        "6: n < 2 -> (n <= 2)",
        "6: not x -> (x)",
        "7: 1 -> 2",
        "7: n - 1 -> (n + 1)",
        "8: n == 3 -> (n != 3)",
    ]
    assert found["7: n - 1 -> (n + 1)"] == TEXT.replace("n - 1", "(n + 1)")
    for text in found.values():
        compile(text, "mutant", "exec")
