"""A language model of characters on Shakespeare's plays, by a Transformer (Vaswani et al. 2017), and text drawn from it.

python examples/transformer_lm.py                             trains, tests and writes
python examples/transformer_lm.py --steps 300 --temperature 0.5 --prompt "JULIET:"
python -m dynograd.run -n 2 examples/transformer_lm.py        two processes share batches and the states of AdamW (extra mpi)
"""

from __future__ import annotations

import argparse
import copy
import gzip
import math
import sys
import time
from pathlib import Path

from tqdm import tqdm

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn
from dynograd.utils import programs

DATA = Path(__file__).resolve().parent / "data" / "tinyshakespeare.txt.gz"


class Block(nn.Module):
    """Attention to what came before, then a small network at each place; both add to their input."""

    def __init__(self, size, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.before_attention, self.before_network = nn.LayerNorm(size), nn.LayerNorm(size)
        self.projections, self.mixed = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.network = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x):
        """(B, T, size) to the same shape."""
        batch, steps, size = x.shape
        parts = self.projections(self.before_attention(x)).view(batch, steps, 3, self.heads, -1).transpose(1, 3)
        query, key, value = parts.unbind(2)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        mixed = self.mixed(mixed.transpose(1, 2).reshape(batch, steps, size))
        x = x + F.dropout(mixed, self.dropout, self.training)
        return x + F.dropout(self.network(self.before_network(x)), self.dropout, self.training)


class CharacterModel(nn.Module):
    def __init__(self, characters, length, size=128, heads=4, layers=3, dropout=0.1):
        super().__init__()
        self.length = length
        self.characters, self.places = nn.Embedding(characters, size), nn.Embedding(length, size)
        self.blocks = nn.Sequential(*[Block(size, heads, dropout) for _ in range(layers)])
        self.norm, self.output = nn.LayerNorm(size), nn.Linear(size, characters, bias=False)
        self.output.weight = self.characters.weight  # one table for reading and writing
        nn.init.normal_(self.characters.weight, 0.0, 0.02)
        nn.init.normal_(self.places.weight, 0.0, 0.02)

    def forward(self, ids):
        """(B, T) characters, T up to `length`, to (B, T, characters) scores of the next one."""
        x = self.characters(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.output(self.norm(self.blocks(x)))


def drawn_batch(text, batch_size, length):
    """(inputs, targets), each (B, T), from places drawn at random; targets are one character ahead."""
    starts = torch.randint(0, len(text) - length, (batch_size, 1), device=text.device)
    places = starts + torch.arange(length, device=text.device)
    return text[places], text[places + 1]


@torch.no_grad()
def evaluate(model, text, batch_size=64):
    """Bits per character, of windows behind one another."""
    model.eval()
    columns = (len(text) - 1) // model.length
    rank, size = programs.ranks()
    inputs = text[: columns * model.length].view(columns, -1)[rank::size]
    targets = text[1 : columns * model.length + 1].view(columns, -1)[rank::size]
    total = 0.0
    for tokens, labels in zip(inputs.split(batch_size), targets.split(batch_size)):
        total += F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), reduction="sum").item()
    model.train()
    total, count = programs.sum_of_ranks(total, targets.numel())
    return total / count / math.log(2)


@torch.no_grad()
def write(model, alphabet, prompt, count, temperature):
    """`prompt` and `count` characters after it, each drawn from softmax(scores / temperature)."""
    model.eval()
    device = next(model.parameters()).device
    ids = torch.tensor([[alphabet.index(character) for character in prompt]], device=device)
    for _ in range(count):
        scores = model(ids[:, -model.length :])[:, -1]
        ids = torch.cat([ids, torch.multinomial(F.softmax(scores / temperature, dim=-1), 1)], dim=1)
    model.train()
    return "".join(alphabet[number] for number in ids[0].tolist())


