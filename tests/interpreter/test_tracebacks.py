"""What a user sees of a mistake: few frames of dynograd, each with its line, and one error."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import dynograd as dg
from dynograd import nn

F = nn.functional


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(3, 2))

    def forward(self, x: dg.Tensor) -> dg.Tensor:
        return self.layers(x)


def freed() -> None:
    w = dg.ones(2, requires_grad=True)
    loss = (w * w).sum()
    loss.backward()
    loss.backward()


def copied_model() -> None:
    copied = Model()
    copied.__setstate__(Model().__getstate__())
    copied(dg.ones(2, 4))


# What the mistake is: the call, the most frames of dynograd at the first call in a process, and at later ones.
MISTAKES = {
    "features of a Linear in a Sequential in a Module": (lambda: Model()(dg.ones(2, 4)), 9, 9),
    "a module without its note of hooks": (copied_model, 9, 9),
    "channels of a Conv2d": (lambda: nn.Conv2d(3, 4, 3)(dg.ones(1, 2, 8, 8)), 7, 6),
    "a number for an Embedding": (lambda: nn.Embedding(3, 2)(dg.tensor([5])), 8, 6),
    "dim of softmax": (lambda: dg.softmax(dg.ones(2, 3), dim=5), 7, 5),
    "dim of sum": (lambda: dg.ones(2, 3).sum(dim=4), 6, 5),
    "shapes in @": (lambda: dg.ones(2, 3) @ dg.ones(2, 3), 3, 2),
    "shapes in matmul of batches": (lambda: dg.matmul(dg.ones(2, 3, 3), dg.ones(4, 3, 3)), 4, 3),
    "shapes in +": (lambda: dg.ones(2, 3) + dg.ones(2, 4), 2, 1),
    "shapes in add": (lambda: dg.add(dg.ones(2, 3), dg.ones(2, 4)), 4, 3),
    "shapes in cat": (lambda: dg.cat([dg.ones(2, 3), dg.ones(3, 2)]), 9, 6),
    "dtype of an index": (lambda: dg.ones(3)[dg.ones(2)], 6, 5),
    "an index outside": (lambda: dg.ones(3)[7], 2, 2),
    "indices outside": (lambda: dg.ones(3)[dg.tensor([7])], 2, 2),
    "shapes in +=": (lambda: dg.ones(2).add_(dg.ones(3, 2)), 4, 3),
    "an index to add at": (lambda: dg.ones(3).index_add_(0, dg.tensor([7]), dg.ones(1)), 10, 8),
    "sizes of a view": (lambda: dg.ones(2, 3).view(4, 2), 3, 2),
    "sizes of reshape": (lambda: dg.ones(2, 3).reshape(4, 2), 3, 2),
    "dims of transpose": (lambda: dg.ones(2, 3).transpose(0, 4), 3, 2),
    "a list for a tensor": (lambda: dg.softmax([1.0, 2.0], 0), 1, 1),
    "target of cross_entropy": (lambda: F.cross_entropy(dg.ones(2, 3), dg.tensor([0, 7])), 5, 4),
    "backward through what is freed": (freed, 4, 4),
    "a leaf written in place": (lambda: dg.ones(2, requires_grad=True).add_(1), 5, 4),
}


def frames_of(error: BaseException) -> list[traceback.FrameSummary]:
    return [element for element in traceback.extract_tb(error.__traceback__) if element.filename != __file__]


def told(name: str) -> dict:
    """The frames of dynograd at the call of this mistake, those without a line, and the traceback as it is printed."""
    try:
        MISTAKES[name][0]()
    except Exception as error:
        frames = frames_of(error)
        return {
            "frames": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
            "bare": [frame.filename for frame in frames if not frame.line],
            "printed": "".join(traceback.format_exception(error)),
        }
    raise AssertionError(f"no error: {name}")


@pytest.fixture(scope="module")
def of_another_process() -> dict:
    run = subprocess.run([sys.executable, Path(__file__)], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_few_frames_with_their_lines(name, of_another_process):
    first, later = of_another_process[name]
    for seen, most in ((first, MISTAKES[name][1]), (later, MISTAKES[name][2])):
        assert len(seen["frames"]) <= most, seen["frames"]
        assert not seen["bare"]
        assert "During handling" not in seen["printed"] and "direct cause" not in seen["printed"], seen["printed"]


if __name__ == "__main__":
    print(json.dumps({name: (told(name), told(name)) for name in MISTAKES}))
