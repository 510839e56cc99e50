"""Programs by chance: lines of Python for one seed, which run as they are written and compiled, side by side.

A program is a list of blocks, each a line with what stands indented below it. So it can be shortened: lines are left out for as long as
the two runs still differ.
"""

from __future__ import annotations

import random
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy

import dynograd as torch
from dynograd import nn
from dynograd.plans.compiling import Compiled
from tests.plans.twins import difference, outcome_of, overwritten_between_steps, seen

__all__ = ["Block", "Program", "Result", "compare", "program_of", "shortened"]

STEPS = 12
WIDTH = 4
# Calm programs have none of these, so that most of their steps go along a record.
WILD = tuple(
    """inplace=|_( | n)|(n |register_hook|retain_grad|own(|checkpoint(|inner(|vmap(|inference_mode|n]|bfloat16|.data|*=|+=|] = |_version|data_ptr|.grad|scale|randperm
    |create_graph|autograd.grad|closure|q.|scaler|randn|raise|no_such_thing|ones(3)|return|tensor([9])|y + 9|requires_grad_(|n %|weight_norm|spectral_norm
    |kept.append|given|seed|rand(|bernoulli|dropout|out={|k)|grad_fn|numbers|n > 5|x[:2]|range(|while|state.clear|load_state|add_param|kept|holder|(n)|clip_|_(
    |retain_graph|set_to_none|second""".replace("\n    ", "").split("|")
)
NEVER = "inplace= | retain_grad | register_hook | inference_mode | return | raise".split(" | ")


@dataclass
class Block:
    """A line, and those below it."""

    line: str
    below: list[Block] = field(default_factory=list)

    def text(self, depth: int) -> str:
        inner = [block.text(depth + 1) for block in self.below]
        if self.line.endswith(":") and not inner:
            inner = ["    " * (depth + 1) + "pass"]
        return "\n".join([textwrap.indent(self.line, "    " * depth), *inner])


FORMS = (
    ["    def step(n, x, y, scale):"],
    ["    def step(batch, scale):", "        n, x, y = batch['n'], batch['x'], batch['y']"],
    ["    def step(n, pack, scale=1.0):", "        x, y = pack.first, pack.second"],
    ["    def step(n, *parts):", "        (x, y), scale = parts"],
)
CALLS = (
    "step",
    "lambda n, x, y, scale: step({'x': x, 'y': y, 'n': n}, scale)",
    "lambda n, x, y, scale: step(n, Pack(x, y), scale=scale)",
    "lambda n, x, y, scale: step(n, [x, y], scale)",
)


@dataclass
class Program:
    """`setup` makes parameters and the like; `step` is compiled; `between` runs after each step, with `given` what the step gave.

    `form` is how the step gets its arguments: one by one, or within objects.
    """

    setup: list[Block]
    step: list[Block]
    between: list[Block]
    form: int = 0

    def text(self) -> str:
        parts = [
            "def make(compile):",
            "    torch.manual_seed(0)",
            *[block.text(1) for block in self.setup],
            "    @compile",
            *FORMS[self.form],
            *[block.text(2) for block in self.step],
            "        pass",
            "    def between(n, given):",
            *[block.text(2) for block in self.between],
            "        pass",
            f"    return {CALLS[self.form]}, between, locals()",
        ]
        return "\n".join(parts) + "\n"


# --- by chance ---------------------------------------------------------------------------------------------------------------

