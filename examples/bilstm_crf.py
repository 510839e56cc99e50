"""Parts of speech by a bidirectional LSTM with a conditional random field on top (Huang et al. 2015), on questions about flights.

python examples/bilstm_crf.py                          trains, tests
python examples/bilstm_crf.py --epochs 3 --seed 1      see --help

Sentences lie in batches of similar length; the LSTM reads them packed and the field sees their lengths, so that padding costs no
step and no probability. A word's vector is its own plus the mean of those of its last letters, for words never seen.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
import zlib
from collections import Counter
from pathlib import Path

from tqdm import tqdm

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn
from dynograd.data import BucketBatchSampler, DataLoader, collate_pad
from dynograd.data.datasets import CoNLLU
from dynograd.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from dynograd.utils import programs

DATA = Path(__file__).resolve().parent / "data"
PADDING, UNKNOWN = 0, 1
ENDINGS, ENDS = (1, 2, 3, 4), 2000


def read_sentences(split, folder=DATA):
    """Lists of (word, tag), for split "train", "dev" or "test"."""
    sentences = CoNLLU(folder / f"atis-ud-{split}.conllu.gz")
    return [list(zip(sentence["form"], sentence["upos"])) for sentence in sentences]


class Encoder:
    """Words and tags as numbers."""

    def __init__(self, sentences, least_uses=2):
        uses = Counter(word for sentence in sentences for word, _ in sentence)
        words = sorted(word for word, count in uses.items() if count >= least_uses)
        self.words = {word: number for number, word in enumerate(words, start=2)}
        self.tags = sorted({tag for sentence in sentences for _, tag in sentence})
        self.numbers = {tag: number for number, tag in enumerate(self.tags)}

    def __call__(self, sentence):
        """(T, 5): each word and its last 1 to 4 letters; (T,) tags. A tag that training has not goes to the last one."""
        words = [
            [self.words.get(word, UNKNOWN), *(1 + zlib.crc32(word[-size:].encode()) % (ENDS - 1) for size in ENDINGS)]
            for word, _ in sentence
        ]
        return torch.tensor(words), torch.tensor([self.numbers.get(tag, len(self.tags)) for _, tag in sentence])


def loader(sentences, encode, batch_size, shuffle=False):
    """Batches of sentences of similar length: (words (B, T, 5), lengths (B,), tags (B, T), lengths again)."""
    sampler = BucketBatchSampler([len(sentence) for sentence in sentences], batch_size, shuffle=shuffle)
    return DataLoader(
        [encode(sentence) for sentence in sentences], batch_sampler=sampler, collate_fn=collate_pad(PADDING)
    )


class Tagger(nn.Module):
    def __init__(self, words, tags, size=64, hidden=64, dropout=0.4, word_dropout=0.05):
        super().__init__()
        self.words = nn.Embedding(words, size, padding_idx=PADDING)
        self.ends = nn.EmbeddingBag(ENDS, size, mode="mean", padding_idx=PADDING)
        self.lstm = nn.LSTM(size, hidden, batch_first=True, bidirectional=True)
        self.emissions = nn.Linear(2 * hidden, tags)
        self.crf = nn.CRF(tags, batch_first=True)
        self.dropout, self.word_dropout = dropout, word_dropout

    def forward(self, words, lengths):
        """(B, T, 5) words to (B, T, tags) emissions."""
        packed = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        own, ends = packed.data[:, 0], packed.data[:, 1:]
        if self.training:  # so that unknown words are met in training too
            own = own.masked_fill(torch.rand(len(own)) < self.word_dropout, UNKNOWN)
        x = F.dropout(self.words(own) + self.ends(ends), self.dropout, self.training)
        states, _ = self.lstm(packed._replace(data=x))
        states, _ = pad_packed_sequence(states, batch_first=True)
        return self.emissions(F.dropout(states, self.dropout, self.training))

    def loss(self, words, tags, lengths):
        return -self.crf(self(words, lengths), tags, lengths=lengths, reduction="token_mean")


@torch.no_grad()
def evaluate(model, batches):
    """(share of right tags, share of sentences that are right as a whole)."""
    model.eval()
    right = tokens = whole = sentences = 0
    for words, lengths, tags, _ in batches:
        for decoded, labels, length in zip(
            model.crf.decode(model(words, lengths), lengths=lengths), tags, lengths.tolist()
        ):
            hits = sum(tag == label for tag, label in zip(decoded, labels[:length].tolist()))
            right, tokens = right + hits, tokens + length
            whole, sentences = whole + (hits == length), sentences + 1
    model.train()
    return right / tokens, whole / sentences


def main(steps=None, epochs=12, batch_size=32, hidden=64, learning_rate=3e-3, seed=0, sentences=None, compile=False):
    """Trains, keeps the epoch that is best on the development set and tests it once.

    Args:
        steps: stop after so many (None: after `epochs`).
        sentences: use only so many of each set (None: all).
        compile: training steps go through `torch.compile`.
    Returns:
        dict of test_accuracy (tokens), test_sentences (right as a whole), dev_accuracy and epoch (the best one).
    """
    torch.manual_seed(seed)
    train, dev, test = (read_sentences(split)[:sentences] for split in ("train", "dev", "test"))
    encode = Encoder(train)
    batches = loader(train, encode, batch_size, shuffle=True)
    dev_batches, test_batches = loader(dev, encode, 128), loader(test, encode, 128)
    model = Tagger(2 + len(encode.words), len(encode.tags), hidden=hidden)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    total = min(steps or sys.maxsize, epochs * len(batches))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)

    def learn(words, tags, lengths):
        loss = model.loss(words, tags, lengths)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return loss

    if compile:
        learn = torch.compile(learn)

    best = {"accuracy": -1.0, "epoch": 0, "weights": None}
    started = time.perf_counter()
    bar = tqdm(total=total, unit="step", file=sys.stdout, mininterval=0.5)
    epoch = 0
    while bar.n < total:
        epoch += 1
        for words, lengths, tags, _ in batches:
            loss = learn(words, tags, lengths)
            scheduler.step()
            bar.set_postfix_str(f"epoch {epoch}, loss {loss.item():.3f}", refresh=False)
            bar.update()
            if bar.n == total:
                break
        dev_accuracy, _ = evaluate(model, dev_batches)
        if dev_accuracy > best["accuracy"]:
            best = {"accuracy": dev_accuracy, "epoch": epoch, "weights": copy.deepcopy(model.state_dict())}
    bar.close()
    seconds = time.perf_counter() - started
    model.load_state_dict(best["weights"])
    accuracy, whole = evaluate(model, test_batches)
    print(
        f"test accuracy {accuracy:.2%} of tokens, {whole:.1%} of sentences; dev {best['accuracy']:.2%} in epoch {best['epoch']} "
        f"({seconds:.0f} s)"
    )
    return {
        "test_accuracy": accuracy,
        "test_sentences": whole,
        "dev_accuracy": best["accuracy"],
        "epoch": best["epoch"],
    }


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=programs.whole_number(1), help="stop after so many steps")
    parser.add_argument("--epochs", type=programs.whole_number(1), default=12, help="(%(default)s)")
    parser.add_argument(
        "--batch-size", type=programs.whole_number(1), default=32, help="sentences in a batch (%(default)s)"
    )
    parser.add_argument(
        "--hidden", type=programs.whole_number(1), default=64, help="units of the LSTM in each direction (%(default)s)"
    )
    parser.add_argument("--learning-rate", type=programs.number(above=0), default=3e-3, help="of AdamW (%(default)s)")
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
