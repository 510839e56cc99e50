"""Programs as people write them, each with one mistake that runs, or ends in an error. The line that is to be named ends in `# here`.

A program returns what a user would ask about, and behind it what a user would still have then. Rows: the program, the problem or the class
of the error, the op, words of the reason or of the error.
"""

from __future__ import annotations

from typing import Any

import dynograd as dg
from dynograd import nn
from dynograd.errors import DtypeError, GradientError, IndexRangeError, InplaceError, ShapeError
from dynograd.nn import functional as F

Kept = tuple[Any, ...]


def frozen_encoder() -> Kept:
    encoder, head = nn.Linear(4, 4), nn.Linear(4, 2)
    for parameter in encoder.parameters():
        parameter.requires_grad = False
    hidden = encoder(dg.ones(3, 4)).relu()  # here
    head(hidden).sum().backward()
    return encoder.weight, encoder


def detached_in_a_loop() -> Kept:
    cell, table, head = nn.RNNCell(4, 4), nn.Embedding(5, 4), nn.Linear(4, 2)
    h = dg.zeros(2, 4)
    for word in range(3):
        h = cell(table(dg.tensor([word, word])), h)
        h = h.detach()  # here
    F.cross_entropy(head(h), dg.tensor([0, 1])).backward()
    return table.weight, table


def softmax_twice() -> Kept:
    model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(-1))
    loss = F.cross_entropy(model(dg.ones(2, 4)), dg.tensor([0, 1]))  # here
    loss.backward()
    return loss, model


def softmax_twice_asked_of_a_weight() -> Kept:
    model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(-1))
    F.cross_entropy(model(dg.ones(2, 4)), dg.tensor([0, 1])).backward()  # here
    return model[0].weight, model


def sigmoid_twice() -> Kept:
    scores = nn.Linear(4, 1)(dg.ones(2, 4)).sigmoid().squeeze(-1)
    loss = F.binary_cross_entropy_with_logits(scores, dg.ones(2))  # here
    return (loss,)


def scores_cut_at_zero() -> Kept:
    scores = F.relu(nn.Linear(4, 1)(dg.ones(2, 4)))
    loss = F.binary_cross_entropy_with_logits(scores, dg.ones(2, 1))  # here
    return (loss,)


def probabilities_without_log() -> Kept:
    shares = nn.Linear(4, 3)(dg.ones(2, 4)).softmax(-1)
    loss = F.nll_loss(shares, dg.tensor([0, 1]))  # here
    return (loss,)


def classes_in_the_last_dim() -> Kept:
    scores = nn.Linear(4, 7)(dg.ones(2, 5, 4))
    return (F.cross_entropy(scores, dg.zeros(2, 5, dtype=dg.long)),)  # here


def learning_rate_of_a_thousand() -> Kept:
    model = nn.Linear(4, 1)
    optimizer = dg.optim.SGD(model.parameters(), lr=1e3)
    for _ in range(20):
        optimizer.zero_grad()
        loss = (model(dg.ones(3, 4)) - 1).square().mean()  # here
        loss.backward()
        optimizer.step()
    return loss, model, optimizer


def log_of_an_empty_count() -> Kept:
    counts = dg.ragged_tensor([dg.ones(3), dg.tensor([0.5, 0.0])])
    return nn.Linear(1, 1)(counts.unsqueeze(-1).log()).square().mean(), counts  # here


def mean_of_an_empty_row() -> Kept:
    words = dg.ragged_tensor([dg.ones(3), dg.ones(0), dg.ones(2)])
    sentences = words.mean(1)  # here
    return sentences.sum(), words


def sum_over_length_zero() -> Kept:
    words = dg.ragged_tensor([dg.ones(3), dg.ones(0), dg.ones(2)])
    sentences = words.sum(1) / words.lengths()  # here
    return sentences.sum(), words


def padding_only() -> Kept:
    scores = dg.randn(2, 3, 3)
    scores[1] = float("-inf")
    weights = dg.softmax(scores, -1)  # here
    return weights.sum(), scores


def written_after_it_was_saved() -> Kept:
    w = dg.ones(3, requires_grad=True)
    h = w.exp()
    h += 1  # here
    h.sum().backward()
    return (w,)


def dead_filters() -> Kept:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1))
    with dg.no_grad():
        model[0].bias.fill_(-99)
    model(dg.rand(2, 1, 4, 4)).sum().backward()  # here
    return model[0].weight, model