def main(
    steps=1000,
    batch_size=32,
    length=96,
    size=128,
    layers=3,
    learning_rate=3e-3,
    seed=0,
    prompt="ROMEO:",
    temperature=0.8,
    characters=400,
    device=None,
    evaluations=5,
    compile=False,
):
    """Trains on nine tenths of the text, keeps the weights that are best on the first half of the rest, tests on the second half.

    Args:
        device: where to train (None: on a GPU where there is one).
        evaluations: how often the validation text is read, at equal distances.
        compile: training steps go through `torch.compile`.
    Returns:
        dict of test_bits and valid_bits (per character), step (the best one) and text.
    """
    torch.manual_seed(seed)
    rank, size_of_job = programs.ranks()
    with gzip.open(DATA, "rt", encoding="utf-8") as file:
        whole = file.read()
    alphabet = sorted(set(whole))
    number = {character: place for place, character in enumerate(alphabet)}
    strangers = sorted(set(prompt) - set(alphabet))
    if strangers or not prompt:
        raise programs.UsageError(
            f"transformer_lm: expected a prompt of characters that the text has, got {prompt!r} with {strangers}."
        )
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    ids = torch.tensor([number[character] for character in whole], device=device)
    train, valid, test = ids.split(
        [len(ids) * 18 // 20, len(ids) // 20, len(ids) - len(ids) * 18 // 20 - len(ids) // 20]
    )

    if length >= len(valid):
        raise programs.UsageError(
            f"transformer_lm: the validation text has {len(valid)} characters, and length is {length}."
        )
    model = CharacterModel(len(alphabet), length, size, layers=layers).to(device)
    options = {"lr": learning_rate, "weight_decay": 0.1, "betas": (0.9, 0.98)}
    if size_of_job > 1:
        nn.parallel.DistributedDataParallel(model)  # from here on gradients are those of all processes
        optimizer = torch.optim.ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, **options)
        torch.manual_seed(seed + rank)  # each draws other places of the text
    else:
        optimizer = torch.optim.AdamW(model.parameters(), **options)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, learning_rate, total_steps=steps, pct_start=max(0.1, min(0.9, 2 / steps))
    )

    def learn(inputs, targets):
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    if compile:
        learn = torch.compile(learn)
    best = {"bits": float("inf"), "step": 0, "weights": None}
    started = time.perf_counter()
    bar = tqdm(range(1, steps + 1), unit="step", file=sys.stdout, mininterval=0.5, disable=rank > 0)
    for step in bar:
        loss = learn(*drawn_batch(train, batch_size // size_of_job, length))
        scheduler.step()
        if step % max(1, steps // evaluations) == 0 or step == steps:
            bits = evaluate(model, valid)
            if bits < best["bits"]:
                best = {"bits": bits, "step": step, "weights": copy.deepcopy(model.state_dict())}
        bar.set_postfix_str(f"{loss.item() / math.log(2):.2f} bits, valid {best['bits']:.2f}", refresh=False)
    seconds = time.perf_counter() - started

    model.load_state_dict(best["weights"])
    bits = evaluate(model, test)
    text = write(model, alphabet, prompt, characters, temperature)
    if rank == 0:
        print(
            f"test {bits:.3f} bits a character, valid {best['bits']:.3f} at step {best['step']} ({seconds:.0f} s)\n\n{text}"
        )
    return {"test_bits": bits, "valid_bits": best["bits"], "step": best["step"], "text": text}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=programs.whole_number(1), default=1000, help="(%(default)s)")
    parser.add_argument(
        "--batch-size", type=programs.whole_number(1), default=32, help="texts in a batch (%(default)s)"
    )
    parser.add_argument(
        "--length", type=programs.whole_number(1), default=96, help="characters that the model sees (%(default)s)"
    )
    parser.add_argument(
        "--size", type=programs.whole_number(4, multiple=4), default=128, help="numbers of a character (%(default)s)"
    )
    parser.add_argument("--layers", type=programs.whole_number(1), default=3, help="(%(default)s)")
    parser.add_argument(
        "--learning-rate", type=programs.number(above=0), default=3e-3, help="highest of the cycle (%(default)s)"
    )
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument("--prompt", default="ROMEO:", help="what the drawn text begins with (%(default)s)")
    parser.add_argument(
        "--temperature", type=programs.number(above=0), default=0.8, help="below 1: likelier characters (%(default)s)"
    )
    parser.add_argument(
        "--characters", type=programs.whole_number(0), default=400, help="how many are drawn (%(default)s)"
    )
    parser.add_argument("--device", type=programs.device, help="cpu or cuda (a GPU where there is one)")
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