# Shapes: B is the size of the batch, which changes.
FULL, ROW, COLUMN, SINGLE, SQUARE = ("B", WIDTH), (WIDTH,), ("B",), (), (WIDTH, WIDTH)
POINTWISE = """
torch.relu({a}) | torch.tanh({a}) | torch.sigmoid({a}) | {a} * 2.5 | {a} + 1 | 1 - {a} | {a} / 3 | {a} ** 2 | -{a} | {a}.abs() | {a}.clone()
F.softplus({a}) | F.gelu({a}) | F.silu({a}) | {a}.clamp(-1, 1) | {a}.clamp(max=2.0).exp() | ({a}.abs() + 1).sqrt() | ({a}.abs() + 0.1).log()
F.leaky_relu({a}, 0.2) | {a}.sin() | torch.erf({a}) | {a}.sign() * {a} | {a}.double().float() | {a}.half().float() | {a} * True | {a}.round()
F.dropout({a}, 0.3) | F.dropout({a}, 0.5, training=n % 2 == 0) | {a} * scale | {a} * (0.1 * n) | {a} * holder.factor | {a} + torch.randn_like({a})
{a} + torch.rand({a}.shape) * 0.1 | {a}.detach() | {a}.contiguous() | {a} * 1 | {a}.nan_to_num() | torch.where({a} > 0, {a}, 0.1) | {a}.reciprocal()
{a}.masked_fill({a} > 1, 0.5) | {a} * torch.tensor(0.5) | {a} + numbers[n % 3] | {a} * torch.full((), 1.5) | torch.nn.functional.normalize({a}, dim=0)
{a} * {a} | {a} + {a} | {a}.data * 1.5 | {a}.requires_grad_(False) if not {a}.requires_grad else {a} | torch.bernoulli({a}.sigmoid().detach())
{a} + torch.zeros_like({a}) | {a}.float() | {a}.to(torch.float32) | {a} - {a}.mean() | {a} / ({a}.norm() + 1) | checkpoint(torch.tanh, {a}, use_reentrant=False)
{a}.bfloat16().float() | F.softmax({a}, 0) | F.log_softmax({a}, 0) | {a}.cumsum(0) | {a}.flip(0) | {a}.roll(1, 0) | {a}.sort(0).values | inner({a})
torch.clip({a}, min=-0.5) | {a}.relu_() if n < 0 else {a}.relu() | vmap(lambda r: r.tanh())({a}) if {a}.dim() else {a} | own({a}) | {a}.view_as({a})
"""
BINARY = """
{a} + {b} | {a} - {b} | {a} * {b} | {a} / ({b}.abs() + 1) | torch.maximum({a}, {b}) | torch.where({a} > {b}, {a}, {b}) | torch.lerp({a}, {b}, 0.3)
torch.addcmul({a}, {b}, {b}, value=0.5) | torch.stack([{a}, {b}]).sum(0) | torch.stack([{a}, {b}])[1] | {a} * ({b} > 0) | torch.add({a}, {b}, alpha=0.1)
({a} + {b}).detach() | torch.hypot({a}, {b} + 3) | {a}.copysign({b}) | sum([{a}, {b}, {a}]) | torch.cat([{a}.reshape(-1), {b}.reshape(-1)]).reshape(2, *{a}.shape)[0]
{a} - {b}.detach() | {a} * {b}.sigmoid() | torch.min({a}, {b})
"""
# (shape, shape of the result): expressions
FROM_TO = {
    (
        FULL,
        SINGLE,
    ): "{a}.sum() | {a}.mean() | {a}.norm() | {a}[0, 1] | {a}.abs().max() | {a}.std() | {a}.logsumexp((0, 1)) | F.mse_loss({a}, x)"
    " | F.cross_entropy({a}, y) | {a}.pow(2).mean() | {a}.flatten()[-1] | {a}.diagonal().sum() | F.smooth_l1_loss({a}, x) | {a}.max()",
    (
        FULL,
        ROW,
    ): "{a}.sum(0) | {a}.mean(0) | {a}[0] | {a}[-1] | {a}.max(0).values | {a}.amax(0) | {a}.unbind()[0] | {a}.select(0, 1) | {a}.t()[:, 0]"
    " | {a}.logsumexp(0) | {a}[n % 2] | {a}.median(0).values",
    (
        FULL,
        COLUMN,
    ): "{a}.sum(-1) | {a}.mean(1) | {a}[:, 0] | {a}[:, n % 3] | {a}.argmax(-1).float() | {a}.select(1, 2) | {a}.gather(1, y[:, None])[:, 0]"
    " | {a}.norm(dim=1) | {a}.max(1)[0] | {a}.chunk(2, 1)[1].sum(1) | {a}.unbind(1)[3] | F.cross_entropy({a}, y, reduction='none')",
    (
        FULL,
        FULL,
    ): "m0({a}) | m1({a}) | {a} @ w | F.linear({a}, w, p) | {a}.t().contiguous().t() | {a}.reshape(-1).view(-1, 4) | {a}.softmax(-1)"
    " | {a}[torch.randperm({a}.shape[0])] | {a}.flip(1) | {a}[:, [3, 1, 2, 0]] | torch.cat([{a}[:, :2], {a}[:, 2:]], 1) | {a} + p | {a} * p"
    " | F.layer_norm({a}, (4,), p) | {a}.sort(1).values | {a}.cumsum(1) | m2({a}) | {a} * {a}.sum(1, keepdim=True) | {a}.unsqueeze(1).expand(-1, 2, -1)[:, 1]"
    " | torch.einsum('bi,ij->bj', {a}, w) | {a}.view(-1, 2, 2).transpose(1, 2).reshape(-1, 4) | {a} + buffer | {a}.index_select(0, y.clamp(max={a}.shape[0] - 1))"
    " | {a}.split(2, 1)[0].repeat(1, 2) | m0(m0({a})) | {a}.narrow(1, 0, 4) | F.pad({a}, (1, 0))[:, :4] | F.embedding(y, w) + {a} | {a}.T.T | torch.atleast_2d({a})",
    (
        ROW,
        FULL,
    ): "{a} + x | {a}.expand(x.shape) | x * {a} | torch.outer(x[:, 0], {a}) | {a}.unsqueeze(0).repeat(x.shape[0], 1)",
    (
        COLUMN,
        FULL,
    ): "{a}[:, None] * x | {a}.unsqueeze(1).expand(-1, 4) | {a}[:, None] + torch.zeros(4) | torch.outer({a}, p)",
    (COLUMN, SINGLE): "{a}.sum() | {a}.mean() | {a}[0] | {a}.max() | {a}.dot({a})",
    (ROW, SINGLE): "{a}.sum() | {a}[2] | {a}.mean() | {a} @ p | {a}.prod() | {a}.norm()",
    (ROW, SQUARE): "{a} + w | {a}.expand(4, 4) | torch.outer({a}, p) | torch.diag({a}) | {a}[:, None] * w",
    (SQUARE, ROW): "{a}[1] | {a}.sum(1) | {a} @ p | {a}.diagonal() | {a}.t()[2]",
    (SINGLE, ROW): "{a} * p | {a}.expand(4) | {a} + buffer | torch.stack([{a}] * 4)",
    (SINGLE, FULL): "{a} * x | {a} + x | {a}.expand(x.shape)",
    (SQUARE, FULL): "x @ {a} | F.linear(x, {a}) | {a}[y]",
}
IN_PLACE = """
{a}.mul_(0.5) | {a} += 1 | {a} *= {b} | {a}.add_({b}, alpha=0.1) | {a}.clamp_(max=1) | {a}.copy_({b}) | {a}[0] = 0.0 | {a}[0] += 1 | {a}.zero_()
{a}.relu_() | {a}.neg_() | {a}.masked_fill_({a} > 1, 0.5) | {a}.add_(n) | {a}[:1].mul_(2) | {a}.fill_(0.3) | {a}.normal_() | {a}.data.mul_(2)
F.relu({a}, inplace=True) | torch.add({a}, 1, out={a}) | {a}[..., 1] = {b}[..., 0] | {a}.sub_({b}.detach()) | {a}.uniform_() | {a}.t_() if {a}.dim() == 9 else None
"""
# Writes that are recorded, and some beside them that are not: for programs of which many lines write in place.
WRITES = """
{a}.mul_(0.5) | {a} += 1 | {a} += {b} | {a} *= {b} | {a} -= {b} * 0.1 | {a}.add_({b}, alpha=0.1) | {a}.clamp_(max=1) | {a}.copy_({b}) | {a}.zero_()
{a}.relu_() | {a}.tanh_() | {a}.sigmoid_() | {a}.neg_() | {a}.abs_().add_(0.1).sqrt_() | {a}.masked_fill_({b} > 1, 0.5) | {a}.fill_(0.3) | {a}.div_({b}.abs() + 1)
F.relu({a}, inplace=True) | F.leaky_relu({a}, 0.2, inplace=True) | F.dropout({a}, 0.3, inplace=True) | F.silu({a}, inplace=True) | F.elu({a}, inplace=True)
{a}.add_({b}).mul_(0.5) | {a}.addcmul_({b}, {b}, value=0.1) | {a}.lerp_({b}, 0.3) | {a}.pow_(2) | {a}.sub_({b}.detach()) | {a}[...] = {b} | {a} += x.sum()
{a}[..., 0] = 0.5 | {a}[..., 1] = {b}[..., 0] | {a}[0] = {b}[0] | {a}[..., 1:3] = {b}[..., :2] * 2 | {a}[0] += 1 | {a}[:1].mul_(2) | {a}[..., -1] *= {b}[..., 0]
{a}.view(-1).mul_(0.5) | {a}.t().add_(1) | {a}.unsqueeze(0)[0] += {b} | {a}.detach().mul_(0.5) | {a}[..., :2].relu_() | {a}.exp_().log_() | {a}.data.mul_(2)
with torch.no_grad(): {a}.add_(1) | {a}.fill_({b}.sum().detach()) | {a}.normal_() | {a}.where({b} > 0, {b}).add_(1) | {a}[n % 3].add_(1) | {a}.add_(scale)
seen_numbers.append({a}._version) | seen_numbers.append({a}.tolist()) | seen_numbers.append({a}.sum().item()) | kept.append({a}) | kept.append({a}.detach()) | holder.tensor = {a}
if n % 3 == 0: {a}.mul_(0.5) | if n == 5: kept.append({a}) | if {a}.detach().sum() > 0: {a}.neg_() | if n == 6: seen_numbers.append({a}.detach().numpy())
"""
COPIED = "{a}.clone() | {a} * 1.5 | {a}.detach().clone() | {a}.clone().detach()"
CREATED = "torch.zeros_like({a}) | {a}.new_ones({a}.shape) | torch.full({a}.shape, 0.5) | torch.zeros({a}.shape) | torch.randn({a}.shape) | {a}.clone()"
ON_STATE = """
buffer.mul_(0.9).add_(x.mean(0), alpha=0.1) | buffer.add_(1) | counter.add_(1) | counter += 1 | buffer.copy_({row}.detach()) | buffer[1] = float(n)
buffer.data = buffer.data * 0.5 | buffer.numpy()[0] += 0.5 | numbers[n % 3].mul_(0.9) | w.data.mul_(0.99) | w.data = w.data.clone() | array[1] += 1
kept.append({any}) | kept.append({any}.detach()) | kept.append({any}.clone()) | holder.factor = 0.5 + n % 2 | holder.tensor = {any} | holder.tensor = {any}.detach()
p.grad = None | optimizer.zero_grad() | p.data.add_(0.01) | seen_numbers.append({any}.sum().item()) | seen_numbers.append(str({any}.detach()))
seen_numbers.append({any}.requires_grad) | seen_numbers.append({any}.is_leaf) | seen_numbers.append({any}._version) | seen_numbers.append({any}.grad_fn is None)
seen_numbers.append({any}.tolist()) | seen_numbers.append({any}.detach().numpy().copy()) | seen_numbers.append(list({any}.shape)) | seen_numbers.append({any}.stride())
{any}.register_hook(lambda g: g * 2) if {any}.requires_grad else None | {any}.retain_grad() if {any}.requires_grad else None | torch.manual_seed(n) | torch.rand(2)
m1.eval() if n % 4 == 3 else m1.train() | schedule.step() | with torch.no_grad(): p.mul_(0.9) | with torch.no_grad(): p.sub_({row}, alpha=0.01) | x.mul_(0.5) | x[0] = 1.0
x.requires_grad_() | seen_numbers.append({any}.data_ptr() == {any}.data_ptr()) | seen_numbers.append(torch.equal({any}, {any})) | kept.clear() | del kept[:-2]
"""
HEADS = """
if {single} > 0: | if {single}.item() > 0.5: | if n % 3 == 0: | for k in range(1 + n % 2): | for k in range(int({single}.abs().item()) % 3): | if x.shape[0] > 4:
with torch.no_grad(): | with torch.set_grad_enabled(n % 2 == 0): | with torch.enable_grad(): | if bool(({any} > 0).any()): | try: | with torch.inference_mode(): | for row in x[:2]:
if n > 5: | if {single} < {single2}: | with torch.autocast('cpu', torch.bfloat16): | if m1.training: | while {single} > 100: | for k in range(3):
"""
FAULTS = """
if n == 5: raise ValueError("five") | if n % 4 == 2: torch.ones(2) + torch.ones(3) | if n == 7: {any}.no_such_thing | if n == 4: F.embedding(torch.tensor([9]), w)
if n == 6: y = y + 9 | if n == 3: return {any}
"""
PASSES = [
    ["optimizer.zero_grad()", "{loss}.backward()", "optimizer.step()"],
    ["{loss}.backward()", "optimizer.step()", "optimizer.zero_grad()"],
    ["optimizer.zero_grad(set_to_none=False)", "{loss}.backward()", "optimizer.step()"],
    ["if n % 2 == 0: optimizer.zero_grad()", "{loss}.backward()", "if n % 2: optimizer.step()"],
    ["optimizer.zero_grad()", "{loss}.backward(retain_graph=True)", "{other}.backward()", "optimizer.step()"],
    ["optimizer.zero_grad()", "{loss}.backward()", "nn.utils.clip_grad_norm_(parameters, 1.0)", "optimizer.step()"],
    [
        "optimizer.zero_grad()",
        "{loss}.backward()",
        "norm = nn.utils.clip_grad_value_(parameters, 0.1)",
        "optimizer.step()",
        "schedule.step()",
    ],
    [
        "optimizer.zero_grad()",
        "{loss}.backward()",
        "second.step()",
        "second.zero_grad()",
        "{other}.backward()",
        "optimizer.step()",
    ],
    [
        "grads = torch.autograd.grad({loss}, [w, p], allow_unused=True)",
        "seen_numbers.append([g.sum().item() for g in grads if g is not None])",
    ],
    [
        "grads = torch.autograd.grad({loss}, [w, p], allow_unused=True, create_graph=True)",
        "({loss} + sum([g.pow(2).sum() for g in grads if g is not None])).backward()",
        "optimizer.step()",
    ],
    [
        "{loss}.backward()",
        "for q in parameters:\n    if q.grad is not None:\n        q.data.add_(q.grad, alpha=-0.01)\n        q.grad = None",
    ],
    [
        "{loss}.backward()",
        "with torch.no_grad():\n    for q in parameters:\n        if q.grad is not None:\n            q -= 0.01 * q.grad\n            q.grad.zero_()",
    ],
    [
        "{loss}.backward()",
        "seen_numbers.append([None if q.grad is None else q.grad.norm().item() for q in parameters])",
        "optimizer.step()",
    ],
    ["optimizer.zero_grad()", "{loss}.backward()", "kept.append(p.grad)", "optimizer.step()"],
    ["optimizer.zero_grad()", "({loss} * 0.5).backward()", "({other} * 0.5).backward()", "optimizer.step()"],
    [
        "if {loss}.requires_grad: {loss}.backward()",
        "p.grad = None if p.grad is None else p.grad * 0.5",
        "optimizer.step()",
    ],
    ["optimizer.zero_grad()", "{loss}.backward(torch.tensor(0.5))", "optimizer.step()"],
    [
        "def closure():\n    optimizer.zero_grad()\n    loss = F.mse_loss(m0(x), x * 0)\n    loss.backward()\n    return loss",
        "optimizer.step(closure)",
    ],
    ["scaler.scale({loss}).backward()", "scaler.step(optimizer)", "scaler.update()", "optimizer.zero_grad()"],
]
BETWEEN = """
optimizer.zero_grad() | schedule.step() | m1.train(n % 3 != 1) | optimizer.param_groups[0]['lr'] *= 0.9 | holder.factor = 1.0 + n | p.data.mul_(0.95)
p.requires_grad_(n % 3 != 0) | kept.clear() if n % 4 == 3 else None | buffer.zero_() | w.data = w.data.clone() if n % 4 == 2 else w.data | torch.rand(3)
flat(given)[0].add_(1) if flat(given) and not flat(given)[0].requires_grad else None | flat(given)[-1].sum().backward() if flat(given) and flat(given)[-1].requires_grad else None
flat(given)[-1].detach().mul_(3) if flat(given) else None | p.grad = None | kept.append(given) | hooks.append(p.register_hook(lambda g: g * 0.5)) if n == 3 else None
hooks.pop().remove() if hooks and n == 6 else None | with torch.no_grad(): w.mul_(0.9) | hooks.append(m0.register_forward_hook(lambda m, a, out: out * 1.5)) if n == 4 else None
m0.weight = nn.Parameter(m0.weight.detach() * 0.9) if n == 5 else None | m0.scale = 2.0 | optimizer.state.clear() if n == 6 else None | array[0] += 1 | numbers[0] = numbers[0] * 1.1
w.grad = torch.ones(4, 4) if n % 5 == 4 else w.grad | optimizer.step() if n % 3 == 0 else None | m1.half().float() if n == 5 else None | p.data = p.data.flip(0) if n == 7 else p.data
optimizer.add_param_group({'params': [extra]}) if n == 4 else None | hooks.append(p.register_post_accumulate_grad_hook(lambda q: q.grad.mul_(0.5))) if n == 2 else None
optimizer.load_state_dict(optimizer.state_dict()) if n == 6 else None | m0.load_state_dict({k: v * 0.5 for k, v in m0.state_dict().items()}) if n == 6 else None
torch.set_num_threads(1 + n % 2) | sum([t.float().sum() for t in flat(given)]) | holder.tensor = given | torch.set_default_dtype(torch.float32) | m0.bias.requires_grad_(n % 4 != 1)
"""


