"""English to French: a recurrent encoder and a decoder that attends to it (Bahdanau et al. 2015), on short pairs from Tatoeba.

python examples/seq2seq.py                               trains, tests and translates a few sentences
python examples/seq2seq.py --epochs 5 --seed 1           see --help
python examples/seq2seq.py --sentence "i am very happy"  translates this one, too

Sentences of similar length lie in a batch, each side has lengths of its own, and the decoder is a loop: it runs as long as the batch
needs, and in translation until every sentence has ended. Which part a pair belongs to depends on its English sentence, so that no
English sentence of the test has been seen in training.
"""

from __future__ import annotations

import argparse
import copy
import math
import re
import sys
import time
import zlib
from collections import Counter, defaultdict
from pathlib import Path

from tqdm import tqdm

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn
from dynograd.data import BucketBatchSampler, DataLoader, collate_pad
from dynograd.data.datasets import Table
from dynograd.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from dynograd.utils import programs

DATA = Path(__file__).resolve().parent / "data" / "tatoeba-eng-fra-5k.tsv.gz"
PADDING, START, END, UNKNOWN = range(4)


def words_of(sentence):
    """Lower-case words and punctuation; an apostrophe ends its word, as French has it (j' ai)."""
    return re.findall(r"\w+['’]?|[^\w\s]", sentence.lower())


def read_splits(path=DATA):
    """{"train", "valid", "test"}: lists of (English words, French words)."""
    splits = {"train": [], "valid": [], "test": []}
    for english, french, _ in Table(path, types=(words_of, words_of, str)):
        place = zlib.crc32(" ".join(english).encode()) % 10
        splits["test" if place == 0 else "valid" if place == 1 else "train"].append((english, french))
    return splits


class Vocabulary:
    def __init__(self, sentences, least_uses=1):
        uses = Counter(word for words in sentences for word in words)
        self.words = ["", "", ".", "?"] + sorted(word for word, count in uses.items() if count >= least_uses)
        self.numbers = {word: number for number, word in enumerate(self.words) if number > UNKNOWN}

    def __len__(self):
        return len(self.words)

    def encode(self, words):
        return torch.tensor([START, *(self.numbers.get(word, UNKNOWN) for word in words), END])


def loader(pairs, english, french, batch_size, shuffle=False):
    """Batches of similar length: English (B, S), lengths (B,), French (B, T), lengths (B,)."""
    sampler = BucketBatchSampler([len(target) for _, target in pairs], batch_size, shuffle=shuffle)
    samples = [(english.encode(source), french.encode(target)) for source, target in pairs]
    return DataLoader(samples, batch_sampler=sampler, collate_fn=collate_pad(PADDING))


class Attention(nn.Module):
    """The mean of memories (B, S, M), weighted by how well each fits a query (B, H)."""

    def __init__(self, memory, query, size):
        super().__init__()
        self.of_memory = nn.Linear(memory, size)
        self.of_query = nn.Linear(query, size, bias=False)
        self.score = nn.Linear(size, 1, bias=False)

    def forward(self, query, memory, keys, lengths):
        scores = self.score(torch.tanh(keys + self.of_query(query)[:, None])).squeeze(2)
        beyond = torch.arange(memory.shape[1]) >= lengths[:, None]
        weights = scores.masked_fill(beyond, float("-inf")).softmax(dim=1)
        return (weights[:, None] @ memory).squeeze(1)


class Translator(nn.Module):
    def __init__(self, english, french, size=96, hidden=128, dropout=0.4):
        super().__init__()
        self.english = nn.Embedding(english, size, padding_idx=PADDING)
        self.french = nn.Embedding(french, size, padding_idx=PADDING)
        self.encoder = nn.GRU(size, hidden, batch_first=True, bidirectional=True)
        self.first_state = nn.Linear(2 * hidden, hidden)
        self.attention = Attention(2 * hidden, hidden, hidden)
        self.cell = nn.GRUCell(size + 2 * hidden, hidden)
        self.output = nn.Linear(3 * hidden, french)
        self.dropout = nn.Dropout(dropout)

    def encode(self, english, lengths):
        """Memories (B, S, M), their keys for attention, and the decoder's first state (B, H)."""
        packed = pack_padded_sequence(
            self.dropout(self.english(english)), lengths, batch_first=True, enforce_sorted=False
        )
        memory, last = self.encoder(packed)
        memory, _ = pad_packed_sequence(memory, batch_first=True, total_length=english.shape[1])
        return memory, self.attention.of_memory(memory), torch.tanh(self.first_state(torch.cat(list(last), dim=1)))

    def step(self, words, state, memory, keys, lengths):
        """The words so far at their end (B, size) to what the next one is chosen by (B, 3H), and the new state."""
        context = self.attention(state, memory, keys, lengths)
        state = self.cell(torch.cat([words, context], dim=1), state)
        return torch.cat([state, context], dim=1), state

    def forward(self, english, lengths, french):
        """(B, T, French words) scores of the next word after each of `french` (B, T)."""
        memory, keys, state = self.encode(english, lengths)
        outputs = []
        for words in self.dropout(self.french(french)).unbind(1):
            features, state = self.step(words, state, memory, keys, lengths)
            outputs.append(features)
        return self.output(self.dropout(torch.stack(outputs, dim=1)))

    @torch.no_grad()
    def translate(self, english, lengths, longest=20):
        """Lists of French word numbers: the likeliest next word, until each sentence has ended."""
        memory, keys, state = self.encode(english, lengths)
        words = torch.full((len(english),), START)
        running, translations = torch.ones(len(english), dtype=torch.bool), [[] for _ in english]
        while running.any() and longest:
            features, state = self.step(self.french(words), state, memory, keys, lengths)
            words = self.output(features).argmax(1)
            running &= words != END
            for sentence, word, runs in zip(translations, words.tolist(), running.tolist()):
                if runs:
                    sentence.append(word)
            longest -= 1
        return translations


