"""Is a sentence from a film review for or against the film? A bidirectional GRU over sentences of any length.

    python examples/sentiment.py                                     trains, tests and saves
    python examples/sentiment.py --seed 1 --epochs 3 --workers 0     see --help
    python examples/sentiment.py predict "a gorgeous, witty film"
    python -m dynograd.run -n 2 --restarts 3 examples/sentiment.py   two processes, each with batches of its own (extra mpi)

Killed at any moment and started again, it continues and comes to the same bits (`dynograd.Run`); --fresh begins anew.

A word's vector is its own plus the mean of those of its first and last letters, so that a rare or new word ("wittily") lies
near the words it looks like. Sentences stand behind one another in a ragged tensor: nothing is padded, packed or sorted.
Measured and kept is a running average of the weights, which overfits later than they do.
"""

from __future__ import annotations

import argparse
import copy
import functools
import gzip
import hashlib
import re
import struct
import sys
import time
import zlib
from collections import Counter
from pathlib import Path

from tqdm import tqdm

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn
from dynograd.data import DataLoader, Dataset, DistributedSampler, collate_ragged
from dynograd.utils import programs

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "rt-polarity.tsv.gz"
CHECKPOINT = HERE / "out" / "sentiment.safetensors"
PADDING, UNKNOWN = 0, 1
PREFIXES, SUFFIXES, PIECES = (3, 4, 5, 6), (2, 3, 4), 30_000


def read_splits(path=DATA):
    """{"train", "valid", "test"}: lists of (words, label). A sentence's place depends on its text alone."""
    splits = {"train": [], "valid": [], "test": []}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            label, sentence = line.rstrip("\n").split("\t")
            place = zlib.crc32(sentence.encode()) % 10
            split = "test" if place == 0 else "valid" if place == 1 else "train"
            splits[split].append((sentence.split(), float(label)))
    return splits


class Vocabulary:
    """Numbers for words: one of its own, if it is known, and one each for its beginnings and ends, hashed."""

    def __init__(self, words):
        self.words = words
        self.numbers = {word: number for number, word in enumerate(words, start=2)}
        self.encode_word = functools.cache(self.encode_word)

    @classmethod
    def of(cls, sentences, least_uses=2):
        uses = Counter(word for words, _ in sentences for word in words)
        return cls(sorted(word for word, count in uses.items() if count >= least_uses))

    def __len__(self):
        return 2 + len(self.words)

    def encode_word(self, word):
        parts = [word[:size] + "-" for size in PREFIXES if size < len(word)]
        parts += ["-" + word[-size:] for size in SUFFIXES if size < len(word)]
        hashed = [1 + zlib.crc32(part.encode()) % (PIECES - 1) for part in parts]
        padding = [PADDING] * (len(PREFIXES) + len(SUFFIXES) - len(parts))
        return struct.pack("8q", self.numbers.get(word, UNKNOWN), *hashed, *padding)

    def encode(self, words):
        """(T, 8): the word, four beginnings, three ends; the bytes of each word's numbers are kept, and joined."""
        return torch.frombuffer(bytearray().join(map(self.encode_word, words)), dtype=torch.int64).view(-1, 8)


class Sentences(Dataset):
    def __init__(self, sentences, vocabulary):
        self.sentences, self.vocabulary = sentences, vocabulary

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, index):
        words, label = self.sentences[index]
        return self.vocabulary.encode(words), label


def loader(sentences, vocabulary, batch_size, shuffle, workers, sampler=None):
    """Batches: ragged numbers (B, j, 8), one row for each sentence, and labels (B,)."""
    return DataLoader(
        Sentences(sentences, vocabulary),
        batch_size,
        shuffle and sampler is None,
        sampler,
        collate_fn=collate_ragged(),
        num_workers=workers,
        persistent_workers=workers > 0,
    )