def listed(text: str) -> list[str]:
    return [one.strip() for line in text.strip().splitlines() for one in line.split(" | ") if one.strip()]


class Maker:
    """Draws a program."""

    pointwise, binary, from_to, in_place, on_state = POINTWISE, BINARY, FROM_TO, IN_PLACE, ON_STATE
    heads, faults, passes, between, unwalked = HEADS, FAULTS, PASSES, BETWEEN, WILD

    def __init__(self, seed: int, writes: bool = False, creates: bool = False) -> None:
        self.writes = writes  # in place, in many lines
        self.news = CREATED if creates else COPIED  # what is written into
        self.rng = random.Random(seed)
        self.calm = seed % 4 != 1
        # A few of the wild things, apart from writes into what the step has made.
        wild = self.unwalked
        self.wild = [word for word in wild if word not in self.rng.sample(wild, 8 * (seed % 4 > 1)) or word in NEVER]
        self.names: list[tuple[str, tuple]] = []
        self.own: set[str] = set()  # may be written in place
        self.count = 0
        self.earlier: list[tuple[str, tuple]] = []
        self.form, self.learns = 0, writes

    def choice(self, text: str | list[str]) -> str:
        choices = listed(text) if isinstance(text, str) else text
        if self.calm:
            calm = [one for one in choices if not any([word in one for word in self.wild])]
            if calm and self.rng.random() < 0.995:
                choices = calm
        return self.rng.choice(choices)

    def program(self) -> Program:
        rng = self.rng
        setup = self._setup()
        self.names = [("x", FULL), ("w", SQUARE), ("p", ROW), ("buffer", ROW)]
        step: list[Block] = []
        if rng.random() < 0.9:
            step += self._forward("m0(x)", FULL)
        for _ in range(rng.randint(2, 22)):
            step += self._statement(0)
        passes = rng.choices([0, 1, 2], [2, 7, 2])[0]
        for _ in range(passes):
            step += self._pass()
            if self.calm:  # what was differentiated is not differentiated again
                self.earlier, self.names = self.names, [("x", FULL), ("w", SQUARE), ("p", ROW), ("buffer", ROW)]
                step += self._forward("m0(x)", FULL)
            for _ in range(rng.randint(0, 3)):
                step += self._statement(0)
        self.names = self.earlier + self.names
        step.append(Block(self._return()))
        between = [Block(self._filled(self.choice(self.between))) for _ in range(rng.choice([0, 0, 1, 2, 3]))]
        return Program(setup, step, between, self.form)

    def _setup(self) -> list[Block]:
        rng = self.rng
        modules = [
            "nn.Linear(4, 4)",
            "nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4))",
            "nn.Sequential(nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4), nn.Tanh())",
            "nn.Sequential(nn.LayerNorm(4), nn.Dropout(0.3))",
            "nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU(inplace=True), nn.Dropout(0.2))",
            "nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))",
            "nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))",
        ]
        optimizers = [
            "torch.optim.SGD({}, lr=0.05)",
            "torch.optim.SGD({}, lr=0.05, momentum=0.9)",
            "torch.optim.Adam({}, lr=0.01)",
            "torch.optim.AdamW({}, lr=0.01)",
            "torch.optim.RMSprop({}, lr=0.01)",
            "torch.optim.Adagrad({}, lr=0.05)",
            "torch.optim.SGD({}, lr=0.05, weight_decay=0.01, nesterov=True, momentum=0.5)",
            "torch.optim.Adam({}, lr=0.01, foreach=False)",
        ]
        m0, m1 = self.choice(modules), modules[4] if self.writes else self.choice(modules)
        lines = [
            f"m0 = {m0}",
            f"m1 = {m1}",
            f"m2 = {rng.choice(['m0', 'm1', 'nn.Linear(4, 4)', 'nn.Identity()', 'nn.GELU()'])}",
            "w = nn.Parameter(torch.randn(4, 4) * 0.5)",
            "p = nn.Parameter(torch.ones(4))",
            "extra = nn.Parameter(torch.ones(3))",
            "buffer = torch.zeros(4)",
            "counter = torch.tensor(0)",
            "numbers = [torch.tensor(0.5), torch.tensor(-1.0), torch.tensor(2.0)]",
            "array = numpy.arange(4.0).astype('float32')",
            "from_array = torch.from_numpy(array)",
            "kept, seen_numbers, hooks = [], [], []",
            "class Holder: factor, tensor = 1.5, None",
            "holder = Holder()",
            "parameters = [w, p, *m0.parameters(), *m1.parameters()]",
            f"optimizer = {rng.choice(optimizers).format('parameters')}",
            f"second = {rng.choice(optimizers).format('[w]')}",
            "schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)",
            "scaler = torch.amp.GradScaler('cpu', init_scale=4.0)",
            rng.choice(["inner = compile(lambda a: (a * 2).tanh())", "inner = lambda a: (a * 2).tanh()"]),
            f"own = {rng.choice(['Doubled', 'Kept', 'Masked', 'Pair'])}.apply",
        ]
        return [Block(line) for line in lines]

    def _new(self, shape: tuple, mine: bool = True) -> str:
        name = f"v{self.count}"
        self.count += 1
        self.names.append((name, shape))
        if mine:
            self.own.add(name)
        return name

    def _forward(self, expression: str, shape: tuple) -> list[Block]:
        return [Block(f"{self._new(shape)} = {expression}")]

    def _pick(self, *shapes: tuple) -> tuple[str, tuple]:
        """A tensor of one of these shapes (of any, if none is named), rather a late one."""
        having = [pair for pair in self.names if not shapes or pair[1] in shapes]
        if not having:
            return {SINGLE: ("x.sum()", SINGLE), COLUMN: ("x[:, 1]", COLUMN)}[shapes[0]]
        return having[-1 - min(int(self.rng.expovariate(0.5)), len(having) - 1)]

    def _filled(self, line: str) -> str:
        singles = self._pick(SINGLE)[0], self._pick(SINGLE)[0]
        for word, value in {
            "{single}": singles[0],
            "{single2}": singles[1],
            "{row}": self._pick(ROW)[0],
            "{any}": self._pick()[0],
        }.items():
            line = line.replace(word, value)
        return line

    def _statement(self, depth: int) -> list[Block]:
        rng = self.rng
        kind = rng.choices(
            ["pointwise", "binary", "change", "in place", "state", "block", "fault", "rebind", "list"],
            [10, 7, 14, 3, 6, 3 if depth < 2 else 0, 0.5, 3, 1]
            if not self.calm
            else [10, 7, 14, 15 if self.writes else 0.02, 2, 1 if depth < 2 else 0, 0, 1, 0],
        )[0]
        if kind == "pointwise":
            a, shape = self._pick()
            return self._forward(self.choice(self.pointwise).format(a=a), shape)
        if kind == "binary":
            a, shape = self._pick()
            b, _ = self._pick(shape)
            return self._forward(self.choice(self.binary).format(a=a, b=b), shape)
        if kind == "change":
            a, shape = self._pick()
            start, end = rng.choice([pair for pair in self.from_to if pair[0] == shape])
            return self._forward(self.choice(self.from_to[start, end]).format(a=a), end)
        if kind == "rebind":  # an older name gets a new tensor
            a, shape = self._pick()
            if a in self.own:
                return [Block(f"{a} = {self.choice(self.pointwise).format(a=a)}")]
            return []
        if kind == "in place":
            a, shape = self._pick()
            b, _ = self._pick(shape)
            blocks = []
            if rng.random() < 0.5 or a not in self.own:
                name = self._new(shape)
                blocks.append(Block(f"{name} = {rng.choice(listed(self.news)).format(a=a)}"))
                a = name
            line = rng.choice(listed(WRITES)) if self.writes else self.choice(self.in_place)
            head, colon, below = line.format(a=a, b=b).partition(": ")
            return [*blocks, Block(f"{head}:", [Block(below)]) if colon else Block(head)]
        if kind == "state":
            return [Block(self._filled(self.choice(self.on_state)))]
        if kind == "fault":
            return [Block(self._filled(self.choice(self.faults)))]
        if kind == "list":
            pairs = [self._pick() for _ in range(3)]
            names = ", ".join([name for name, _ in pairs])
            return [
                Block(f"together = [{names}]"),
                Block("kept.append(together)" if rng.random() < 0.3 else "together.reverse()"),
            ]
        head = self._filled(self.choice(self.heads))
        before, own = list(self.names), set(self.own)
        below = [block for _ in range(rng.randint(1, 4)) for block in self._statement(depth + 1)]
        if head.startswith("while"):
            below.append(Block("break"))
        inside = self.names[len(before) :]
        self.names, self.own = before, own
        # What the block makes is there afterwards, whichever way was gone.
        lead = []
        if inside and not head.startswith(("with", "try")):
            name, shape = rng.choice(inside)
            source = self._pick(shape)[0]
            lead.append(Block(f"{name} = {source}"))
            self.names.append((name, shape))
        elif inside and head.startswith("with"):
            self.names.append(rng.choice(inside))
        blocks = [*lead, Block(head, below)]
        if head == "try:":
            blocks.append(
                Block("except (ValueError, RuntimeError, AttributeError, IndexError): seen_numbers.append('raised')")
            )
        elif head.startswith("if") and rng.random() < 0.3:
            blocks.append(Block("else:", [block for _ in range(rng.randint(1, 2)) for block in self._apart(depth)]))
        return blocks

    def _apart(self, depth: int) -> list[Block]:
        before, own = list(self.names), set(self.own)
        blocks = self._statement(depth + 1)
        self.names, self.own = before, own
        return blocks

    def _pass(self) -> list[Block]:
        rng = self.rng
        blocks = []
        names = []
        for _ in range(2):
            a, _shape = self._pick(FULL, ROW, COLUMN, SINGLE)
            terms = [f"{a}.float().pow(2).mean()" if rng.random() < 0.7 else f"{a}.float().sum()"]
            if rng.random() < 0.5:
                terms.append(f"{self._pick(FULL, ROW)[0]}.float().mean()")
            if rng.random() < 0.5 or self.learns:  # such a pass has something to differentiate
                terms.append("F.cross_entropy(m0(x), y)")
            if rng.random() < 0.3:
                terms.append("(p * p).sum()")
            name = self._new(SINGLE)
            names.append(name)
            blocks.append(Block(f"{name} = {' + '.join(terms)}"))
        passes = [
            one for one in self.passes if not self.calm or not any([word in line for word in self.wild for line in one])
        ]
        for line in rng.choice(passes):
            blocks.append(Block(line.format(loss=names[0], other=names[1])))
        return blocks

    def _return(self) -> str:
        rng = self.rng
        names = [self._pick()[0] for _ in range(rng.randint(0, 4))]
        if not names:
            return "return None"
        if len(names) == 1:
            return f"return {names[0]}{rng.choice(['', '', '.item() if ' + names[0] + '.numel() == 1 else None', '.detach()'])}"
        form = rng.choice(["[{}]", "({})", "dict(a={})", "[{}, None, 3]"])
        if form.startswith("dict"):
            return f"return dict({', '.join([f'k{k}={name}' for k, name in enumerate(names)])})"
        return f"return {form.format(', '.join(names))}"


