"""A small training with everything random in it, as a program that is killed and started again: `python -m runs_training FOLDER ...`."""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal

import numpy

import dynograd as dg
from dynograd import nn
from dynograd.data import BucketBatchSampler, DataLoader, Dataset, collate_pad

EPOCHS, STEPS_PER_EPOCH = 3, 5


class Noisy(Dataset):
    """Sequences of 1 to 7 vectors with noise that is new in each epoch."""

    def __init__(self):
        self.lengths = [1 + number % 7 for number in range(20)]

    def __len__(self):
        return 20

    def __getitem__(self, index):
        noise = random.random() + numpy.random.standard_normal() + dg.randn(self.lengths[index], 3)
        return noise + index / 10, float(index % 2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        return self.last(self.drop(self.norm(self.first(x.sum(1))).tanh())).squeeze(1)


def build(folder, workers=0, path="run.safetensors", **options):
    dg.manual_seed(1)
    random.seed(2)
    numpy.random.seed(3)
    data = Noisy()
    model = Model()
    optimizer = dg.optim.AdamW(model.parameters(), lr=0.05)
    scheduler = dg.optim.lr_scheduler.StepLR(optimizer, 4, gamma=0.7)
    loader = DataLoader(
        data, batch_sampler=BucketBatchSampler(data.lengths, 4, pool=8), collate_fn=collate_pad(), num_workers=workers
    )
    argument = dict(model=model, optimizer=optimizer, scheduler=scheduler, loader=loader) | options
    return dg.Run(None if folder is None else os.path.join(folder, path), extra={"losses": []}, **argument)


def train(run, at_step=None, epochs=EPOCHS):
    """Trains to the end; `at_step(step)` is called in the middle of each step."""
    model, optimizer, scheduler = (run.parts[name] for name in ("model", "optimizer", "scheduler"))
    with run:
        for _ in run.epochs(epochs):
            total = 0.0
            for x, _, labels in run.steps():
                loss = nn.functional.binary_cross_entropy_with_logits(model(x), labels.float() * random.random())
                optimizer.zero_grad()
                loss.backward()
                if at_step is not None:
                    at_step(run.step)
                optimizer.step()
                scheduler.step()
                total += loss.item()
            run.extra["losses"].append(numpy.random.standard_normal() + run.step)
    return digest(run)


def digest(run):
    created = hashlib.sha256(repr(run.extra["losses"]).encode())
    for name, value in run.parts["model"].state_dict().items():
        created.update(name.encode() + value.numpy().tobytes())
    created.update(repr((dg.rand(1).item(), random.random(), numpy.random.random())).encode())
    return created.hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--kill-at", type=int)
    parser.add_argument("--signal", type=int, default=signal.SIGKILL)
    parser.add_argument("--save-every", type=int, default=1)
    argument = parser.parse_args()
    run = build(argument.folder, argument.workers, save_every=argument.save_every)

    def kill(step):
        if step == argument.kill_at:
            os.kill(os.getpid(), argument.signal)

    began = run.step
    print(f"began at {began}, ended with {train(run, kill)}", flush=True)


if __name__ == "__main__":
    main()
