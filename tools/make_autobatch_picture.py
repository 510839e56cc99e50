"""Writes docs/autobatch-groups.svg, the picture of a step's groups in docs/autobatch.md: `python -m tools.make_autobatch_picture`."""

from __future__ import annotations

import sys
from pathlib import Path

import dynograd
from dynograd import nn
from dynograd.utils import programs

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "autobatch-groups.svg"
TREES = (
    (((1, 2), 3), ((4, 5), (6, 7))),
    (1, (2, (3, (4, (5, 6))))),
    ((1, 2), (3, (4, 5))),
    (((1, (2, 3)), 4), 5),
    (1, 2),
)


def step() -> dynograd.autobatch:
    """The report of a Tree-LSTM's step on five trees, with the loss of each."""
    embedding, cell, head = nn.Embedding(8, 16), nn.BinaryTreeLSTMCell(16, 16), nn.Linear(16, 2)
    words, label = [dynograd.tensor(number) for number in range(8)], dynograd.tensor(1)

    def state(tree):
        if isinstance(tree, tuple):
            return cell(None, state(tree[0]), state(tree[1]))
        return cell(embedding(words[tree]))

    with dynograd.autobatch(always=True) as report:
        loss = sum(nn.functional.cross_entropy(head(state(tree)[0]), label) for tree in TREES)
    loss.backward()
    return report


def main() -> None:
    PICTURE.write_text(step().svg(), encoding="utf-8")
    print(PICTURE)


if __name__ == "__main__":
    sys.exit(programs.run_alone(main, __doc__))