def program_of(seed: int, writes: bool = False, creates: bool = False, make: type[Maker] = Maker) -> Program:
    """Args:
    writes: it writes in place in many lines.
    creates: also into tensors that creation functions make.
    make: draws it.
    """
    return make(seed, writes, creates).program()


# --- side by side ------------------------------------------------------------------------------------------------------------


class Doubled(torch.autograd.Function):
    """A function with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        return a * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


class Kept(torch.autograd.Function):
    """Saves its result, and has an attribute of its context."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        result = a.tanh()
        ctx.save_for_backward(result)
        ctx.large = a > 0
        return result

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (result,) = ctx.saved_tensors
        return g * (1 - result * result) + 0.1 * ctx.large


class Masked(torch.autograd.Function):
    """Gives its argument itself, and writes in place in backward."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(a)
        return a

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (a,) = ctx.saved_tensors
        result = g.clone()
        result[a < -0.5] = 0
        return result


class _Pair(torch.autograd.Function):
    """Two results."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        ctx.save_for_backward(a)
        return a * 0.5, a.sin()

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return 0.5 * first + second * ctx.saved_tensors[0].cos()


class Pair:
    """The sum of two results, or the second one alone."""

    @staticmethod
    def apply(a: Any) -> Any:
        first, second = _Pair.apply(a)
        return first + second if a.ndim else second


