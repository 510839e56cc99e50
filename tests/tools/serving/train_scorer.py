"""What each process of test_train_export_serve.py does: trains a model of ragged rows with its own rows of a batch; the first one exports it.

    python -m dynograd.run -n 2 tests/tools/serving/train_scorer.py FOLDER

FOLDER gets scorer.dg, scorer.onnx (with the extra onnx), answers.npz, and losses-RANK.npy of each process.
"""

import importlib.util
import sys
from pathlib import Path

import numpy

import dynograd
from dynograd import distributed, nn
from dynograd.nn.parallel import DistributedDataParallel

WORDS, STEPS, BATCH = 40, 30, 16
ASKED = [[3], [1, 2, 3, 4, 5], [39, 0, 17], [7] * 30]


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(WORDS, 8), nn.GRU(8, 12, batch_first=True, bidirectional=True)
        self.output = nn.Linear(24, 1)

    def forward(self, words):
        """Ragged (B, j) to (B,)."""
        states, _ = self.gru(self.embedding(words))
        return self.output(states.amax(1)).squeeze(1)


def batch_of(step):
    """(rows, whether each has a word of the first ten)."""
    generator = numpy.random.default_rng(step)
    rows = [generator.integers(0, WORDS, length) for length in generator.integers(1, 9, BATCH)]
    return rows, numpy.float32([(row < 10).any() for row in rows])


def main(folder):
    distributed.init_process_group()
    rank, size = distributed.get_rank(), distributed.get_world_size()
    dynograd.manual_seed(0)
    model = Scorer()
    trained = DistributedDataParallel(model)
    optimizer = dynograd.optim.AdamW(model.parameters(), lr=0.03)
    losses = []
    for step in range(STEPS):
        rows, labels = batch_of(step)
        optimizer.zero_grad()
        scores = trained(dynograd.ragged_tensor(rows[rank::size]))
        loss = nn.functional.binary_cross_entropy_with_logits(scores, dynograd.tensor(labels[rank::size]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    numpy.save(folder / f"losses-{rank}.npy", losses)
    if rank == 0:
        export(model.eval(), folder)
    distributed.destroy_process_group()


def export(model, folder):
    rows = dynograd.ragged_tensor(ASKED)
    dynograd.export.save_program(model, (rows,), folder / "scorer.dg")
    if importlib.util.find_spec("onnx") is not None:
        dynograd.onnx.export(model, (rows,), folder / "scorer.onnx", ragged="padded")
    with dynograd.no_grad(), dynograd.use_batch_invariant(True):
        numpy.savez(folder / "answers.npz", scores=model(rows).numpy())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