def never_zeroed() -> Kept:
    model = nn.Linear(4, 1)
    optimizer = dg.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(3):
        (model(dg.ones(3, 4)) - 1).square().mean().backward()
        optimizer.step()  # here
    return model.weight, model, optimizer


def head_behind_the_optimizer() -> Kept:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = dg.optim.SGD(model.parameters(), lr=1e-2)
    model[1] = nn.Linear(4, 3)
    F.cross_entropy(model(dg.ones(2, 4)), dg.tensor([0, 1])).backward()
    optimizer.step()  # here
    return model[1].weight, model, optimizer


def layers_in_a_list() -> Kept:
    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(4, 4) for _ in range(2)]
            self.head = nn.Linear(4, 1)

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)  # here
            return self.head(x)

    model = Stack()
    model(dg.ones(2, 4)).sum().backward()
    return model.layers[0].weight, model


def labels_as_floats() -> Kept:
    scores = nn.Linear(4, 3)(dg.ones(2, 4))
    return (F.cross_entropy(scores, dg.tensor([0.0, 1.0])),)  # here


def column_minus_row() -> Kept:
    prediction, target = nn.Linear(4, 1)(dg.ones(8, 4)), dg.arange(8.0)
    loss = ((prediction - target) ** 2).mean()  # here
    return loss, target


def column_beside_row() -> Kept:
    prediction, target = nn.Linear(4, 1)(dg.ones(8, 4)), dg.arange(8.0)
    loss = F.mse_loss(prediction, target)  # here
    return loss, target


def loss_without_recording() -> Kept:
    model = nn.Linear(4, 1)
    with dg.no_grad():
        loss = model(dg.ones(2, 4)).sum()  # here
    return loss, model


def backward_of_a_loss_without_recording() -> Kept:
    model = nn.Linear(4, 1)
    with dg.no_grad():
        loss = model(dg.ones(2, 4)).sum()
    loss.backward()  # here
    return loss, model


def losses_as_numbers() -> Kept:
    model = nn.Linear(4, 1)
    losses = [model(dg.ones(4)).sum().item() for _ in range(3)]
    return dg.tensor(losses).mean(), model  # here


def copied_by_tensor() -> Kept:
    model, head = nn.Linear(4, 4), nn.Linear(4, 1)
    h = dg.tensor(model(dg.ones(2, 4)))  # here
    head(h).sum().backward()
    return model.weight, model


def word_out_of_range() -> Kept:
    return (nn.Embedding(10, 3)(dg.tensor([[1, 2], [3, 10]])),)  # here


def eval_forgotten() -> Kept:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    with dg.no_grad():
        return model(dg.ones(2, 4)), model  # here


def statistics_of_the_batch() -> Kept:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    with dg.no_grad():
        return model(dg.ones(2, 4)), model  # here


def exploding_states() -> Kept:
    w = nn.Parameter(dg.eye(3) * 30)
    h = dg.ones(3)
    for _ in range(30):
        h = w @ h  # here
    h.sum().backward()
    nn.utils.clip_grad_norm_([w], 1.0)
    return w, h


def length_of_zeros() -> Kept:
    table = nn.Embedding(4, 3)
    with dg.no_grad():
        table.weight[0] = 0
    lengths = (table(dg.tensor([0, 1])) ** 2).sum(-1).sqrt()  # here
    (lengths - 1).abs().sum().backward()
    return table.weight, table


def zeros_in_the_head() -> Kept:
    body, head = nn.Linear(4, 4), nn.Linear(4, 1)
    nn.init.zeros_(head.weight)
    head(body(dg.ones(2, 4)).relu()).sum().backward()  # here
    return body.weight, body, head


def weight_bound_to_a_new_tensor() -> Kept:
    w = dg.ones(3, requires_grad=True)
    w = w * 0.1  # here
    w.square().sum().backward()
    return (w,)


def overflowing_variance() -> Kept:
    log_variance = nn.Linear(4, 2)(dg.full((2, 4), 2000.0)).abs()
    divergence = (log_variance.exp() - log_variance).mean()  # here
    return (divergence,)