@dataclass
class Pack:
    """Two values."""

    first: Any
    second: Any


class Running(nn.Module):
    """Takes a running mean off, which it writes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, a: Any) -> Any:
        if self.training:
            self.mean.mul_(0.9).add_(a.detach().mean(0), alpha=0.1)
        return a - self.mean


def ragged(a: Any, n: int) -> Any:
    """Rows of other lengths in each step: what each has less its own mean."""
    first = n % (a.shape[0] + 1)
    rows = torch.RaggedTensor(a, lengths=[first, a.shape[0] - first])
    return (rows - rows.mean(1, keepdim=True)).values()


def flat(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value] if value.dtype is torch.float32 else []
    if isinstance(value, Pack):
        value = [value.first, value.second]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for one in value for tensor in flat(one)] if isinstance(value, (list, tuple)) else []


SPACE = dict(
    torch=torch,
    nn=nn,
    F=nn.functional,
    numpy=numpy,
    checkpoint=torch.utils.checkpoint.checkpoint,
    vmap=torch.func.vmap,
    Pack=Pack,
    Running=Running,
    ragged=ragged,
    Doubled=Doubled,
    Kept=Kept,
    Masked=Masked,
    Pair=Pair,
    flat=flat,
)


@dataclass
class Result:
    """Where the two runs differed ("" where they did not), and what became of the compiled one's calls."""

    difference: str
    walked: int
    calls: int
    report: str
    replayed: int


