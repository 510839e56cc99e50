"""LSTM and GRU: all sequences of one length, packed sequences of many, small ones, and a cell written by hand."""

from __future__ import annotations

import numpy

from benchmarks.workload import Workload, compiled, fill, generator, normal, row, train, train_on

STEPS = 30
BATCH = 64
FEATURES = 128
BATCHES = 4


def dense(torch, layer_type):
    """(30, 64, 128) in, (30, 64, 128) out; gradients of the input and of all weights."""
    random = generator(4)
    layer = layer_type(FEATURES, FEATURES)
    fill(torch, layer)
    x = torch.from_numpy(normal(random, STEPS, BATCH, FEATURES)).requires_grad_()

    def loss_of(x):
        output, _ = layer(x)
        return (output * output).mean()

    return without_optimizer([(x,)], loss_of, [*layer.parameters(), x])


def packed(torch, layer_type):
    """Lengths drawn evenly from 1 to 30, another set in each of four batches."""
    rnn = torch.nn.utils.rnn
    random = generator(5)
    layer = layer_type(FEATURES, FEATURES, batch_first=True)
    fill(torch, layer)
    batches = []
    for _ in range(BATCHES):
        lengths = random.integers(1, STEPS + 1, BATCH)
        lengths[0] = STEPS
        x = normal(random, BATCH, STEPS, FEATURES)
        x *= (numpy.arange(STEPS) < lengths[:, None])[:, :, None]
        batches.append((torch.from_numpy(x).requires_grad_(), torch.from_numpy(lengths)))

    def loss_of(x, lengths):
        sequences = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, _ = layer(sequences)
        output, _ = rnn.pad_packed_sequence(output, batch_first=True)
        return (output * output).mean()

    return without_optimizer(batches, loss_of, list(layer.parameters()))


def without_optimizer(batches, loss_of, parameters) -> Workload:
    """Forward and backward; gradients of the parameters and of each batch's first tensor start from None."""
    loss_of = compiled(loss_of)
    position = -1

    def step():
        nonlocal position
        position = (position + 1) % len(batches)
        batch = batches[position]
        for tensor in (*parameters, batch[0]):
            tensor.grad = None
        loss = loss_of(*batch)
        loss.backward()
        return loss

    return train(step, parameters, len(batches))


def by_hand(torch):
    """An LSTM cell written with small ops, 10 steps of batch 8: what a researcher's own cell costs."""
    time, batch, size = 10, 8, 64
    random = generator(6)
    layer = torch.nn.LSTM(size, size)
    fill(torch, layer)
    w_input, w_hidden, b_input, b_hidden = layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0
    x = torch.from_numpy(normal(random, time, batch, size))
    start = torch.zeros(batch, size)

    def loss_of(x):
        h, c = start, start
        total = 0.0
        for t in range(time):
            gates = x[t] @ w_input.t() + b_input + h @ w_hidden.t() + b_hidden
            i, f, g, o = gates.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            total = total + (h * h).mean()
        return total

    return without_optimizer([(x,)], loss_of, list(layer.parameters()))


def small(torch, batch):
    """LSTM(64, 64) over 32 steps, Linear on the last state, cross_entropy, Adam."""
    time, size, classes = 32, 64, 10
    random = generator(10)
    x = torch.from_numpy(normal(random, batch, time, size))
    y = torch.from_numpy(random.integers(0, classes, batch))
    lstm = torch.nn.LSTM(size, size, batch_first=True)
    linear = torch.nn.Linear(size, classes)
    model = torch.nn.ModuleList([lstm, linear])
    fill(torch, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(x, y):
        output, _ = lstm(x)
        return torch.nn.functional.cross_entropy(linear(output[:, -1]), y)

    return train_on([(x, y)], loss_of, optimizer, model.parameters())


row("lstm")(lambda torch: dense(torch, torch.nn.LSTM))
row("lstm.packed")(lambda torch: packed(torch, torch.nn.LSTM))
row("lstm.by_hand")(by_hand)
row("lstm.small.batch1")(lambda torch: small(torch, 1))
row("lstm.small.batch8")(lambda torch: small(torch, 8))
row("gru")(lambda torch: dense(torch, torch.nn.GRU))
row("gru.packed")(lambda torch: packed(torch, torch.nn.GRU))
