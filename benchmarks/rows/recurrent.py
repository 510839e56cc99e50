"""LSTM and GRU, forward and backward, with all sequences of one length and with packed sequences of many."""

from __future__ import annotations

from itertools import cycle

import numpy

from benchmarks.workload import fill, generator, normal, row, train

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
    parameters = [*layer.parameters(), x]

    def step():
        for parameter in parameters:
            parameter.grad = None
        output, _ = layer(x)
        loss = (output * output).mean()
        loss.backward()
        return loss

    return train(step, parameters)


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
    following = cycle(batches)
    parameters = list(layer.parameters())

    def step():
        x, lengths = next(following)
        x.grad = None
        for parameter in parameters:
            parameter.grad = None
        sequences = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, _ = layer(sequences)
        output, _ = rnn.pad_packed_sequence(output, batch_first=True)
        loss = (output * output).mean()
        loss.backward()
        return loss

    return train(step, parameters, cycle=BATCHES)


def by_hand(torch):
    """An LSTM cell written with small ops, 10 steps of batch 8: what a researcher's own cell costs."""
    time, batch, size = 10, 8, 64
    random = generator(6)
    layer = torch.nn.LSTM(size, size)
    fill(torch, layer)
    w_input, w_hidden, b_input, b_hidden = layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0
    x = torch.from_numpy(normal(random, time, batch, size))
    start = torch.zeros(batch, size)
    parameters = list(layer.parameters())

    def step():
        for parameter in parameters:
            parameter.grad = None
        h, c = start, start
        total = 0.0
        for t in range(time):
            gates = x[t] @ w_input.t() + b_input + h @ w_hidden.t() + b_hidden
            i, f, g, o = gates.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            total = total + (h * h).mean()
        total.backward()
        return total

    return train(step, parameters)


row("lstm")(lambda torch: dense(torch, torch.nn.LSTM))
row("lstm.packed")(lambda torch: packed(torch, torch.nn.LSTM))
row("lstm.by_hand")(by_hand)
row("gru")(lambda torch: dense(torch, torch.nn.GRU))
row("gru.packed")(lambda torch: packed(torch, torch.nn.GRU))
