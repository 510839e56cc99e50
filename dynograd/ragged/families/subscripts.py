"""Equations of einsum in full: dims behind "..." get letters, and so does an output that is not written."""

from __future__ import annotations

from string import ascii_letters
from typing import Any

from dynograd.errors import ShapeError

__all__ = ["spelled"]


def spelled(equation: str, operands: tuple[Any, ...]) -> tuple[list[str], str]:
    """(the letters of each operand, those of the output).

    >>> spelled("...d,de", (dynograd.zeros(2, 3, 4), dynograd.zeros(4, 5)))
    (['ABd', 'de'], 'ABe')
    """
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    texts = inputs.split(",")
    if len(texts) != len(operands):
        raise ShapeError(
            f"einsum: {equation!r} has subscripts for {len(texts)} operands, but {len(operands)} were given."
        )
    free = [letter for letter in ascii_letters[26:] + ascii_letters[:26] if letter not in equation]
    hidden = [
        operand.ndim - len(text) + 3 if "..." in text else 0 for text, operand in zip(texts, operands, strict=True)
    ]
    longest = max(hidden)
    for text, operand, count in zip(texts, operands, hidden, strict=True):
        if count < 0 or ("..." not in text and len(text) != operand.ndim):
            raise ShapeError(
                f"einsum: the subscripts {text!r} name {len(text.replace('...', ''))} dims, but the operand of shape {tuple(operand.shape)} "
                f"has {operand.ndim}."
            )
    shared = "".join(free[:longest])
    letters = [text.replace("...", shared[longest - count :]) for text, count in zip(texts, hidden, strict=True)]
    if not arrow:
        named = "".join(texts).replace("...", "")
        output = "..." + "".join([letter for letter in sorted(set(named)) if named.count(letter) == 1])
    return letters, output.replace("...", shared)
