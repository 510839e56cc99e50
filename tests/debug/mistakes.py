"""Programs with one mistake each. A program returns what a user would ask about; the line with the mistake ends in `# here`.

Rows: the program, the problem, the op that is to be named, words of the reason.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import dynograd as dg
from dynograd import nn
from dynograd.nn import functional as F

NAN, INF = "nan", "inf"
MISSING, ZERO, NAN_GRADIENT = "no gradient", "zero gradient", "nan gradient"
DIM = "dim"


def parameter(*numbers: float) -> Any:
    return dg.tensor(numbers, requires_grad=True)


def log_of_zero():
    p = F.relu(dg.tensor([-1.0, 2.0]))
    return (-p.log()).mean()  # here


def division_by_zero():
    counts = dg.tensor([2.0, 0.0])
    shares = dg.tensor([1.0, 3.0]) / counts  # here
    return shares.sum() * 0.5


def root_of_negative():
    variance = dg.tensor([0.5, -1e-3])
    deviation = variance.sqrt()  # here
    return deviation.mean()


def exp_overflows():
    x = dg.tensor([1.0, 89.0])
    weights = x.exp()  # here
    return weights.sum()


def own_softmax_overflows():
    x = dg.tensor([[1.0, 100.0]])
    e = x.exp()  # here
    return (e / e.sum(1, keepdim=True)).sum()


def softmax_of_a_masked_row():
    scores = dg.zeros(2, 3).masked_fill(dg.tensor([[False] * 3, [True] * 3]), float("-inf"))
    weights = scores.softmax(-1)  # here
    return (weights @ dg.ones(3, 4)).sum()


def zero_times_infinity():
    p = dg.tensor([0.0, 1.0])
    information = p.log()  # here
    return -(p * information).sum()


def deviation_of_one():
    x = dg.ones(1, 4)
    normalised = (x - x.mean(0)) / x.std(0)  # here
    return normalised.sum()


def fractional_power_of_negative():
    return (dg.tensor([-8.0, 8.0]) ** (1 / 3)).sum()  # here


def arc_cosine_beyond_one():
    u = dg.tensor([1.0, 1.0001])
    return u.acos().mean()  # here


def mean_of_nothing():
    x = dg.tensor([1.0, 2.0])
    return x[x > 3].mean() + 1  # here


def constant_normalised():
    x = dg.ones(3, 4)
    y = (x - x.mean(1, keepdim=True)) / (x - x.mean(1, keepdim=True)).square().mean(1, keepdim=True)  # here
    return y.sum()


def float16_overflows():
    x = dg.full((4,), 300.0, dtype=dg.float16)
    squares = x * x  # here
    return squares.float().mean()


def product_overflows():
    x = dg.full((2, 2), 1e20)
    y = x @ x  # here
    return y.sum()


def sum_overflows():
    x = dg.full((4,), 3e38)
    return x.sum() / 4  # here


def running_product_overflows():
    x = dg.full((50,), 100.0)
    y = x.cumprod(0)  # here
    return y.mean()


def batch_holds_nan():
    x = dg.tensor([[1.0, float("nan")], [0.0, 1.0]])
    return nn.Linear(2, 1)(x).sum()  # here


def weight_is_nan():
    table = nn.Embedding(3, 2)
    with dg.no_grad():
        table.weight[1, 0] = float("nan")
    return table(dg.tensor([0, 1])).sum()  # here


def ragged_row_holds_a_zero():
    x = dg.ragged_tensor([dg.tensor([1.0, 2.0]), dg.tensor([3.0, 0.0, 1.0])])
    y = x.log()  # here
    return y.sum()


def inside_a_module():
    class Gate(nn.Module):
        def forward(self, x):
            return x.rsqrt()  # here

    return nn.Sequential(nn.ReLU(), Gate())(dg.tensor([-1.0, 4.0])).sum()


def entropy_of_a_distribution():
    p = dg.tensor([[0.0, 1000.0]]).softmax(-1)
    return -(p * p.log()).sum()  # here


def difference_of_infinities():
    x = dg.tensor([1e38, 1.0])
    y = x * 10  # here
    return (y - y).sum()


def inside_vmap():
    rows = dg.tensor([[1.0, 2.0], [0.0, 3.0]])
    return dg.vmap(lambda row: row.log().sum())(rows)  # here


VALUES = [
    (inside_vmap, INF, "log", "example 1, [0] = 0"),
    (log_of_zero, INF, "log", "0"),
    (division_by_zero, INF, "div", "0"),
    (root_of_negative, NAN, "sqrt", "-0.001"),
    (exp_overflows, INF, "exp", "89"),
    (own_softmax_overflows, NAN, "exp", "100"),
    (softmax_of_a_masked_row, NAN, "softmax", "3 inf"),
    (zero_times_infinity, NAN, "log", "0"),
    (deviation_of_one, NAN, "std", "1"),
    (fractional_power_of_negative, NAN, "scalar_power", "-8"),
    (arc_cosine_beyond_one, NAN, "acos", "1"),
    (mean_of_nothing, NAN, "mean", "empty"),
    (constant_normalised, NAN, "div", "0"),
    (float16_overflows, INF, "mul", "300"),
    (product_overflows, INF, "matmul", "1e+20"),
    (sum_overflows, INF, "sum", "3e+38"),
    (running_product_overflows, INF, "cumprod", "100"),
    (batch_holds_nan, NAN, "linear", "[0, 1]"),
    (weight_is_nan, NAN, "embedding", "weight"),
    (ragged_row_holds_a_zero, INF, "log", "row 1, [1]"),
    (inside_a_module, INF, "rsqrt", "1"),
    (entropy_of_a_distribution, NAN, "log", "0"),
    (difference_of_infinities, NAN, "mul", "1e+38"),
]


# --- gradients that are not numbers -----------------------------------------------------------------------------------------


def root_at_zero():
    w = parameter(0.0, 1.0)
    (w.sqrt() * dg.tensor([0.0, 1.0])).sum().backward()  # here
    return w


def norm_divided_by_itself():
    w = parameter(0.0, 1.0)
    length = w.abs().pow(0.5)  # here
    (length * 0).sum().backward()
    return w


def where_keeps_the_other_side():
    w = parameter(0.0, 1.0)
    y = dg.where(w > 0, w.log(), dg.zeros(2))  # here
    (y * w).sum().backward()
    return w


def arc_cosine_at_one():
    w = parameter(1.0, 0.5)
    angle = w.acos()  # here
    (angle * 0).sum().backward()
    return w


def deviation_of_a_constant():
    w = parameter(2.0, 2.0)
    w.var().sqrt().backward()  # here
    return w


def power_at_zero():
    w = parameter(0.0, 4.0)
    y = w**0.5  # here
    (y * 0).sum().backward()
    return w


def reciprocal_of_tiny():
    w = parameter(1e-30, 1.0)
    y = 1 / w  # here
    y.sum().backward()
    return w


def hypotenuse():
    w = parameter(0.0, 3.0)
    y = (w * w).sqrt()  # here
    (y * w).sum().backward()
    return w


GRADIENTS = [
    (root_at_zero, NAN_GRADIENT, "sqrt", "= 0"),
    (norm_divided_by_itself, NAN_GRADIENT, "half_power", "= 0"),
    (where_keeps_the_other_side, NAN_GRADIENT, "log", "= 0"),
    (arc_cosine_at_one, NAN_GRADIENT, "acos", "= 1"),
    (deviation_of_a_constant, NAN_GRADIENT, "sqrt", "= 0"),
    (power_at_zero, NAN_GRADIENT, "half_power", "= 0"),
    (reciprocal_of_tiny, "inf gradient", "div", "1e-30"),
    (hypotenuse, NAN_GRADIENT, "sqrt", "= 0"),
]


# --- gradients that are missing ---------------------------------------------------------------------------------------------


def detached():
    w, b = parameter(1.0), parameter(2.0)
    h = (w * 3).detach()  # here
    (h * b).sum().backward()
    return w


def data_was_used():
    w, b = parameter(1.0), parameter(2.0)
    h = w.data * 3  # here
    (h * b).sum().backward()
    return w


def without_recording():
    layer, head = nn.Linear(2, 2), nn.Linear(2, 1)
    with dg.no_grad():
        h = layer(dg.ones(1, 2))  # here
    head(h).sum().backward()
    return layer.weight


def decided_by_argmax():
    w, table = parameter(1.0, 2.0), nn.Embedding(2, 3)
    table(w.argmax()).sum().backward()  # here
    return w


def made_whole_numbers():
    w, b = parameter(1.5), parameter(2.0)
    (w.long() * b).sum().backward()  # here
    return w


def compared():
    w, b = parameter(1.5), parameter(2.0)
    gate = (w > 0).float()  # here
    (gate * b).sum().backward()
    return w


def read_as_a_number():
    w, b = parameter(1.5), parameter(2.0)
    scale = (w * 2).sum()  # here
    (b * scale.item()).sum().backward()
    return w


def through_numpy():
    w, b = parameter(1.5), parameter(2.0)
    h = (w * 2).detach()  # here
    (b * dg.tensor(np.tanh(h.numpy()))).sum().backward()
    return w


def never_used():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.first(x)

    net = Net()
    net(dg.ones(1, 2)).sum().backward()
    return net.second.weight


def overwritten():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    x = dg.ones(1, 2)
    y = first(x)  # here
    y = second(x)
    y.sum().backward()
    return first.weight


def in_inference_mode():
    w, b = parameter(1.0), parameter(2.0)
    with dg.inference_mode():
        h = w.exp()  # here
    (h.clone() * b).sum().backward()
    return w


def set_to_none():
    w = parameter(1.0)
    optimizer = dg.optim.SGD([w], lr=0.1)
    (w * 2).sum().backward()  # here
    optimizer.zero_grad()
    return w


def target_network():
    online, target = nn.Linear(2, 2), nn.Linear(2, 2)
    goal = target(dg.ones(1, 2))
    loss = F.mse_loss(online(dg.ones(1, 2)), goal.detach())  # here
    loss.backward()
    return target.weight


def sampled():
    scores = parameter(1.0, 2.0)
    action = dg.multinomial(scores.softmax(0), 1)  # here
    (action.float() * parameter(1.0)).sum().backward()
    return scores


MISSINGS = [
    (detached, MISSING, "detach", "detach()"),
    (data_was_used, MISSING, "data", ".data"),
    (without_recording, MISSING, "linear", "without recording"),
    (decided_by_argmax, MISSING, "argmax", "int64"),
    (made_whole_numbers, MISSING, "long", "int64"),
    (compared, MISSING, "gt", "bool"),
    (read_as_a_number, MISSING, "sum", "nothing that backward() began at"),
    (through_numpy, MISSING, "detach", "detach()"),
    (never_used, MISSING, None, "has no gradient: no op has read it"),
    (overwritten, MISSING, "linear", "nothing that backward() began at"),
    (in_inference_mode, MISSING, "exp", "without recording"),
    (set_to_none, MISSING, "mul", "set to None since"),
    (target_network, MISSING, "detach", "detach()"),
    (sampled, MISSING, "softmax", "nothing that backward() began at"),
]


# --- gradients that are zero ------------------------------------------------------------------------------------------------


def dead_unit():
    layer = nn.Linear(2, 1)
    with dg.no_grad():
        layer.weight.fill_(-1.0)
        layer.bias.fill_(-5.0)
    y = layer(dg.ones(3, 2)).relu()  # here
    y.sum().backward()
    return layer.weight


def masked_away():
    w = parameter(1.0, 2.0)
    (w * dg.tensor([0.0, 0.0])).sum().backward()  # here
    return w


def clamped():
    w = parameter(5.0, 7.0)
    w.clamp(0, 1).sum().backward()  # here
    return w


def saturated_sigmoid():
    w = parameter(120.0, 150.0)
    w.sigmoid().sum().backward()  # here
    return w


def saturated_tanh():
    w = parameter(20.0, -30.0)
    (w.tanh() * 2).sum().backward()  # here
    return w


def rounded():
    w = parameter(0.3, 0.6)
    w.round().sum().backward()  # here
    return w


def of_its_sign():
    w = parameter(0.3, 0.6)
    w.sign().sum().backward()  # here
    return w


def other_side_of_where():
    w, b = parameter(-1.0), parameter(-2.0)
    dg.where(w > 0, w, b).sum().backward()  # here
    return w


def all_dropped():
    w = parameter(1.0, 2.0)
    F.dropout(w, 1.0).sum().backward()  # here
    return w


def softmax_of_one_class():
    w = parameter(0.5)
    w.view(1, 1).softmax(1).sum().backward()  # here
    return w


def loss_times_zero():
    w = parameter(0.5)
    (w.exp().sum() * 0.0).backward()  # here
    return w


def another_was_larger():
    w, b = parameter(1.0), parameter(2.0)
    dg.maximum(w, b).sum().backward()  # here
    return w


ZEROS = [
    (dead_unit, ZERO, "relu", "[-7, -7]"),
    (masked_away, ZERO, "mul", "[0, 0]"),
    (clamped, ZERO, "clamp", "[5, 7]"),
    (saturated_sigmoid, ZERO, "sigmoid", "[120, 150]"),
    (saturated_tanh, ZERO, "tanh", "[-30, 20]"),
    (rounded, ZERO, "round", "[0.3, 0.6]"),
    (of_its_sign, ZERO, "sign", "[0.3, 0.6]"),
    (other_side_of_where, ZERO, "where", "condition = False"),
    (all_dropped, ZERO, "dropout", "p=1.0"),
    (softmax_of_one_class, ZERO, "softmax", "= 0.5"),
    (loss_times_zero, ZERO, "mul", "0.0"),
    (another_was_larger, ZERO, "maximum", "= 2"),
]


# --- sizes ------------------------------------------------------------------------------------------------------------------


def column_minus_row():
    prediction, target = dg.ones(8, 1), dg.ones(8)
    return (prediction - target).square(), 0  # here


def joined():
    x, y = dg.ones(4, 3), dg.ones(4, 5)
    z = dg.cat([x, y], 1)  # here
    return z * 2, 1


def reshaped():
    x = dg.ones(4, 6)
    z = x.reshape(3, 8)  # here
    return z.exp(), 1


def convolved():
    x = dg.ones(1, 3, 11, 11)
    z = F.conv2d(x, dg.ones(2, 3, 3, 3), stride=2)  # here
    return F.relu(z), 3


def flattened():
    x = dg.ones(2, 3, 7, 7)
    z = x.flatten(1)  # here
    return z + 1, 1


def pooled():
    x = dg.ones(1, 3, 10, 10)
    return F.max_pool2d(x, 3).relu(), 2  # here


def stacked():
    rows = [dg.ones(3) for _ in range(7)]
    return dg.stack(rows).mean(1, keepdim=True), 0  # here


def picked():
    x = dg.arange(10.0)
    y = x[2:8]  # here
    return y.square(), 0


SIZES = [
    (column_minus_row, DIM, "sub", "(8, 1)"),
    (joined, DIM, "cat", "(4, 5)"),
    (reshaped, DIM, "reshape", "(4, 6)"),
    (convolved, DIM, "conv2d", "(1, 3, 11, 11)"),
    (flattened, DIM, "flatten", "(2, 3, 7, 7)"),
    (pooled, DIM, "max_pool2d", "(1, 3, 10, 10)"),
    (stacked, DIM, "stack", "7"),
    (picked, DIM, "getitem", "(10)"),
]

ROWS = [*VALUES, *GRADIENTS, *MISSINGS, *ZEROS, *SIZES]
