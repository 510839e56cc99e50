"""A language model of characters on Shakespeare's plays: an LSTM with truncated backpropagation, and text drawn from it.

python examples/char_lm.py                             a minute or two on two cores, to 2.33 bits a character; then writes a scene
python examples/char_lm.py --steps 300 --temperature 0.5 --prompt "JULIET:"
"""

from __future__ import annotations

import argparse
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


class CharacterModel(nn.Module):
    def __init__(self, characters, size=64, hidden=256, dropout=0.2):
        super().__init__()
        self.embedding = nn.Embedding(characters, size)
        self.lstm = nn.LSTM(size, hidden, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden, characters)

    def forward(self, ids, state=None):
        """(B, T) characters to (B, T, characters) scores of the next one, and the state after the last."""
        hidden, state = self.lstm(self.embedding(ids), state)
        return self.output(self.dropout(hidden)), state


def in_rows(ids, rows):
    """A long text as `rows` texts side by side; what does not fill a column is left out."""
    columns = len(ids) // rows
    return ids[: rows * columns].reshape(rows, columns)


def windows(text, length):
    """(inputs, targets), each (B, length), that follow each other: targets are one character ahead."""
    for start in range(0, text.shape[1] - length, length):
        yield text[:, start : start + length], text[:, start + 1 : start + length + 1]


@torch.no_grad()
def evaluate(model, text, length):
    """Bits per character."""
    model.eval()
    losses, state = [], None
    for inputs, targets in windows(text, length):
        scores, state = model(inputs, state)
        losses.append(F.cross_entropy(scores.flatten(0, 1), targets.flatten()).item())
    model.train()
    return sum(losses) / len(losses) / math.log(2)


@torch.no_grad()
def write(model, alphabet, prompt, count, temperature):
    """`prompt` and `count` characters after it, each drawn from softmax(scores / temperature)."""
    model.eval()
    device = next(model.parameters()).device
    ids = torch.tensor([[alphabet.index(character) for character in prompt]], device=device)
    text, state = prompt, None
    for _ in range(count):
        scores, state = model(ids, state)
        ids = torch.multinomial(F.softmax(scores[:, -1] / temperature, dim=-1), 1)
        text += alphabet[ids.item()]
    model.train()
    return text


def main(
    steps=900,
    batch_size=64,
    length=64,
    learning_rate=4e-3,
    seed=0,
    prompt="ROMEO:",
    temperature=0.8,
    characters=500,
    hidden=256,
    device=None,
    checkpoint=None,
    compile=False,
):
    """Trains `steps` steps of `batch_size` x `length` characters, prints bits per character and a drawn text.

    Args:
        device: where to train (None: on a GPU where there is one).
        checkpoint: file for the weights (None: they are not kept).
        compile: training steps go through `torch.compile`.
    Returns:
        dict of valid_bits (per character of the last tenth of the text, which is not trained on) and text.
    """
    torch.manual_seed(seed)
    with gzip.open(DATA, "rt", encoding="utf-8") as file:
        whole = file.read()
    alphabet = sorted(set(whole))
    number = {character: place for place, character in enumerate(alphabet)}
    strangers = sorted(set(prompt) - set(alphabet))
    if strangers or not prompt:
        raise programs.UsageError(
            f"char_lm: expected a prompt of characters that the text has, got {prompt!r} with {strangers}."
        )
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    ids = torch.tensor([number[character] for character in whole], device=device)
    border = len(ids) * 9 // 10
    train, valid = in_rows(ids[:border], batch_size), in_rows(ids[border:], batch_size)
    if length >= valid.shape[1]:
        raise programs.UsageError(
            f"char_lm: {batch_size} texts side by side have {valid.shape[1]} characters each, and length is {length}."
        )

    model = CharacterModel(len(alphabet), hidden=hidden).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    def learn(inputs, targets, state):
        scores, state = model(inputs, state)
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss, tuple(part.detach() for part in state)  # the next window starts here, gradients stop here

    if compile:
        learn = torch.compile(learn)

    started = time.perf_counter()
    bar = tqdm(total=steps, unit="step", file=sys.stdout, mininterval=0.5)
    smooth = None
    while bar.n < steps:
        state = None
        for inputs, targets in windows(train, length):
            loss, state = learn(inputs, targets, state)
            scheduler.step()

            bits = loss.item() / math.log(2)
            smooth = bits if smooth is None else 0.95 * smooth + 0.05 * bits
            bar.set_postfix_str(f"{smooth:.2f} bits/char", refresh=False)
            bar.update()
            if bar.n == steps:
                break
    bar.close()

    if checkpoint is not None:
        Path(checkpoint).parent.mkdir(parents=True, exist_ok=True)
        weights = {name: value.cpu() for name, value in model.state_dict().items()}
        torch.save({"model": weights, "alphabet": "".join(alphabet), "hidden": hidden}, checkpoint)
    valid_bits = evaluate(model, valid, length)
    text = write(model, alphabet, prompt, characters, temperature)
    print(f"valid {valid_bits:.3f} bits/char ({time.perf_counter() - started:.0f} s)\n\n{text}")
    return {"valid_bits": valid_bits, "text": text}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=programs.whole_number(1), default=900, help="(%(default)s)")
    parser.add_argument(
        "--batch-size", type=programs.whole_number(1), default=64, help="texts side by side (%(default)s)"
    )
    parser.add_argument(
        "--length", type=programs.whole_number(1), default=64, help="characters that gradients reach back (%(default)s)"
    )
    parser.add_argument(
        "--learning-rate", type=programs.number(above=0), default=4e-3, help="at the start (%(default)s)"
    )
    parser.add_argument("--hidden", type=programs.whole_number(1), default=256, help="size of the LSTM (%(default)s)")
    parser.add_argument(
        "--seed", type=programs.seed, default=0, help="the same seed gives the same numbers (%(default)s)"
    )
    parser.add_argument("--prompt", default="ROMEO:", help="what the drawn text begins with (%(default)s)")
    parser.add_argument(
        "--temperature", type=programs.number(above=0), default=0.8, help="below 1 bolder, above 1 wilder (%(default)s)"
    )
    parser.add_argument("--characters", type=programs.whole_number(0), default=500, help="to draw (%(default)s)")
    parser.add_argument("--checkpoint", type=programs.file_to_write, help="file for the weights (they are not kept)")
    parser.add_argument("--device", type=programs.device, help="cpu or cuda (a GPU where there is one)")
    parser.add_argument("--compile", action="store_true", help="training steps through torch.compile")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(programs.run(lambda: main(**vars(parse()))))
