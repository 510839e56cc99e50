"""Operations that PyTorch's FlopCounterMode counts, of the same models."""

import pytest

import dynograd

torch = pytest.importorskip("torch")
from torch.utils.flop_counter import FlopCounterMode as Theirs  # noqa: E402

from dynograd.utils.flop_counter import FlopCounterMode as Ours  # noqa: E402

MODELS = {
    "perceptron": (lambda t: t.nn.Sequential(t.nn.Linear(8, 16), t.nn.ReLU(), t.nn.Linear(16, 3)), (5, 8)),
    "convolutions": (
        lambda t: t.nn.Sequential(
            t.nn.Conv2d(2, 4, 3, padding=1, stride=2),
            t.nn.ReLU(),
            t.nn.ConvTranspose2d(4, 6, 2),
            t.nn.Flatten(),
            t.nn.Linear(150, 3),
        ),
        (2, 2, 8, 8),
    ),
    "encoder": (lambda t: t.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), (2, 7, 16)),
}


@pytest.mark.parametrize("name", MODELS)
def test_counts_of_modules(name):
    build, shape = MODELS[name]
    totals = []
    for library, mode in ((torch, Theirs), (dynograd, Ours)):
        model = build(library)
        with mode(display=False) as counter:
            model(library.rand(*shape)).sum().backward()
        totals.append({path: sum(counts.values()) for path, counts in counter.get_flop_counts().items()})
    theirs, ours = ({path: count for path, count in counts.items() if count} for counts in totals)
    assert ours == theirs