def loss_of(model, batch, reduction="mean"):
    english, lengths, french, _ = batch
    scores = model(english, lengths, french[:, :-1])
    return F.cross_entropy(scores.flatten(0, 1), french[:, 1:].flatten(), ignore_index=PADDING, reduction=reduction)


@torch.no_grad()
def evaluate(model, batches):
    """Mean nats for a French word, ends of sentences included."""
    model.eval()
    total = sum(loss_of(model, batch, "sum").item() for batch in batches)
    model.train()
    return total / sum((lengths - 1).sum().item() for *_, lengths in batches)


def translate(model, english, french, sentences):
    """Strings, of sentences given as words."""
    model.eval()
    encoded = nn.utils.rnn.pad_sequence([english.encode(words) for words in sentences], batch_first=True)
    translations = model.translate(encoded, torch.tensor([2 + len(words) for words in sentences]))
    model.train()
    return [" ".join(french.words[number] for number in numbers) for numbers in translations]


def exact(model, english, french, pairs):
    """The share of English sentences whose translation is, word for word, one of those that the pairs have."""
    references = defaultdict(set)
    for source, target in pairs:
        references[tuple(source)].add(" ".join(target))
    translations = translate(model, english, french, list(references))
    return sum(translation in accepted for translation, accepted in zip(translations, references.values())) / len(
        references
    )


def main(
    steps=None,
    epochs=12,
    batch_size=64,
    hidden=128,
    learning_rate=3e-3,
    seed=0,
    pairs=None,
    sentence=None,
    compile=False,
):
    """Trains, keeps the epoch that is best on the validation pairs and tests it once.

    Args:
        steps: stop after so many (None: after `epochs`).
        pairs: use only so many of each part (None: all).
        sentence: an English sentence to translate at the end.
        compile: training steps go through `torch.compile`.
    Returns:
        dict of test_loss (nats for a word), test_exact (share of translations that are a reference), valid_loss, epoch.
    """
    torch.manual_seed(seed)
    splits = {name: split[:pairs] for name, split in read_splits().items()}
    english, french = (Vocabulary(side) for side in zip(*splits["train"]))
    train = loader(splits["train"], english, french, batch_size, shuffle=True)
    valid, test = (loader(splits[name], english, french, 256) for name in ("valid", "test"))
    model = Translator(len(english), len(french), hidden=hidden)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    total = min(steps or sys.maxsize, epochs * len(train))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)

    def learn(batch):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    if compile:
        learn = torch.compile(learn)

    best = {"loss": float("inf"), "epoch": 0, "weights": None}
    started = time.perf_counter()
    bar = tqdm(total=total, unit="step", file=sys.stdout, mininterval=0.5)
    epoch = 0
    while bar.n < total:
        epoch += 1
        for batch in train:
            loss = learn(batch)
            scheduler.step()
            bar.set_postfix_str(f"epoch {epoch}, loss {loss.item():.3f}", refresh=False)
            bar.update()
            if bar.n == total:
                break
        valid_loss = evaluate(model, valid)
        if valid_loss < best["loss"]:
            best = {"loss": valid_loss, "epoch": epoch, "weights": copy.deepcopy(model.state_dict())}
    bar.close()
    seconds = time.perf_counter() - started

    model.load_state_dict(best["weights"])
    loss, right = evaluate(model, test), exact(model, english, french, splits["test"])
    print(
        f"test loss {loss:.2f} (perplexity {math.exp(loss):.1f}), {right:.1%} translated exactly; valid {best['loss']:.2f} in epoch "
        f"{best['epoch']} ({seconds:.0f} s)"
    )
    asked = [words_of(sentence)] if sentence else []
    asked += [words for words, _ in splits["test"][:: max(1, len(splits["test"]) // 5)]]
    for words, translation in zip(asked, translate(model, english, french, asked)):
        print(f"    {' '.join(words)} -> {translation}")
    return {"test_loss": loss, "test_exact": right, "valid_loss": best["loss"], "epoch": best["epoch"]}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=programs.whole_number(1), help="stop after so many steps")
    parser.add_argument("--epochs", type=programs.whole_number(1), default=12, help="(%(default)s)")
    parser.add_argument(
        "--batch-size", type=programs.whole_number(1), default=64, help="pairs in a batch (%(default)s)"
    )
    parser.add_argument(
        "--hidden", type=programs.whole_number(1), default=128, help="units of encoder and decoder (%(default)s)"
    )
    parser.add_argument("--learning-rate", type=programs.number(above=0), default=3e-3, help="of AdamW (%(default)s)")
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument("--sentence", help="an English sentence to translate at the end")
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