class Twin:
    """One of the two runs."""

    def __init__(self, code: Any, compile: Callable[[Any], Any], keeps: bool, alike: int = 1) -> None:
        space = dict(SPACE)
        exec(code, space)
        self.step, self.between, self.all = space["make"](compile)
        self.random = torch.get_rng_state()
        self.alike = alike  # so many calls have the same numbers among their arguments
        self.kept: list[Any] = []
        self.keeps = keeps  # also what is still to be differentiated: no later step goes along a record then

    def run(self, n: int, size: int) -> Any:
        torch.set_rng_state(self.random)
        generator = numpy.random.default_rng([n, size])
        x = torch.from_numpy(generator.standard_normal((size, WIDTH)).astype("float32"))
        y = torch.from_numpy(generator.integers(0, WIDTH, size))
        number = n // self.alike
        scale = 0.5 if number % 3 else 1.0 + number
        grad = torch.is_grad_enabled()
        outcome = outcome_of(lambda: self.step(number, x, y, scale))
        if self.keeps or not any([tensor.requires_grad for tensor in flat(outcome.value)]):
            self.kept.append(outcome.value)
        found = [outcome.seen(), seen(x), self.state(), torch.is_grad_enabled() == grad]
        torch.set_grad_enabled(grad)
        after = outcome_of(lambda: self.between(n, outcome.value))
        found += [after.seen(), self.state()]
        torch.set_num_threads(2)
        torch.set_default_dtype(torch.float32)
        self.random = torch.get_rng_state()
        return [*found, seen(self.random)]

    def state(self) -> Any:
        names = "m0 m1 m2 w p extra buffer counter numbers array optimizer second seen_numbers kept"
        names += " conv gru cell attend block words running bank queue average third"
        holder = self.all.get("holder")
        return [
            seen({name: self.all[name] for name in names.split() if name in self.all}),
            seen(None if holder is None else [holder.factor, holder.tensor]),
            seen(self.kept),
        ]


