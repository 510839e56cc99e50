"""Is a sentence from a film review for or against the film? A Transformer over sentences of any length, without padding or masks.

    python examples/text_transformer.py                        trains and tests
    python examples/text_transformer.py --epochs 2 --seed 1    see --help

A batch is one ragged tensor (B, j) of word numbers: attention looks within each sentence, and every layer computes on real words only.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
import zlib
from collections import Counter
from pathlib import Path

from tqdm import tqdm

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn
from dynograd.data import DataLoader, collate_ragged
from dynograd.utils import programs

DATA = Path(__file__).resolve().parent / "data" / "rt-polarity.tsv.gz"
UNKNOWN = 0


def read_splits(path=DATA):
    """{"train", "test"}: lists of (words, label). A sentence's place depends on its text alone."""
    splits = {"train": [], "test": []}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            label, sentence = line.rstrip("\n").split("\t")
            split = "test" if zlib.crc32(sentence.encode()) % 10 == 0 else "train"
            splits[split].append((sentence.split(), float(label)))
    return splits


class Classifier(nn.Module):
    """Embeddings of words and places, encoder layers, the mean over each sentence, one score."""

    def __init__(self, words, size=64, heads=4, layers=2, longest=64, dropout=0.3, word_dropout=0.3):
        super().__init__()
        self.words, self.places = nn.Embedding(words, size), nn.Embedding(longest, size)
        layer = nn.TransformerEncoderLayer(
            size, heads, 2 * size, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(size))
        self.output = nn.Linear(size, 1)
        self.dropout, self.word_dropout = nn.Dropout(dropout), word_dropout
        with torch.no_grad():
            self.words.weight.mul_(0.1)
            self.places.weight.mul_(0.1)

    def forward(self, words):
        """Ragged (B, j) numbers of words to (B,) scores."""
        places = torch.ones_like(words).cumsum(1) - 1
        if self.training:
            words = words.masked_fill(torch.rand_like(words, dtype=torch.float32) < self.word_dropout, UNKNOWN)
        x = self.dropout(self.words(words) + self.places(places))
        return self.output(self.dropout(self.encoder(x).mean(1))).squeeze(1)


@torch.no_grad()
def accuracy_of(model, batches):
    model.eval()
    right = count = 0
    for words, labels in batches:
        right += ((model(words) > 0) == (labels > 0.5)).sum().item()
        count += len(labels)
    return right / count


def main(steps=None, epochs=6, batch_size=64, learning_rate=1e-3, seed=0, sentences=None, compile=False):
    """Trains for some epochs, or steps, and tests.

    Args:
        sentences: use only about so many of each split (None: all).
        compile: training steps go through `torch.compile`.
    Returns:
        dict of accuracy and tokens_per_second.
    """
    torch.manual_seed(seed)
    splits = read_splits()
    if sentences is not None:
        splits = {name: split[:: max(1, len(split) // sentences)] for name, split in splits.items()}
    uses = Counter(word for words, _ in splits["train"] for word in words)
    numbers = {word: number for number, word in enumerate((word for word, count in uses.items() if count > 1), start=1)}
    loaders = {}
    for name, split in splits.items():
        data = [(torch.tensor([numbers.get(word, UNKNOWN) for word in words]), label) for words, label in split]
        loaders[name] = DataLoader(data, batch_size, shuffle=name == "train", collate_fn=collate_ragged())
    longest = max(len(words) for split in splits.values() for words, _ in split)
    model = Classifier(1 + len(numbers), longest=longest)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    print(f"{len(splits['train'])} sentences; {len(numbers)} words; up to {longest} in a sentence", flush=True)

    def learn(words, labels):
        loss = F.binary_cross_entropy_with_logits(model(words), labels.float())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    if compile:
        learn = torch.compile(learn)

    step = tokens = 0
    accuracy = 0.0
    began = time.perf_counter()
    for epoch in range(1, epochs + 1):
        model.train()
        bar = tqdm(loaders["train"], desc=f"epoch {epoch}", unit="batch", file=sys.stdout, mininterval=0.5)
        for words, labels in bar:
            loss = learn(words, labels)
            step += 1
            tokens += words.numel()
            bar.set_postfix_str(f"loss {loss.item():.3f}", refresh=False)
            if step == steps:
                break
        speed = tokens / (time.perf_counter() - began)
        accuracy = accuracy_of(model, loaders["test"])
        print(f"         test accuracy {accuracy:.2%}, {speed:,.0f} words/s", flush=True)
        if step == steps:
            break
    return {"accuracy": accuracy, "tokens_per_second": speed}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=programs.whole_number(1), help="stop after so many steps")
    parser.add_argument("--epochs", type=programs.whole_number(1), default=6, help="(%(default)s)")
    parser.add_argument(
        "--batch-size", type=programs.whole_number(1), default=64, help="sentences in a batch (%(default)s)"
    )
    parser.add_argument("--learning-rate", type=programs.number(above=0), default=1e-3, help="of AdamW (%(default)s)")
    parser.add_argument("--seed", type=programs.seed, default=0, help="(%(default)s)")
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
