"""Recursive code over one example at a time: PyTorch runs it as it stands, dynograd inside `autobatch`; and PyTorch batched by hand.

Trees are random and binary with 10 to 40 leaves, H = 128; sequences have 5 to 50 tokens. Forward and backward.
"""

from __future__ import annotations

import contextlib

import numpy

from benchmarks.workload import fill, generator, row, train

VOCABULARY, WIDTH, CLASSES = 2_000, 128, 5


def random_tree(random, leaves):
    if leaves == 1:
        return int(random.integers(VOCABULARY))
    left = int(random.integers(1, leaves))
    return random_tree(random, left), random_tree(random, leaves - left)


def forest(count):
    random = generator(5)
    return [random_tree(random, int(random.integers(10, 41))) for _ in range(count)]


def tree_cells(torch, cells=True):
    """The module of leaves and the one of inner nodes: (h, c) of a binary Tree-LSTM."""
    nn = torch.nn

    class Leaf(nn.Module):
        def __init__(self):
            super().__init__()
            self.gates = nn.Linear(WIDTH, 3 * WIDTH)

        def forward(self, x):
            i, o, u = self.gates(x).chunk(3, -1)
            c = i.sigmoid() * u.tanh()
            return o.sigmoid() * c.tanh(), c

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.gates = nn.Linear(2 * WIDTH, 5 * WIDTH)

        def forward(self, left, right):
            (h_left, c_left), (h_right, c_right) = left, right
            i, f, g, o, u = self.gates(torch.cat([h_left, h_right], -1)).chunk(5, -1)
            c = i.sigmoid() * u.tanh() + f.sigmoid() * c_left + g.sigmoid() * c_right
            return o.sigmoid() * c.tanh(), c

    modules = Leaf(), Inner()
    if cells and hasattr(torch, "cell"):
        for module in modules:
            torch.cell(module)
    return modules


def tree_model(torch, cells):
    """Embedding, a cell for leaves and one for inner nodes, Linear."""
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, WIDTH)
            self.leaf, self.inner = tree_cells(torch, cells)
            self.head = nn.Linear(WIDTH, CLASSES)

        def state(self, tree):
            if isinstance(tree, tuple):
                return self.inner(self.state(tree[0]), self.state(tree[1]))
            return self.leaf(self.embedding(TOKENS[tree]))

        def forward(self, tree):
            return self.head(self.state(tree)[0])

        def by_level(self, trees):
            """Scores of all trees, one call of the cells for each level."""
            tokens, levels, rows = [], [], {}

            def place(tree, path):
                if not isinstance(tree, tuple):
                    rows[path] = 0, len(tokens)
                    tokens.append(tree)
                    return 0
                level = 1 + max(place(tree[0], (*path, 0)), place(tree[1], (*path, 1)))
                while len(levels) < level:
                    levels.append([])
                rows[path] = level, len(levels[level - 1])
                levels[level - 1].append(path)
                return level

            for number, tree in enumerate(trees):
                place(tree, (number,))
            starts = numpy.cumsum([0, len(tokens), *[len(level) for level in levels]])
            h, c = self.leaf(self.embedding(torch.tensor(tokens)))
            for paths in levels:
                sides = []
                for side in (0, 1):
                    places = [rows[*path, side] for path in paths]
                    index = torch.tensor([int(starts[level]) + row for level, row in places])
                    sides.append((h[index], c[index]))
                new_h, new_c = self.inner(*sides)
                h, c = torch.cat([h, new_h]), torch.cat([c, new_c])
            roots = [rows[number,] for number in range(len(trees))]
            return self.head(h[torch.tensor([int(starts[level]) + row for level, row in roots])])

    TOKENS = [torch.tensor(token) for token in range(VOCABULARY)]
    model = Model()
    fill(torch, model)
    return model


def batching(torch):
    return torch.autobatch() if hasattr(torch, "autobatch") else contextlib.nullcontext()


def workload(torch, model, loss_of, scope=True):
    """Forward and backward."""
    parameters = list(model.parameters())

    def step():
        model.zero_grad()
        with batching(torch) if scope else contextlib.nullcontext():
            loss = loss_of()
        loss.backward()
        return loss

    return train(step, parameters)


def trees(torch, count, cells=True, by_hand=False, scope=True):
    model, examples = tree_model(torch, cells), forest(count)
    label = torch.tensor(1)
    cross_entropy = torch.nn.functional.cross_entropy
    if by_hand and not hasattr(torch, "autobatch"):
        labels = torch.tensor([1] * count)
        return workload(torch, model, lambda: cross_entropy(model.by_level(examples), labels, reduction="sum"))
    return workload(torch, model, lambda: sum(cross_entropy(model(tree), label) for tree in examples), scope)


@row("dynamic.one_tree", compiles="dynograd")
def one_tree(torch):
    """One tree."""
    return trees(torch, 1)