class Classifier(nn.Module):
    def __init__(self, words, size=128, hidden=96, word_dropout=0.3, input_dropout=0.7, output_dropout=0.5):
        super().__init__()
        self.words = nn.Embedding(words, size, padding_idx=PADDING)
        self.pieces = nn.EmbeddingBag(PIECES, size, mode="mean", padding_idx=PADDING)
        self.gru = nn.GRU(size, hidden, batch_first=True, bidirectional=True)
        self.output = nn.Linear(2 * hidden, 1)
        self.word_dropout, self.input_dropout, self.output_dropout = word_dropout, input_dropout, output_dropout
        with torch.no_grad():
            self.words.weight.mul_(0.1)
            self.pieces.weight.mul_(0.1)

    def forward(self, numbers):
        """Ragged (B, j, 8) numbers to (B,) logits."""
        words, pieces = numbers[..., 0], numbers[..., 1:]
        if self.training:
            words = words.masked_fill(torch.rand_like(words, dtype=torch.float32) < self.word_dropout, UNKNOWN)
        x = F.dropout(self.words(words) + self.pieces(pieces), self.input_dropout, self.training)
        states, _ = self.gru(x)
        strongest = states.amax(dim=1)
        return self.output(F.dropout(strongest, self.output_dropout, self.training)).squeeze(1)


@torch.no_grad()
def move_average(average, model, step, decay=0.995):
    """average <- decay * average + (1 - decay) * model; a shorter memory in the first steps."""
    weight = 1 - min(decay, step / (step + 10))
    for averaged, current in zip(average.parameters(), model.parameters()):
        averaged.lerp_(current, weight)


@torch.no_grad()
def evaluate(model, batches):
    """(mean loss, accuracy)."""
    model.eval()
    loss = right = count = 0
    for numbers, labels in batches:
        logits = model(numbers)
        labels = labels.float()
        loss += F.binary_cross_entropy_with_logits(logits, labels, reduction="sum").item()
        right += ((logits > 0) == (labels > 0.5)).sum().item()
        count += len(labels)
    loss, right, count = programs.sum_of_ranks(loss, right, count)
    return loss / count, right / count


def learn(model, optimizer, numbers, labels):
    """One step of training. Returns the loss."""
    loss = F.binary_cross_entropy_with_logits(model(numbers), labels.float())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def train_epoch(run, average, last_step, step=learn):
    """Trains on what is left of the epoch, at most to `last_step`, by `step`. Returns the mean loss of the epoch."""
    model, optimizer = run.parts["model"]["trained"], run.parts["optimizer"]
    sums = run.extra.setdefault("sums", {"loss": 0.0, "batches": 0})
    model.train()
    tokens = 0
    began = time.perf_counter()
    title = f"epoch {run.epoch + 1}"
    bar = tqdm(
        total=len(run.loader),
        initial=run.batch,
        desc=title,
        unit="batch",
        file=sys.stdout,
        mininterval=0.5,
        disable=programs.ranks()[0] > 0,
    )
    for numbers, labels in run.steps(until=last_step):
        loss = step(model, optimizer, numbers, labels)
        move_average(average, model, run.step + 1)

        sums["loss"] += loss.item()
        sums["batches"] += 1
        tokens += len(numbers.values())
        speed = tokens / (time.perf_counter() - began)
        bar.set_postfix_str(f"loss {sums['loss'] / sums['batches']:.3f}, {speed:,.0f} tokens/s", refresh=False)
        bar.update()
    bar.close()
    del run.extra["sums"]
    return sums["loss"] / sums["batches"]