def compare(
    text: str,
    tolerance: float = 0.0,
    exact: bool = False,
    steps: int = STEPS,
    sizes: Sequence[int] = (),
    replay: bool = False,
) -> Result:
    """Runs a program's text as it is written and compiled, on batches of these sizes; else of sizes that the text decides."""
    made: list[Compiled] = []

    def compiling(function: Any) -> Any:
        made.append(Compiled(function, exact=exact, always=True, replay=replay))
        return made[-1]

    code = compile(purer(text) if replay else text, "<program>", "exec")
    sizes = sizes or ([5, 5, 5, 3, 5, 3, 5, 5, 7, 3, 5, 5] if len(text) % 5 == 0 else [5] * STEPS)
    found = ""
    with warnings.catch_warnings(), overwritten_between_steps():
        warnings.simplefilter("ignore")
        keeps = len(text) % 4 == 0
        twins = [Twin(code, use, keeps, 8 if replay else 1) for use in (lambda function: function, compiling)]
        for n in range(steps):
            one, other = [twin.run(n, sizes[n % len(sizes)]) for twin in twins]
            found = difference(one, other, tolerance) or ""
            if found:
                found = f"step {n}: {found}"
                break
    step = made[-1]
    return Result(found, step.walked, step.calls, str(step.report()), step.report().replayed)


