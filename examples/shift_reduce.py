"""Who depends on whom: a shift-reduce parser with a stack LSTM (Dyer et al. 2015), written for one sentence, on questions about flights.

python examples/shift_reduce.py                        trains, tests
python examples/shift_reduce.py --epochs 1 --plain     the same one sentence after the other, to compare sentences/s

The parser (arc-standard, without labels) keeps a stack of trees and a buffer of words. It shifts the next word onto the stack, or makes
one of the two upper trees depend on the other. In training the moves come from the annotated tree, and inside `autobatch` the sentences
of a batch are read together. In parsing each move is the best-scored one, read by `.tolist()`: `dynograd.batched` parks each sentence
there, so that all sentences take their next step together.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import random
import sys
import time
from collections import Counter
from pathlib import Path

from tqdm import tqdm

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn
from dynograd.data.datasets import CoNLLU
from dynograd.utils import programs

DATA = Path(__file__).resolve().parent / "data"
SHIFT, LEFT, RIGHT = range(
    3
)  # LEFT: the second tree of the stack depends on the first; RIGHT: the first depends on the second


def read_sentences(split, folder=DATA):
    """Lists of (words, heads) for split "train", "dev" or "test"; word i has number i + 1, and 0 is above the root."""
    return [(sentence["form"], sentence["head"]) for sentence in CoNLLU(folder / f"atis-ud-{split}.conllu.gz")]


class State:
    """The trees on the stack (numbers of their heads, 0 at the bottom), the next word, and the heads found so far."""

    def __init__(self, count):
        self.count, self.next = count, 1
        self.stack, self.heads = [0], [None] * count

    @property
    def done(self):
        return self.next > self.count and len(self.stack) == 1

    def allowed(self):
        """The moves that lead to a tree with one word below 0."""
        moves = [SHIFT] if self.next <= self.count else []
        if len(self.stack) > 2:
            moves.append(LEFT)
        if len(self.stack) > 2 or (len(self.stack) == 2 and self.next > self.count):
            moves.append(RIGHT)
        return moves

    def apply(self, move):
        if move == SHIFT:
            self.stack.append(self.next)
            self.next += 1
            return
        first, second = self.stack.pop(), self.stack.pop()
        upper, lower = (first, second) if move == LEFT else (second, first)
        self.heads[lower - 1] = upper
        self.stack.append(upper)


def oracle(heads):
    """The moves that build a tree, None where arcs cross (no moves of this kind build it)."""
    state, moves, missing = State(len(heads)), [], Counter(heads)
    while not state.done:
        first, second = state.stack[-1], state.stack[-2] if len(state.stack) > 1 else None
        if second and heads[second - 1] == first and not missing[second]:
            move, upper = LEFT, first
        elif second is not None and heads[first - 1] == second and not missing[first]:
            move, upper = RIGHT, second
        else:
            move, upper = SHIFT, None
        if move not in state.allowed():
            return None
        if upper is not None:
            missing[upper] -= 1
        state.apply(move)
        moves.append(move)
    return moves


class Joined(nn.Module):
    """Layers on several vectors behind one another; a cell: one entry of autobatch's record."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    @torch.cell
    def forward(self, *vectors):
        return self.layers(torch.cat(vectors))


class Parser(nn.Module):
    """The stack is a linked list: each entry has a tree's vector, and the state of an LSTM that has read the stack up to it."""

    def __init__(self, words, size, word_dropout):
        super().__init__()
        self.numbers = {word: torch.tensor(number) for number, word in enumerate(words, start=1)}
        self.unknown = torch.tensor(0)
        self.embedding = nn.Embedding(len(words) + 1, size)
        self.backwards = nn.LSTMCell(size, size)  # reads the buffer, from the last word to the next one
        self.forwards = nn.LSTMCell(size, size)  # reads the stack
        self.marks = nn.Embedding(2, size)  # of the bottom of the stack, and of where nothing is
        self.compose = nn.ModuleList(Joined(nn.Linear(2 * size, size), nn.Tanh()) for _ in (LEFT, RIGHT))
        self.scorer = Joined(nn.Linear(4 * size, size), nn.ReLU(), nn.Linear(size, 3))
        self.word_dropout = word_dropout
        nn.init.normal_(self.embedding.weight, std=0.3)

    def number(self, word):
        if self.training and random.random() < self.word_dropout:
            return self.unknown
        return self.numbers.get(word, self.unknown)

    def forward(self, words, moves=None):
        """The scores before each of the given moves; without moves, the heads that the best-scored moves give."""
        vectors = [self.embedding(self.number(word)) for word in words]
        root, empty = self.marks(torch.tensor(0)), self.marks(torch.tensor(1))
        buffer = [None] * len(words) + [(empty, empty)]
        for place in reversed(range(len(words))):
            buffer[place] = self.backwards(vectors[place], buffer[place + 1])
        state, scores = State(len(words)), []
        stack = [(root, self.forwards(root))]
        while not state.done:
            second = stack[-2][0] if len(stack) > 1 else empty
            (first, (read, _)), (rest, _) = stack[-1], buffer[state.next - 1]
            scores.append(self.scorer(read, rest, first, second))
            if moves is not None:
                move = moves[len(scores) - 1]
            else:
                values = scores[-1].tolist()  # here the sentence waits for the others
                move = max(state.allowed(), key=values.__getitem__)
            if move == SHIFT:
                vector = vectors[state.next - 1]
            else:
                (first, _), (second, _) = stack.pop(), stack.pop()
                upper, lower = (first, second) if move == LEFT else (second, first)
                vector = self.compose[move - 1](upper, lower)
            state.apply(move)
            stack.append((vector, self.forwards(vector, stack[-1][1] if stack else None)))
        return state.heads if moves is None else scores