def main(
    steps=None,
    epochs=8,
    batch_size=64,
    learning_rate=2e-3,
    patience=3,
    workers=2,
    seed=0,
    checkpoint=CHECKPOINT,
    plot=None,
    sentences=None,
    fresh=False,
    compile=False,
    save_every=None,
):
    """Trains, keeps the epoch that validates best, and tests it.

    Args:
        steps: stop after so many (None: after `epochs`).
        patience: stop after so many epochs without a better validation accuracy.
        sentences: use only about so many of each split (None: all).
        save_every: save the run after so many steps (None: after epochs, and every minute).
        fresh: begin anew, even where a run was interrupted that could be continued.
        compile: training steps go through `torch.compile` in its exact mode; the results are the same.
    Returns:
        dict of test_accuracy, test_loss, best_epoch, digest of the kept weights, history.
    """
    torch.manual_seed(seed)
    rank, size = programs.ranks()
    splits = read_splits()
    if sentences is not None:
        splits = {name: split[:: max(1, len(split) // sentences)] for name, split in splits.items()}
    vocabulary = Vocabulary.of(splits["train"])
    sampler = DistributedSampler(splits["train"], seed=seed) if size > 1 else None
    train = loader(splits["train"], vocabulary, batch_size, True, workers // size, sampler)
    valid, test = (loader(splits[name][rank::size], vocabulary, 256, False, 0) for name in ("valid", "test"))

    config = {"size": 128, "hidden": 96}
    model = Classifier(len(vocabulary), **config)
    average = copy.deepcopy(model)
    if size > 1:
        nn.parallel.DistributedDataParallel(model)  # from here on gradients are those of all processes
        torch.manual_seed(seed + rank)  # each drops out other words
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate * size**0.5)  # for batches `size` times as large
    sizes = ", ".join(f"{len(split)} {name}" for name, split in splits.items())
    weights = sum(p.numel() for p in model.parameters())
    say = print if rank == 0 else lambda *texts, **options: None
    say(f"{sizes} sentences; {len(vocabulary.words)} words; {weights:,} weights; seed {seed}", flush=True)

    checkpoint = Path(checkpoint)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    step = torch.compile(learn, mode="exact") if compile else learn
    with torch.Run(
        checkpoint.with_name(checkpoint.stem + "-run.safetensors"),
        model={"trained": model, "average": average},
        optimizer=optimizer,
        loader=train,
        extra={"history": [], "best": {"accuracy": -1.0, "epoch": 0}},
        config={"seed": seed, "steps": steps, "epochs": epochs, "batch size": batch_size}
        | {"learning rate": learning_rate, "patience": patience, "sentences": sentences},
        save_every=save_every,
        fresh=fresh,
    ) as run:
        if run.resumed:
            say(f"continuing at step {run.step}, in epoch {run.epoch + 1} (--fresh begins anew)", flush=True)
        for epoch in run.epochs(epochs):
            if sampler is not None:
                sampler.set_epoch(epoch)
            train_loss = train_epoch(run, average, steps, step)
            loss, accuracy = evaluate(average, valid)
            run.extra["history"].append({"train_loss": train_loss, "valid_loss": loss, "valid_accuracy": accuracy})
            say(f"         valid loss {loss:.3f}, accuracy {accuracy:.2%}", flush=True)
            if accuracy > run.extra["best"]["accuracy"]:
                best = run.extra["best"] = {"accuracy": accuracy, "epoch": epoch + 1}
                kept = {"model": average.state_dict(), "config": config, "words": vocabulary.words, "best": best}
                if rank == 0:
                    torch.save(kept, checkpoint)
            if run.step == steps or epoch + 1 - run.extra["best"]["epoch"] >= patience:
                break
        run.remove()  # it is finished: the next start begins anew

    history, best = run.extra["history"], run.extra["best"]
    model, _ = restore(checkpoint)
    loss, accuracy = evaluate(model, test)
    digest = digest_of(model)
    seconds = time.perf_counter() - started
    say(f"test accuracy {accuracy:.2%}, loss {loss:.3f} (epoch {best['epoch']}, {seconds:.0f} s, weights {digest})")
    curves = draw(history, plot or checkpoint.with_suffix(".png")) if rank == 0 else None
    say(f"kept in {seen_from_here(checkpoint)}; curves: {seen_from_here(curves)}")
    return {
        "test_accuracy": accuracy,
        "test_loss": loss,
        "best_epoch": best["epoch"],
        "digest": digest,
        "history": history,
    }


def restore(checkpoint=CHECKPOINT):
    """(model, vocabulary) out of a file that `main` wrote."""
    with programs.checkpoint_of("sentiment.py", checkpoint):
        saved = torch.load(checkpoint)
        vocabulary = Vocabulary(saved["words"])
        model = Classifier(len(vocabulary), **saved["config"])
        model.load_state_dict(saved["model"])
    return model.eval(), vocabulary


def predict(text, checkpoint=CHECKPOINT):
    """Probability that `text` speaks for the film."""
    model, vocabulary = restore(checkpoint)
    words = re.findall(r"[\w'&-]+|[^\w\s]", text.lower())
    if not words:
        raise programs.UsageError(f"predict: expected a sentence with at least one word, got {text!r}.")
    with torch.no_grad():
        logit = model(torch.ragged_tensor([vocabulary.encode(words)]))
    return logit.sigmoid().item()


def digest_of(model):
    """Eight letters that change when any bit of any weight does."""
    digest = hashlib.sha256()
    for name, value in model.state_dict().items():
        digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()[:8]


def seen_from_here(path):
    """A path below the working folder without that folder; others, and texts, as they are."""
    here = Path.cwd()
    return path.relative_to(here) if isinstance(path, Path) and path.is_relative_to(here) else path


def draw(history, path):
    """Curves of an epoch's losses and accuracy as a PNG at `path`; without matplotlib as text. Returns where they are."""
    epochs = range(1, len(history) + 1)
    try:
        from matplotlib.figure import Figure
    except ImportError:
        for epoch, row in zip(epochs, history):
            print(
                f"epoch {epoch}  {row['valid_accuracy']:7.2%}  {'#' * round(120 * max(row['valid_accuracy'] - 0.5, 0))}"
            )
        return "above (with matplotlib, the extra viz, they are a picture)"
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name in ("train_loss", "valid_loss"):
        left.plot(epochs, [row[name] for row in history], marker="o", label=name.replace("_", " "))
    right.plot(epochs, [row["valid_accuracy"] for row in history], marker="o", color="C1", label="valid accuracy")
    for axes in (left, right):
        axes.set_xlabel("epoch")
        axes.legend()
    figure.savefig(path)
    return path


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--checkpoint", type=programs.file_to_write, default=CHECKPOINT, help="file of the kept weights (%(default)s)"
    )
    parser.add_argument("--steps", type=programs.whole_number(1), help="stop after so many steps")
    parser.add_argument("--epochs", type=programs.whole_number(1), default=8, help="most epochs (%(default)s)")
    parser.add_argument(
        "--patience", type=programs.whole_number(1), default=3, help="epochs without a better validation (%(default)s)"
    )
    parser.add_argument(
        "--batch-size", type=programs.whole_number(1), default=64, help="sentences in a batch (%(default)s)"
    )
    parser.add_argument("--learning-rate", type=programs.number(above=0), default=2e-3, help="of AdamW (%(default)s)")
    parser.add_argument(
        "--workers", type=programs.whole_number(0), default=2, help="processes that make batches (%(default)s)"
    )
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument(
        "--save-every", type=programs.whole_number(1), help="save after so many steps, for a run that may be killed"
    )
    parser.add_argument("--fresh", action="store_true", help="begin anew instead of continuing an interrupted run")
    parser.add_argument(
        "--compile", action="store_true", help="training steps through torch.compile, with the same results"
    )
    parser.add_argument("--plot", type=programs.file_to_write, help="file of the curves (beside the checkpoint)")
    commands = parser.add_subparsers(dest="command", metavar="predict")
    asked = commands.add_parser("predict", help="the probability that a sentence is positive")
    asked.add_argument("text")
    asked.add_argument("--checkpoint", type=Path, default=argparse.SUPPRESS, help="file of the kept weights")
    return parser.parse_args(arguments)


def program():
    options = vars(parse())
    if options.pop("command") == "predict":
        probability = predict(options["text"], options["checkpoint"])
        print(f"{probability:.1%} positive: {options['text']}")
    else:
        main(**options)


if __name__ == "__main__":
    sys.exit(programs.run(program))
