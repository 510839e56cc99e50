"""How well does a molecule dissolve? Messages along the bonds of molecules of any size, written for one atom of one molecule.

python examples/graph_net.py                        trains, tests
python examples/graph_net.py --epochs 2 --plain     the same one molecule after the other, to compare molecules/s

ESOL: the measured solubility in water (log10 of mol/l) of 1,123 molecules of 1 to 55 heavy atoms, as SMILES. An atom's state is updated
by the sum of its neighbours' messages, a matrix for each kind of bond (a gated graph network, Li et al. 2016); the prediction is the
sum of what the atoms contribute. No padding, no index arithmetic: inside `autobatch` all atoms of all molecules run together.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gzip
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path

from tqdm import tqdm

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn

DATA = Path(__file__).resolve().parent / "data" / "esol.tsv.gz"
TOKEN = re.compile(r"\[[^]]*\]|Cl|Br|[BCNOPSFIbcnops]|%\d\d|[-=#:/\\().0-9]")
BONDS = {"-": 0, "/": 0, "\\": 0, "=": 1, "#": 2, ":": 3}
SINGLE, AROMATIC = 0, 3


class Molecule:
    """`kinds`: of each atom its symbol (in lower case if aromatic) and how many neighbours it has; `neighbours`: of each atom a list
    of (number of the other atom, kind of the bond)."""

    def __init__(self, smiles):
        symbols, self.neighbours = [], []
        before, bond, branches, rings = None, None, [], {}

        def join(one, other, kind):
            if kind is None:
                kind = AROMATIC if symbols[one][0].islower() and symbols[other][0].islower() else SINGLE
            self.neighbours[one].append((other, kind))
            self.neighbours[other].append((one, kind))

        tokens = TOKEN.findall(smiles)
        if "".join(tokens) != smiles:
            raise ValueError(f"expected SMILES, got {smiles!r}")
        for token in tokens:
            if token == "(":
                branches.append(before)
            elif token == ")":
                before = branches.pop()
            elif token in BONDS:
                bond = BONDS[token]
            elif token == ".":
                before = None
            elif token.isdigit() or token[0] == "%":
                if token in rings:
                    other, opened = rings.pop(token)
                    join(other, before, opened if bond is None else bond)
                else:
                    rings[token] = before, bond
                bond = None
            else:
                symbols.append(token.strip("[]").replace("@", ""))
                self.neighbours.append([])
                if before is not None:
                    join(before, len(symbols) - 1, bond)
                before, bond = len(symbols) - 1, None
        self.kinds = [f"{symbol}{len(others)}" for symbol, others in zip(symbols, self.neighbours)]


def read_molecules(path=DATA):
    """Pairs (molecule, log10 of its solubility), each SMILES once, in a fixed random order."""
    with gzip.open(path, "rt") as file:
        found = {smiles: float(value) for value, smiles in (line.split() for line in file)}
    pairs = [(Molecule(smiles), value) for smiles, value in found.items()]
    random.Random(0).shuffle(pairs)
    return pairs


class GraphNetwork(nn.Module):
    def __init__(self, kinds, size, rounds):
        super().__init__()
        self.numbers = {kind: torch.tensor(number) for number, kind in enumerate(kinds, start=1)}
        self.unknown = torch.tensor(0)
        self.embedding = nn.Embedding(len(kinds) + 1, size)
        self.message = nn.ModuleList(nn.Linear(size, size) for _ in range(4))
        self.alone = nn.Parameter(torch.zeros(size))  # the message of no neighbours
        self.update = nn.GRUCell(size, size)
        self.contribution = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, 1))
        self.rounds = rounds

    def forward(self, molecule):
        """The solubility, (1,)."""
        states = [self.embedding(self.numbers.get(kind, self.unknown)) for kind in molecule.kinds]
        for _ in range(self.rounds):
            messages = [
                sum(self.message[bond](states[other]) for other, bond in others) if others else self.alone
                for others in molecule.neighbours
            ]
            states = [self.update(message, state) for message, state in zip(messages, states)]
        return sum(self.contribution(state) for state in states)


def predict(model, molecules, plain):
    """(N,) solubilities."""
    with contextlib.nullcontext() if plain else torch.autobatch():
        return torch.cat([model(molecule) for molecule in molecules])


@torch.no_grad()
def error(model, pairs, scale, plain=False):
    """Root of the mean squared error in log10 mol/l; scale is (mean, standard deviation)."""
    mean, deviation = scale
    found = predict(model, [molecule for molecule, _ in pairs], plain) * deviation + mean
    return F.mse_loss(found, torch.tensor([value for _, value in pairs])).sqrt().item()


def main(
    steps=None, epochs=25, batch_size=32, size=48, rounds=4, learning_rate=4e-3, seed=0, plain=False, molecules=None
):
    """Trains on 80 % of the molecules, keeps the epoch that is best on 10 % and tests it once on the last 10 %.

    Args:
        steps: stop after so many (None: after `epochs`).
        rounds: how often messages are sent.
        plain: without autobatch, one molecule after the other.
        molecules: use only so many (None: all).
    Returns:
        dict of test_error and valid_error (root mean squared, log10 mol/l), mean_error (the test error of always telling the mean)
        and epoch (the best one).
    """
    random.seed(seed)
    torch.manual_seed(seed)
    pairs = read_molecules()[:molecules]
    tenth = len(pairs) // 10
    test, valid, train = pairs[:tenth], pairs[tenth : 2 * tenth], pairs[2 * tenth :]
    values = torch.tensor([value for _, value in train])
    scale = values.mean().item(), values.std().item()
    uses = Counter(kind for molecule, _ in train for kind in molecule.kinds)
    model = GraphNetwork(sorted(kind for kind, count in uses.items() if count > 1), size, rounds)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    per_epoch = -(-len(train) // batch_size)
    total = min(steps or sys.maxsize, epochs * per_epoch)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)

    best = {"error": float("inf"), "epoch": 0, "weights": None}
    started, done, epoch = time.perf_counter(), 0, 0
    with tqdm(total=total * batch_size, unit="molecules", file=sys.stdout, mininterval=0.5) as bar:
        while done < total:
            epoch += 1
            random.shuffle(train)
            for start in range(0, len(train), batch_size)[: total - done]:
                part = train[start : start + batch_size]
                found = predict(model, [molecule for molecule, _ in part], plain)
                wanted = torch.tensor([(value - scale[0]) / scale[1] for _, value in part])
                loss = F.mse_loss(found, wanted)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
                scheduler.step()
                bar.update(batch_size)
                done += 1
            found = error(model, valid, scale, plain)
            bar.set_postfix_str(f"epoch {epoch}, loss {loss.item():.3f}, valid {found:.3f}", refresh=False)
            if found < best["error"]:
                best = {"error": found, "epoch": epoch, "weights": copy.deepcopy(model.state_dict())}
    seconds = time.perf_counter() - started
    model.load_state_dict(best["weights"])
    result = error(model, test, scale, plain)
    always = (torch.tensor([value for _, value in test]) - scale[0]).square().mean().sqrt().item()
    print(
        f"test error {result:.3f} log10 mol/l (the mean: {always:.3f}); valid {best['error']:.3f} in epoch {best['epoch']} "
        f"({seconds:.0f} s)"
    )
    return {"test_error": result, "valid_error": best["error"], "mean_error": always, "epoch": best["epoch"]}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="stop after so many steps")
    parser.add_argument("--epochs", type=int, default=25, help="(%(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="molecules in a step (%(default)s)")
    parser.add_argument("--size", type=int, default=48, help="features of an atom's state (%(default)s)")
    parser.add_argument("--rounds", type=int, default=4, help="how often messages are sent (%(default)s)")
    parser.add_argument("--learning-rate", type=float, default=4e-3, help="of AdamW (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same numbers (%(default)s)")
    parser.add_argument("--plain", action="store_true", help="without autobatch, one molecule after the other")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(**vars(parse()))
