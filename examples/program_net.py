"""Questions about a board of digits, each answered by a network of its own: module networks (Andreas et al. 2016) by plain recursion.

python examples/program_net.py                        trains, tests
python examples/program_net.py --steps 50 --plain     the same one question after the other, to compare questions/s

A board is nine handwritten digits, three by three. A question is a program, such as ("exist", ("both", ("find", 3), ("left", ("find", 7)))):
is there a 3 left of a 7? Each name is a small network that gives a place's chance from 0 to 1; they are put together as the program says,
and all learn from nothing but answers: no digit's label is ever shown. Every question has another graph; `autobatch` runs what is alike.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import random
import sys
import time
from pathlib import Path

from tqdm import tqdm

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn
from dynograd.data.datasets import read_idx
from dynograd.utils import programs

DATA = Path(__file__).resolve().parent / "data"
SIDE = 3
PLACES = range(SIDE * SIDE)
ANSWERS = ["no", "yes", *PLACES, len(PLACES)]


def read_digits(name, folder=DATA):
    """Pictures (N, 196) of 14 x 14 pixels from 0 to 1 and a list of their labels, for name "train10k" or "t10k"."""
    images = read_idx(folder / f"mnist-{name}-images-idx3-ubyte.gz").reshape(-1, 1, 28, 28)
    labels = read_idx(folder / f"mnist-{name}-labels-idx1-ubyte.gz")
    return F.avg_pool2d(images / 255, 2).flatten(1), labels.tolist()


# --- questions ------------------------------------------------------------------------------------------------------------------


def true_places(program, digits):
    """The places of a board that a condition holds for."""
    name, *parts = program
    if name == "find":
        return {place for place in PLACES if digits[place] == parts[0]}
    first, *other = (true_places(part, digits) for part in parts)
    if name == "both":
        return first & other[0]
    if name == "either":
        return first | other[0]
    if name == "not":
        return set(PLACES) - first
    if name == "left":
        return {place for place in PLACES if any(a // SIDE == place // SIDE and a > place for a in first)}
    return {place for place in PLACES if any(a % SIDE == place % SIDE and a > place for a in first)}  # above


def true_answer(program, digits):
    name, *parts = program
    counts = [len(true_places(part, digits)) for part in parts]
    if name == "count":
        return 2 + counts[0]
    return int(counts[0] > 0) if name == "exist" else int(counts[0] > counts[1])


def draw_condition(draw, digits, depth):
    name = draw.choice(["find", "find", "both", "either", "not", "left", "above"]) if depth else "find"
    if name == "find":
        return name, draw.choice(digits) if draw.random() < 0.7 else draw.randrange(10)
    count = 2 if name in ("both", "either") else 1
    return name, *(draw_condition(draw, digits, depth - 1) for _ in range(count))


def draw_question(draw, digits, depth):
    """(program, number of its answer) for a board of digits: how many, is there, are there more; yes as often as no."""
    name, expected = draw.choice(["count", "exist", "more"]), draw.randrange(2)
    while True:
        program = name, *(draw_condition(draw, digits, depth) for _ in range(2 if name == "more" else 1))
        answer = true_answer(program, digits)
        if name == "count" or answer == expected:
            return program, answer


def draw_example(draw, pictures, labels, depth):
    """(pictures of a board (9, 196), program, answer)."""
    chosen = draw.sample(range(len(labels)), len(PLACES))
    return pictures[chosen], *draw_question(draw, [labels[number] for number in chosen], depth)


# --- modules --------------------------------------------------------------------------------------------------------------------


class Cellwise(nn.Module):
    """The chance of each place from its chances in one or two conditions."""

    def __init__(self, inputs, hidden=8):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, 1), nn.Sigmoid())

    @torch.cell
    def forward(self, *chances):
        return self.layers(torch.stack(chances, 1)).squeeze(1)


class Board(nn.Module):
    """Numbers for the whole board from the chances of its places, and from their sums."""

    def __init__(self, inputs, outputs, hidden=32):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs * (len(PLACES) + 1), hidden), nn.ReLU(), nn.Linear(hidden, outputs)
        )

    @torch.cell
    def forward(self, *chances):
        return self.layers(torch.cat([*chances, *(chance.sum(0, keepdim=True) for chance in chances)]))


class ModuleNetwork(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.look = nn.Sequential(nn.Linear(196, size), nn.ReLU(), nn.Linear(size, size), nn.ReLU())
        self.find = nn.ModuleList(nn.Sequential(nn.Linear(size, 1), nn.Sigmoid()) for _ in range(10))
        self.conditions = nn.ModuleDict({"both": Cellwise(2), "either": Cellwise(2), "not": Cellwise(1)})
        self.ways = nn.ModuleDict({name: Board(1, len(PLACES)) for name in ("left", "above")})
        self.ends = nn.ModuleDict(
            {name: Board(inputs, len(ANSWERS)) for name, inputs in (("count", 1), ("exist", 1), ("more", 2))}
        )

    def chances(self, program, seen):
        """(9,): of each place, that the condition holds for it."""
        name, *parts = program
        if name == "find":
            return self.find[parts[0]](seen).squeeze(1)
        chances = [self.chances(part, seen) for part in parts]
        if name in self.ways:
            return self.ways[name](*chances).sigmoid()
        return self.conditions[name](*chances)

    def forward(self, pictures, program):
        """Scores of the answers, for one board (9, 196) and one program."""
        name, *parts = program
        seen = self.look(pictures)
        return self.ends[name](*(self.chances(part, seen) for part in parts))


def scores_of(model, examples, plain):
    with contextlib.nullcontext() if plain else torch.autobatch():
        return torch.stack([model(pictures, program) for pictures, program, _ in examples])


def answers_of(examples):
    return torch.tensor([answer for _, _, answer in examples])


@torch.no_grad()
def right_ones(model, examples, plain):
    """(N,): 1 where the best-scored answer is right."""
    return (scores_of(model, examples, plain).argmax(1) == answers_of(examples)).float()


def main(
    steps=3000,
    batch_size=64,
    depth=2,
    size=64,
    learning_rate=7e-3,
    seed=0,
    plain=False,
    questions=2000,
    compile=False,
):
    """Trains on new questions in every step, keeps the validated weights that were best and tests them once.

    Args:
        depth: of conditions within conditions, at most.
        plain: without autobatch, one question after the other.
        questions: so many to validate and to test, about digits that training has not.
        compile: training steps go through `torch.compile`.
    Returns:
        dict of test_accuracy, valid_accuracy, most_frequent (share of the most frequent answer in the test) and step (the best).
    """
    torch.manual_seed(seed)
    draw = random.Random(seed)
    pictures, labels = read_digits("train10k")
    train, kept = (pictures[:8000], labels[:8000]), (pictures[8000:], labels[8000:])
    valid = [draw_example(draw, *kept, depth) for _ in range(questions)]
    model = ModuleNetwork(size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    def learn(examples):
        loss = F.cross_entropy(scores_of(model, examples, plain), answers_of(examples))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return loss

    if compile:
        learn = torch.compile(learn)

    best = {"accuracy": -1.0, "step": 0, "weights": None}
    started = time.perf_counter()
    with tqdm(total=steps * batch_size, unit="questions", file=sys.stdout, mininterval=0.5) as bar:
        for step in range(1, steps + 1):
            deep = min(depth, 2 * (depth + 1) * step // steps)  # first questions without conditions in conditions
            examples = [draw_example(draw, *train, deep) for _ in range(batch_size)]
            loss = learn(examples)
            scheduler.step()
            bar.update(batch_size)
            if step % 200 == 0 or step == steps:
                share = right_ones(model, valid, plain).mean().item()
                bar.set_postfix_str(f"loss {loss.item():.3f}, valid {share:.1%}", refresh=False)
                if share > best["accuracy"]:
                    best = {"accuracy": share, "step": step, "weights": copy.deepcopy(model.state_dict())}
    seconds = time.perf_counter() - started
    model.load_state_dict(best["weights"])
    digits = read_digits("t10k")
    test = [draw_example(draw, *digits, depth) for _ in range(questions)]
    right = right_ones(model, test, plain)
    result, frequent = right.mean().item(), answers_of(test).bincount().max().item() / len(test)
    for name in model.ends:
        part = right[[place for place, (_, program, _) in enumerate(test) if program[0] == name]]
        print(f"{name}: {part.mean().item():.1%} of {len(part)}")
    print(
        f"test accuracy {result:.1%} (the most frequent answer: {frequent:.1%}); valid {best['accuracy']:.1%} in step {best['step']} "
        f"({seconds:.0f} s)"
    )
    return {
        "test_accuracy": result,
        "valid_accuracy": best["accuracy"],
        "most_frequent": frequent,
        "step": best["step"],
    }


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=programs.whole_number(1), default=3000, help="(%(default)s)")
    parser.add_argument(
        "--batch-size", type=programs.whole_number(1), default=64, help="questions in a step (%(default)s)"
    )
    parser.add_argument(
        "--depth",
        type=programs.whole_number(1),
        default=2,
        help="of conditions within conditions, at most (%(default)s)",
    )
    parser.add_argument("--size", type=programs.whole_number(1), default=64, help="features of a digit (%(default)s)")
    parser.add_argument("--learning-rate", type=programs.number(above=0), default=7e-3, help="of AdamW (%(default)s)")
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument("--plain", action="store_true", help="without autobatch, one question after the other")
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