SUSPECT, MISSING = "suspect", "no gradient"
ROWS = [
    (frozen_encoder, MISSING, "linear", "requires_grad is False"),
    (detached_in_a_loop, MISSING, "detach", "detach()"),
    (softmax_twice, SUSPECT, "cross_entropy", "leave softmax out"),
    (softmax_twice_asked_of_a_weight, SUSPECT, "cross_entropy", "leave softmax out"),
    (sigmoid_twice, SUSPECT, "binary_cross_entropy_with_logits", "leave sigmoid out"),
    (scores_cut_at_zero, SUSPECT, "binary_cross_entropy_with_logits", "leave relu out"),
    (probabilities_without_log, SUSPECT, "nll_loss", "use log_softmax"),
    (classes_in_the_last_dim, ShapeError, None, "input.movedim(-1, 1)"),
    (learning_rate_of_a_thousand, "nan", "linear", "since a step of SGD (lr=1000) at user_mistakes.py:"),
    (log_of_an_empty_count, "inf", "log", "row 1, [1, 0]"),
    (mean_of_an_empty_row, "nan", "mean", "input row 1 empty"),
    (sum_over_length_zero, "nan", "div", "other[1] = 0"),
    (padding_only, "nan", "softmax", "9 inf of 18"),
    (written_after_it_was_saved, InplaceError, None, "was written by"),
    (dead_filters, "zero gradient", "relu", "input in [-99"),
    (never_zeroed, SUSPECT, "SGD.step", "zero_grad() is missing"),
    (head_behind_the_optimizer, SUSPECT, "SGD.step", "No optimizer that took a step has it"),
    (layers_in_a_list, SUSPECT, "linear", "keep layers in a ModuleList"),
    (labels_as_floats, DtypeError, None, "target.long()"),
    (column_minus_row, SUSPECT, "sub", "to (8, 8)"),
    (column_beside_row, SUSPECT, "mse_loss", "to (8, 8)"),
    (loss_without_recording, "", "linear", "No gradient goes back from it"),
    (backward_of_a_loss_without_recording, GradientError, None, "dynograd.explain"),
    (losses_as_numbers, "", "mean", ".item()"),
    (copied_by_tensor, MISSING, "detach", "detach()"),
    (word_out_of_range, IndexRangeError, None, "index 10 at position [1, 1]"),
    (eval_forgotten, SUSPECT, "dropout", "model.eval()"),
    (statistics_of_the_batch, SUSPECT, "batch_norm", "model.eval()"),
    (exploding_states, "nan gradient", "matmul", "forward had it before backward"),
    (length_of_zeros, "nan gradient", "sqrt", "0"),
    (zeros_in_the_head, "zero gradient", "linear", "weight in [0, 0]"),
    (weight_bound_to_a_new_tensor, "", "mul", "retain_grad()"),
    (overflowing_variance, "inf", "exp", "input"),
]


# --- programs that look like mistakes and are none ----------------------------------------------------------------------------


def gradients_of_two_batches() -> Kept:
    model = nn.Linear(4, 1)
    optimizer = dg.optim.SGD(model.parameters(), lr=1e-2)
    for number in range(4):
        model(dg.ones(3, 4) * (number + 1)).square().mean().backward()
        if number % 2:
            optimizer.step()
            if number < 3:
                optimizer.zero_grad()
    return model.weight, model, optimizer


def zeroed_in_place() -> Kept:
    model = nn.Linear(4, 1)
    optimizer = dg.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        model(dg.ones(3, 4)).square().mean().backward()
        optimizer.step()
    return model.weight, model, optimizer


def one_optimizer_each() -> Kept:
    first, second = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizers = [dg.optim.Adam(layer.parameters(), lr=1e-2) for layer in (first, second)]
    second(first(dg.ones(3, 4))).sum().backward()
    for optimizer in optimizers:
        optimizer.step()
    return first.weight, first, second, optimizers


def all_pairs() -> Kept:
    points = nn.Linear(2, 2)(dg.rand(5, 2))
    return ((points.unsqueeze(1) - points).square().sum(),)


def shift_by_a_vector() -> Kept:
    return (F.mse_loss(nn.Linear(4, 3)(dg.ones(8, 4)) - dg.ones(3), dg.zeros(8, 3)),)


def evaluated() -> Kept:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4)).eval()
    with dg.no_grad():
        return model(dg.ones(2, 4)), model


def dropout_in_a_checkpoint() -> Kept:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    loss = dg.utils.checkpoint.checkpoint(model, dg.ones(2, 4), use_reentrant=False).sum()
    loss.backward()
    return loss, model


def attention() -> Kept:
    scores = nn.Linear(4, 4)(dg.ones(2, 4))
    return F.cross_entropy(scores.softmax(-1) * scores, dg.tensor([0, 1])), scores


HEALTHY = [
    gradients_of_two_batches,
    zeroed_in_place,
    one_optimizer_each,
    all_pairs,
    shift_by_a_vector,
    evaluated,
    dropout_in_a_checkpoint,
    attention,
]