IMPURE = ("seen_numbers", "kept", "item()", "holder.", "schedule.", "numpy", "print(", "list(", "str(")


def purer(text: str) -> str:
    """The program without most of what a step does beside tensors, so that it can be replayed; what stands between the steps stays."""
    lines, within = [], False
    for line in text.splitlines():
        start = line.lstrip()
        within = start.startswith("def step(") or (within and not start.startswith("def between("))
        if within and any([word in line for word in IMPURE]) and not start.startswith("except"):
            start = "if True:" if line.endswith(":") else "return v0" if start.startswith("return ") else "pass"
        elif within and start.startswith("except"):
            start = start.partition(":")[0] + ": pass"
        lines.append(line[: len(line) - len(line.lstrip())] + start)
    return "\n".join(lines) + "\n"


# --- shortening --------------------------------------------------------------------------------------------------------------


def shortened(program: Program, fails: Callable[[str], bool]) -> Program:
    """The program without the lines that it fails without."""
    changed = True
    while changed:
        changed = False
        for blocks in _lists(program):
            for place in reversed(range(len(blocks))):
                block = blocks[place]
                for instead in ([], block.below):
                    if instead is block.below and not block.below:
                        continue
                    blocks[place : place + 1] = instead
                    if _compiles(program) and fails(program.text()):
                        changed = True
                        break
                    blocks[place : place + len(instead)] = [block]
    return program


def _compiles(program: Program) -> bool:
    try:
        compile(program.text(), "<program>", "exec")
    except SyntaxError:
        return False
    return True


def _lists(program: Program) -> Iterator[list[Block]]:
    def inside(blocks: list[Block]) -> Iterator[list[Block]]:
        yield blocks
        for block in list(blocks):
            if block.below:
                yield from inside(block.below)

    for blocks in (program.between, program.step, program.setup):
        yield from inside(blocks)
