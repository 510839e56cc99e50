"""Models written for one example, without cells: attention over memories of different lengths, message passing, tensor networks, stacks.

PyTorch runs them as they stand, dynograd inside `autobatch`. 32 examples, forward and backward.
"""

from __future__ import annotations

import functools
import itertools

from benchmarks.rows.dynamic import workload
from benchmarks.workload import fill, generator, row

EXAMPLES = 32


def tokens(random, torch, low, high, kinds):
    return [torch.tensor(int(number)) for number in random.integers(kinds, size=int(random.integers(low, high + 1)))]


def attention(torch, random):
    """Sequence to sequence: a GRU reads, another one writes with attention over all states."""
    nn, F = torch.nn, torch.nn.functional

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.score = nn.Embedding(60, 64), nn.Linear(128, 60)
            self.reader, self.writer = nn.GRUCell(64, 64), nn.GRUCell(128, 64)
            self.query = nn.Linear(64, 64, bias=False)

        def forward(self, source, target):
            h, states = torch.zeros(64), []
            for word in source:
                h = self.reader(self.words(word), h)
                states.append(h)
            memory, y, loss = torch.stack(states), self.words(target[0]), 0.0
            for word in target[1:]:
                context = F.softmax(memory @ self.query(h), dim=0) @ memory
                h = self.writer(torch.cat([y, context]), h)
                loss = loss + F.cross_entropy(self.score(torch.cat([h, context])), word)
                y = self.words(word)
            return loss / len(target)

    return Model(), [(tokens(random, torch, 5, 20, 60), tokens(random, torch, 5, 20, 60)) for _ in range(EXAMPLES)]


def graphs(torch, random):
    """Gated message passing over lists of neighbours, three rounds."""
    nn, F = torch.nn, torch.nn.functional

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.kinds, self.score = nn.Embedding(10, 32), nn.Linear(32, 2)
            self.message, self.update = nn.Linear(32, 32), nn.GRUCell(32, 32)

        def forward(self, nodes, neighbours, label):
            states = [self.kinds(kind) for kind in nodes]
            for _ in range(3):
                sent = [self.message(state) for state in states]
                states = [
                    self.update(sum(sent[other] for other in others), state)
                    for others, state in zip(neighbours, states)
                ]
            return F.cross_entropy(self.score(torch.stack(states).max(0)[0]), label)

    def graph():
        nodes = tokens(random, torch, 5, 15, 10)
        count = len(nodes)
        neighbours = [random.integers(count, size=int(random.integers(1, 4))).tolist() for _ in nodes]
        return nodes, neighbours, torch.tensor(count % 2)

    return Model(), [graph() for _ in range(EXAMPLES)]


def tensor_trees(torch, random):
    """Recursive neural tensor network (Socher et al. 2013), D = 32."""
    nn, F = torch.nn, torch.nn.functional

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.score = nn.Embedding(100, 32), nn.Linear(32, 5)
            self.tensor, self.matrix = nn.Parameter(torch.zeros(32, 64, 64)), nn.Linear(64, 32)

        def vector(self, tree):
            if not isinstance(tree, tuple):
                return self.words(tree)
            both = torch.cat([self.vector(tree[0]), self.vector(tree[1])])
            return torch.tanh(torch.einsum("i,kij,j->k", both, self.tensor, both) + self.matrix(both))

        def forward(self, tree):
            return F.cross_entropy(self.score(self.vector(tree)), torch.tensor(2))

    def tree(leaves):
        if leaves == 1:
            return torch.tensor(int(random.integers(100)))
        left = int(random.integers(1, leaves))
        return tree(left), tree(leaves - left)

    return Model(), [(tree(int(random.integers(4, 21))),) for _ in range(EXAMPLES)]


def stacks(torch, random):
    """A network with a continuous stack (Joulin and Mikolov 2015)."""
    nn, F = torch.nn, torch.nn.functional

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.score = nn.Embedding(20, 32), nn.Linear(32, 20)
            self.cell, self.action, self.pushed = nn.RNNCell(32, 32), nn.Linear(32, 2), nn.Linear(32, 32)

        def forward(self, sequence):
            h, stack, loss = torch.zeros(32), torch.zeros(12, 32), 0.0
            for word, following in itertools.pairwise(sequence):
                h = self.cell(self.words(word) + stack[0], h)
                action = F.softmax(self.action(h), -1)
                up = torch.cat([self.pushed(h).sigmoid().unsqueeze(0), stack[:-1]])
                down = torch.cat([stack[1:], torch.zeros(1, 32)])
                stack = action[0] * up + action[1] * down
                loss = loss + F.cross_entropy(self.score(h), following)
            return loss

    return Model(), [(tokens(random, torch, 6, 20, 20),) for _ in range(EXAMPLES)]


def words_of_letters(torch, random):
    """A convolution over the letters of each word, a highway layer, an LSTM over the words."""
    nn, F = torch.nn, torch.nn.functional

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.letters, self.convolution = nn.Embedding(40, 16), nn.Conv1d(16, 32, 3, padding=1)
            self.highway, self.cell, self.score = nn.Linear(32, 64), nn.LSTMCell(32, 32), nn.Linear(32, 10)

        def forward(self, words, tags):
            state, loss = None, 0.0
            for word, tag in zip(words, tags):
                x = self.convolution(self.letters(word).t().unsqueeze(0)).squeeze(0).max(1)[0]
                gate, new = self.highway(x).chunk(2)
                gate = gate.sigmoid()
                state = self.cell(gate * new.relu() + (1 - gate) * x, state)
                loss = loss + F.cross_entropy(self.score(state[0]), tag)
            return loss

    def sentence():
        tags = tokens(random, torch, 4, 12, 10)
        return [torch.tensor(random.integers(40, size=int(random.integers(2, 9)))) for _ in tags], tags

    return Model(), [sentence() for _ in range(EXAMPLES)]


def program(make, torch):
    model, examples = make(torch, generator(5))
    fill(torch, model)
    return workload(torch, model, lambda: sum(model(*example) for example in examples) / len(examples))


for make in (attention, graphs, tensor_trees, stacks, words_of_letters):
    row(f"dynamic.{make.__name__}", compiles="dynograd")(functools.partial(program, make))
