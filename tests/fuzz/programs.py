"""Random programs over one example, as text that PyTorch and dynograd both run: `program(T, x, w)`.

`x` is (n, d), `w` a dict of weights; a program names dims from the end, so that the same text runs for a row, for ragged rows, for a batch of equal rows
and under `vmap`. Values stay small: what grows is squashed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

D = 6
WEIGHTS = {"a": (D, D), "b": (D,), "c": (D, 3), "e": (3, D)}

ELEMENTWISE = [
    "T.tanh({v})",
    "{v}.sigmoid()",
    "{v}.sin()",
    "{v}.cos() * 0.5",
    "{v}.abs()",
    "T.relu({v})",
    "T.nn.functional.gelu({v})",
    "T.nn.functional.softplus({v})",
    "T.nn.functional.silu({v})",
    "T.nn.functional.elu({v})",
    "{v}.square().tanh()",
    "{v}.clamp(-0.7, 0.6)",
    "({v}.abs() + 0.5).sqrt()",
    "({v}.abs() + 0.5).log()",
    "({v} * 0.3).exp()",
    "T.atan({v})",
    "{v} * 0.5 - 0.25",
    "1 / (1.5 + {v}.abs())",
    "-{v}",
    "{v}.erf()",
    "T.nn.functional.logsigmoid({v})",
    "T.nn.functional.leaky_relu({v}, 0.1)",
]
PAIRS = [
    "{v} + {u}",
    "{v} - {u}",
    "({v} * {u}).tanh()",
    "{v} / (1 + {u}.abs())",
    "T.maximum({v}, {u})",
    "T.minimum({v}, {u})",
    "T.where({v} > {u}, {v}, {u} * 0.5)",
    "T.where({v} > 0, {u}, {v})",
    "T.lerp({v}, {u}, 0.3)",
    "{v}.detach() * 0.1 + {u}",
]
OVER_FEATURES = [  # (n, d) -> (n, d)
    "{v}.softmax(-1)",
    "{v}.log_softmax(-1).clamp(-6, 0)",
    "T.nn.functional.layer_norm({v}, ({d},))",
    "{v} - {v}.mean(-1, keepdim=True)",
    "{v} / (1 + {v}.abs().sum(-1, keepdim=True))",
    "{v} + {v}.amax(-1, keepdim=True)",
    "{v} * {v}.logsumexp(-1, keepdim=True).tanh()",
    "{v}.flip(-1)",
    "T.cat([{v}[..., 2:], {v}[..., :2]], -1)",
    "T.nn.functional.normalize({v}, dim=-1)",
]
OVER_ROWS = [  # the length counts
    "{v} - {v}.mean(-2, keepdim=True)",
    "{v} / (1 + {v}.abs().sum(-2, keepdim=True))",
    "{v} + {v}.amax(-2, keepdim=True)",
    "{v}.softmax(-2)",
    "({v}.cumsum(-2) * 0.2).tanh()",
]
PRODUCTS = [
    "({v} @ w['a']).tanh()",
    "T.nn.functional.linear({v}, w['a'], w['b']).sigmoid()",
    "(({v} @ w['c']).relu() @ w['e']).tanh()",
    "{v} * w['b']",
    "{v} + w['b']",
]
IN_PLACE = [
    "t.mul_(0.5)",
    "t.add_({u})",
    "t.tanh_()",
    "t.clamp_(-0.5, 0.5)",
    "t[..., 0] = 0.25",
    "t[..., 1:3] *= 0.5",
    "t.sub_({u} * 0.1)",
    "t.sigmoid_()",
]
ENDS = [
    "{v}.sum(-1).mean(-1)",
    "{v}.mean(-2).square().sum(-1)",
    "{v}.sum((-2, -1)) * 0.1",
    "{v}.logsumexp(-1).mean(-1)",
]


@dataclass
class Program:
    """A program and what may run it."""

    seed: int
    text: str
    writes: bool

    def function(self):
        """The function, as a new object."""
        names: dict = {}
        exec(compile(self.text, f"<program {self.seed}>", "exec"), names)
        return names["program"]


def make(seed: int) -> Program:
    """The program of a seed."""
    draw = random.Random(seed)
    lines = ["def program(T, x, w):", "    v0 = x"]
    count, writes = 1, False
    for _ in range(draw.randint(2, 12)):
        v, u = f"v{draw.randrange(max(0, count - 4), count)}", f"v{draw.randrange(count)}"
        kind = draw.choices("eprlmi", [5, 4, 3, 2, 2, 1])[0]
        if kind == "i":
            writes = True
            lines.append(f"    t = {v} * 1.0")
            lines += [f"    {draw.choice(IN_PLACE).format(u=u)}" for _ in range(draw.randint(1, 2))]
            lines.append(f"    v{count} = t")
        else:
            forms = dict(e=ELEMENTWISE, p=PAIRS, r=OVER_FEATURES, l=OVER_ROWS, m=PRODUCTS)[kind]
            lines.append(f"    v{count} = {draw.choice(forms).format(v=v, u=u, d=D)}")
        count += 1
    lines.append(f"    return {draw.choice(ENDS).format(v=f'v{count - 1}')}")
    return Program(seed, "\n".join(lines) + "\n", writes)