def loss_of(model, examples, plain):
    """Mean cross-entropy of the oracle's moves in the examples, pairs (words, moves)."""
    with contextlib.nullcontext() if plain else torch.autobatch():
        scores = [score for words, moves in examples for score in model(words, moves)]
        moves = torch.tensor([move for _, moves in examples for move in moves])
        return F.cross_entropy(torch.stack(scores), moves)


@torch.no_grad()
def evaluate(model, sentences, plain=False):
    """(share of words whose head is right, the same without sentences whose arcs cross, sentences a second)."""
    model.eval()
    started = time.perf_counter()
    words = [words for words, _ in sentences]
    trees = [model(sentence) for sentence in words] if plain else torch.batched(model)(words)
    seconds = time.perf_counter() - started
    model.train()
    hits = [sum(map(int.__eq__, tree, heads)) for tree, (_, heads) in zip(trees, sentences)]
    flat = [place for place, (_, heads) in enumerate(sentences) if oracle(heads) is not None]

    def share(places):
        return sum(hits[place] for place in places) / sum(len(words[place]) for place in places)

    return share(range(len(sentences))), share(flat), len(sentences) / seconds


def main(
    steps=None,
    epochs=5,
    batch_size=32,
    size=64,
    learning_rate=3e-3,
    word_dropout=0.05,
    seed=0,
    plain=False,
    sentences=None,
    compile=False,
):
    """Trains, keeps the epoch that is best on the development set and tests it once.

    Args:
        steps: stop after so many (None: after `epochs`).
        plain: without autobatch and batched, one sentence after the other.
        sentences: use only so many of each set (None: all).
        compile: training steps go through `torch.compile`.
    Returns:
        dict of test_accuracy (share of words with the right head, UAS), test_projective (in sentences without crossing arcs),
        dev_accuracy, epoch (the best one).
    """
    random.seed(seed)
    torch.manual_seed(seed)
    train, dev, test = (read_sentences(split)[:sentences] for split in ("train", "dev", "test"))
    examples = [(words, oracle(heads)) for words, heads in train]
    examples = [example for example in examples if example[1] is not None]
    crossing = sum(oracle(heads) is None for _, heads in test)
    print(
        f"arcs cross in {len(train) - len(examples)} of {len(train)} sentences to train, which are left out, and in {crossing} of "
        f"{len(test)} to test"
    )
    uses = Counter(word for words, _ in examples for word in words)
    model = Parser(sorted(word for word, count in uses.items() if count > 1), size, word_dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    per_epoch = -(-len(examples) // batch_size)
    total = min(steps or sys.maxsize, epochs * per_epoch)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)

    def learn(part):
        loss = loss_of(model, part, plain)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return loss

    if compile:
        learn = torch.compile(learn)

    best = {"accuracy": -1.0, "epoch": 0, "weights": None}
    started, done, epoch = time.perf_counter(), 0, 0
    while done < total:
        epoch += 1
        random.shuffle(examples)
        parts = [examples[start : start + batch_size] for start in range(0, len(examples), batch_size)][: total - done]
        with tqdm(total=sum(map(len, parts)), desc=f"epoch {epoch}", unit="sentences", file=sys.stdout) as bar:
            for part in parts:
                loss = learn(part)
                scheduler.step()
                bar.set_postfix_str(f"loss {loss.item():.3f}", refresh=False)
                bar.update(len(part))
        done += len(parts)
        accuracy, _, speed = evaluate(model, dev, plain)
        print(f"epoch {epoch}: dev UAS {accuracy:.2%}, parsed {speed:.0f} sentences/s")
        if accuracy > best["accuracy"]:
            best = {"accuracy": accuracy, "epoch": epoch, "weights": copy.deepcopy(model.state_dict())}
    seconds = time.perf_counter() - started
    model.load_state_dict(best["weights"])
    every, projective, _ = evaluate(model, test, plain)
    print(
        f"test UAS {every:.2%}, {projective:.2%} without the {crossing} sentences of crossing arcs; dev {best['accuracy']:.2%} in epoch "
        f"{best['epoch']} ({seconds:.0f} s)"
    )
    return {
        "test_accuracy": every,
        "test_projective": projective,
        "dev_accuracy": best["accuracy"],
        "epoch": best["epoch"],
    }


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=programs.whole_number(1), help="stop after so many steps")
    parser.add_argument("--epochs", type=programs.whole_number(1), default=5, help="(%(default)s)")
    parser.add_argument(
        "--batch-size", type=programs.whole_number(1), default=32, help="sentences in a step (%(default)s)"
    )
    parser.add_argument(
        "--size", type=programs.whole_number(1), default=64, help="of vectors of words and trees (%(default)s)"
    )
    parser.add_argument("--learning-rate", type=programs.number(above=0), default=3e-3, help="of AdamW (%(default)s)")
    parser.add_argument(
        "--word-dropout", type=programs.number(0, 1), default=0.05, help="share of words made unknown (%(default)s)"
    )
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument("--plain", action="store_true", help="without autobatch, one sentence after the other")
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