@row("dynamic.one_tree.plain", compiles="dynograd")
def one_tree_plain(torch):
    """One tree, in dynograd too without autobatch: beside `dynamic.one_tree`, what the scope costs or gains."""
    return trees(torch, 1, scope=False)


@row("dynamic.trees_25", compiles="dynograd")
def trees_25(torch):
    """25 trees, one after the other."""
    return trees(torch, 25)


@row("dynamic.trees_256", compiles="dynograd", small=lambda torch: trees(torch, 6))
def trees_256(torch):
    """256 trees, one after the other."""
    return trees(torch, 256)


@row("dynamic.trees_25_ops", compiles="dynograd")
def trees_25_ops(torch):
    """25 trees whose modules are no cells: each op is recorded."""
    return trees(torch, 25, cells=False)


@row("dynamic.trees_25_by_hand", compiles="dynograd")
def trees_25_by_hand(torch):
    """25 trees; PyTorch batched by hand, level by level."""
    return trees(torch, 25, by_hand=True)


@row("dynamic.trees_256_by_hand", compiles="dynograd", small=lambda torch: trees(torch, 6, by_hand=True))
def trees_256_by_hand(torch):
    """256 trees; PyTorch batched by hand, level by level."""
    return trees(torch, 256, by_hand=True)


def sequences(torch, count, packed):
    """An LSTM cell over the tokens of each list; or PyTorch's packed nn.LSTM."""
    nn, random = torch.nn, generator(6)
    lists = [random.integers(0, VOCABULARY, random.integers(5, 51)).tolist() for _ in range(count)]
    ours = hasattr(torch, "autobatch")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, WIDTH)
            self.cell = nn.LSTMCell(WIDTH, WIDTH)

    model = Model()
    fill(torch, model)
    tokens = [[torch.tensor(token) for token in numbers] for numbers in lists]
    whole = [torch.tensor(numbers) for numbers in lists]
    zeros = torch.zeros(WIDTH)

    def by_token():
        total = 0
        for sequence in tokens:
            state = zeros, zeros
            for token in sequence:
                state = model.cell(model.embedding(token), state)
            total = total + state[0].sum()
        return total

    def by_pack():
        functional, cell = torch.nn.utils.rnn, model.cell
        pack = functional.pack_sequence(whole, enforce_sorted=False)
        inputs = functional.PackedSequence(
            model.embedding(pack.data), pack.batch_sizes, pack.sorted_indices, pack.unsorted_indices
        )
        states = torch.zeros(1, len(whole), WIDTH)
        flat = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
        result = torch.lstm(
            inputs.data, inputs.batch_sizes, (states, states), flat, True, 1, 0.0, model.training, False
        )
        return result[1].sum()

    return workload(torch, model, by_pack if packed and not ours else by_token)


@row("dynamic.lstm_tokens", compiles="dynograd", small=lambda torch: sequences(torch, 3, False))
def lstm_tokens(torch):
    """An LSTM cell, token by token, over 64 lists."""
    return sequences(torch, 64, False)


@row("dynamic.lstm_packed", compiles="dynograd", small=lambda torch: sequences(torch, 3, True))
def lstm_packed(torch):
    """The same 64 lists token by token; PyTorch's nn.LSTM on them packed."""
    return sequences(torch, 64, True)


@row("dynamic.shift_reduce", compiles="dynograd")
def shift_reduce(torch):
    """A parser over 64 sentences whose transitions depend on the argmax of its scores."""
    return parsing(torch, 64)


@row("dynamic.shift_reduce_25", compiles="dynograd")
def shift_reduce_25(torch):
    """The same over 25 sentences."""
    return parsing(torch, 25)


def parsing(torch, count):
    nn, random = torch.nn, generator(7)
    sentences = [random.integers(0, VOCABULARY, random.integers(8, 25)).tolist() for _ in range(count)]

    class Parser(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, WIDTH)
            self.reduce, self.score = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(2 * WIDTH, 2)

        def forward(self, tokens):
            buffer, stack = list(reversed(tokens)), []
            while buffer or len(stack) > 1:
                shift = len(stack) < 2
                if not shift and buffer:
                    shift = int(self.score(torch.cat([stack[-1], stack[-2]])).argmax()) == 0
                if shift:
                    stack.append(self.embedding(numbers[buffer.pop()]))
                else:
                    right, left = stack.pop(), stack.pop()
                    stack.append(self.reduce(torch.cat([left, right])).tanh())
            return stack[0]

    model = Parser()
    fill(torch, model)
    numbers = [torch.tensor(token) for token in range(VOCABULARY)]
    if hasattr(torch, "batched"):
        parse = torch.batched(model)
        return parsed(torch, model, lambda: parse(sentences))
    return parsed(torch, model, lambda: [model(sentence) for sentence in sentences])


def parsed(torch, model, states):
    parameters = [parameter for name, parameter in model.named_parameters() if not name.startswith("score")]

    def step():
        model.zero_grad()
        with batching(torch):
            loss = sum((state * state).sum() for state in states())
        loss.backward()
        return loss

    return train(step, parameters)
