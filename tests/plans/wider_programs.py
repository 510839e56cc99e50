"""Programs by chance of more kinds of lines: layers, ragged rows, tensors without dims, indices that are computed, loops whose length changes, averages of
weights, several compiled functions that share parameters, second order.

`random_programs` draws and compares them; the lines here are put among those there.
"""

from __future__ import annotations

import random
from typing import Any

from tests.plans.random_programs import (
    BETWEEN,
    BINARY,
    COLUMN,
    FAULTS,
    FROM_TO,
    FULL,
    HEADS,
    IN_PLACE,
    ON_STATE,
    PASSES,
    POINTWISE,
    ROW,
    SINGLE,
    SQUARE,
    Block,
    Maker,
)

__all__ = ["SIZES", "WiderMaker"]

# Batches of one program.
SIZES = [
    [5],
    [5, 5, 5, 3, 5, 3, 5, 5, 7, 3, 5, 5],
    [5, 5, 1, 1, 5, 4, 1, 7, 7, 3, 1, 6],
    [4, 4, 4, 8, 8, 6, 5, 7, 4, 6, 8, 5],
]
_POINTWISE = """
{a}.double().sin().float() | {a}.bfloat16().relu().float() | ({a}.double() * 2).mean().float() * {a} | {a} * {a}.sum() | {a} - {a}.max() | {a}.clamp(min={a}.mean()) | {a}.bfloat16().float() * 2
torch.where({a} > 0, {a}, {a} * 0.1) | torch.where({a}.detach() > 0.5, 1.0, {a}) | {a} * holder.factor + 1 | {a}.to(torch.bfloat16).mul(2).to(torch.float32) | helper({a}) | F.hardtanh({a}) | F.elu({a})
{a} / {a}.abs().max().clamp(min=0.5) | {a} * (n % 3) | {a} + n | {a} ** (1 + n % 2) | torch.lerp({a}, {a} * 2, 0.5) | {a}.logit(0.1) | torch.addcmul({a}, {a}, {a}) | {a}.square().add(1).rsqrt() | {a}.detach() + {a}
{a}[...] * 2 | {a}.reshape({a}.shape) + 1 | {a}.unsqueeze(0).squeeze(0) | {a}.unsqueeze(-1)[..., 0] | torch.stack([{a}, {a} * 2])[n % 2] | torch.cat([{a}[None], {a}[None]])[0] | F.mish({a}) | F.softmax({a}, -1)
F.dropout({a}, 0.0) | F.dropout({a}, 0.3, m1.training) | {a}.float().to(torch.float64).cumsum(0).float() | {a}.exp().log1p() | {a}.atan2({a} + 3) | {a}.fmod(0.7) | {a}.sub({a}.mean()).div({a}.std(correction=0) + 1)
{a} * numbers[n % 3].item() | {a}.mul(torch.tensor(float(n))) | {a} * torch.ones(()) | packed(Pack({a}, {a} * 2)).first | packed(Pack({a}, {a} + 1)).second | picked({{'a': {a}, 'b': [{a}, n % 2]}})
torch.func.grad(lambda q: (q * q).sum().sin())({a}) | torch.func.jvp(torch.sin, ({a},), ({a},))[1] | torch.func.vmap(torch.func.grad(lambda r: (r * r).sum().cos()))({a}) if {a}.dim() else {a}
"""
_BINARY = """
torch.where({b}.abs() > {a}, {b}, {a}) | packed(Pack({a}, {b})).second | F.mse_loss({a}, {b}) * {a} | F.smooth_l1_loss({a}, {b}, reduction='none') | {a}.masked_fill({b} > {b}.mean(), 0.0) | torch.stack([{a}, {b}], -1).max(-1).values
torch.stack([{a}, {b}]).mean(0) | F.binary_cross_entropy_with_logits({a}, {b}.sigmoid().detach(), reduction='none') | {a} * {b}.sum() | {a}.double().add({b}.double()).float() | ({a}.bfloat16() * {b}.bfloat16()).float() | {a}.masked_scatter({b} > 0, {a} * 2)
torch.logaddexp({a}, {b}) | {a} - {b}.max() | {a}.clamp(max={b}.abs() + 1) | torch.linalg.vector_norm(torch.stack([{a}, {b}]), dim=0) | [{a}, {b}][n % 2] * 2 | ({a} if n % 3 else {b}) + 1
"""
_FROM_TO = {
    (FULL, SINGLE): "{a}[y == 1].sum() | {a}.masked_select({a} > 0).sum() | torch.where(y > 1)[0].float().sum() + {a}.sum() | {a}[0].dot({a}[-1]) | {a}.flatten()[{a}.argmax()] | F.nll_loss(F.log_softmax({a}, 1), y) | {a}.trace()"
    " | F.cross_entropy({a}, y, label_smoothing=0.1) | F.cross_entropy({a}, F.one_hot(y, 4).float()) | {a}.median() | {a}.std(correction=0) | torch.linalg.matrix_norm({a}) | {a}.prod() | F.multi_margin_loss({a}, y) | {a}[0, n % 4]"
    " | sum([r.sum() for r in {a}]) | torch.stack([r.max() for r in {a}.unbind()]).sum() | total({a}) | {a}.double().sum().float() | F.kl_div({a}.log_softmax(1), x.softmax(1).detach(), reduction='batchmean')",
    (FULL, ROW): "{a}[y.argmax()] | {a}[{a}[:, 0].argmax()] | {a}[y.clamp(max={a}.shape[0] - 1).min()] | {a}[{a}[:, 0] > 0].sum(0) | {a}[n % {a}.shape[0]] | {a}[{a}.shape[0] // 2] | {a}.index_select(0, torch.tensor([0]))[0]"
    " | {a}[-1 - n % 2 if {a}.shape[0] > 1 else 0] | {a}.var(0, correction=0) | {a}.cumsum(0)[-1] | {a}.sort(0).values[0] | {a}[[0]].squeeze(0) | {a}.prod(0) | {a}.max(0)[0] | {a}[y[0].clamp(max={a}.shape[0] - 1)]",
    (FULL, COLUMN): "{a}.sum(1) | {a}[torch.arange({a}.shape[0]), y] | {a}[:, n % 4] | {a}.narrow(1, n % 3, 1)[:, 0] | {a}[:, y[0]] | {a}.take_along_dim(y[:, None], 1)[:, 0] | {a}.logsumexp(1) | {a}.var(1) | {a}.amin(1)"
    " | {a}[:, {a}.detach().mean(0).argmax()] | F.cosine_similarity({a}, x) | F.pairwise_distance({a}, x) | ({a} * x).sum(1) | {a}.flatten()[::4] | {a}.reshape(-1, 2, 2).sum((1, 2)) | {a}.std(1)",
    (FULL, FULL): "conv({a}[:, None]) | gru({a}[None])[0][0] | gru({a}[:, None])[0][:, 0] | attend({a}[None], {a}[None], {a}[None], need_weights=False)[0][0] | block({a}[None])[0] | cell({a}, {a}) | words(y) * {a} | running({a})"
    " | F.scaled_dot_product_attention({a}[None], {a}[None], x[None])[0] | F.scaled_dot_product_attention({a}[None], x[None], {a}[None], is_causal=True)[0] | F.max_pool1d({a}[:, None], 3, 1, 1)[:, 0] | F.avg_pool1d({a}[:, None], 3, 1, 1)[:, 0]"
    " | {a}[:, n % 3 : n % 3 + 1] + {a} | {a}.narrow(1, n % 3, 2).repeat(1, 2) | torch.cat([{a}[:, n % 4 :], {a}[:, : n % 4]], 1) | {a}.roll(n % 4, 1) | {a}.scatter_add(1, y[:, None], {a}[:, :1]) | {a}.scatter(1, y[:, None], 0.5)"
    " | {a}.index_add(0, y.clamp(max={a}.shape[0] - 1), {a}) | torch.zeros_like({a}).index_add(0, y.clamp(max={a}.shape[0] - 1), {a}) | {a}.index_put((torch.arange({a}.shape[0]), y), {a}[:, 0], accumulate=True) | F.one_hot(y, 4) * {a}"
    " | {a}.index_fill(1, torch.tensor([1]), 0.5) | {a}.index_copy(1, torch.tensor([2]), {a}[:, :1]) | {a}.masked_fill((y > 1)[:, None], 0.0) | F.group_norm({a}, 2) | F.rms_norm({a}, (4,), p) | F.normalize({a}, dim=1) | {a}.topk(4, 1).values"
    " | torch.where((y > 1)[:, None], {a}, x) | {a}.scatter_reduce(1, y[:, None], {a}[:, :1], 'amax') | torch.einsum('bi,bj->bj', {a}, x) | torch.bmm({a}[:, None], w.expand({a}.shape[0], 4, 4))[:, 0] | torch.addmm(p, {a}, w) | {a} @ w.t()"
    " | ragged({a}, n) | (torch.ragged_tensor([{a}[:1], {a}[1:]]) * p).values() | torch.ragged_tensor([{a}[:2], {a}[2:]]).cumsum(1).values() | m0(running({a})) | F.linear({a}, w, p).relu() | F.gelu(F.linear({a}, w)) | shared({a})"
    " | {a}.view(-1, 2, 2).flip(1).flatten(1) | {a}.unfold(1, 2, 2).flatten(1) | {a}.t().softmax(0).t() | {a}.permute(1, 0).contiguous().t() | torch.stack(list({a})) | torch.cat([{a}[:1], {a}[1:]]) | {a}.chunk(2, 1)[n % 2].repeat(1, 2)"
    " | {a} * {a}.std(1, keepdim=True, correction=0) | {a} - {a}.logsumexp(1, keepdim=True) | torch.cdist({a}, {a}) @ x | F.pad({a}, (1, 0))[:, :-1] | F.pad({a}[:, None], (1, 1), 'reflect')[:, 0, 1:-1] | {a}.diff(dim=1, prepend={a}[:, :1])",
    (ROW, FULL): "{a} * x | torch.where({a} > 0, x, {a}) | F.linear(x, w, {a}) | F.layer_norm(x, (4,), {a}) | {a}[y][:, None] * x | torch.lerp(x, {a}, 0.3) | x.index_add(1, torch.tensor([0, 1]), x[:, :2]) * {a} | F.prelu(x, {a})",
    (COLUMN, FULL): "torch.where(({a} > 0)[:, None], x, 0.0) | x * {a}.softmax(0)[:, None] | x.index_add(1, torch.tensor([n % 4]), {a}[:, None]) | {a}[:, None].repeat(1, 4) | torch.stack([{a}] * 4, 1) | x.scatter(1, y[:, None], {a}[:, None])",
    (COLUMN, SINGLE): "{a}[-1] | {a}.var(correction=0) | {a}[{a}.argmax()] | {a}[y[0].clamp(max={a}.shape[0] - 1)] | {a}.logsumexp(0) | {a}.norm() | {a}.prod() | {a}.sort().values[0] | {a}[n % {a}.shape[0]] | F.mse_loss({a}, y.float()) | {a} @ y.float()",
    (COLUMN, COLUMN): "{a}.cumsum(0) | {a}.softmax(0) | {a}[torch.arange({a}.shape[0])] | {a} * y | torch.where(y > 1, {a}, 0.0) | {a}.flip(0) | {a} - {a}.mean() | {a}.sort().values | {a}.index_add(0, y.clamp(max={a}.shape[0] - 1), {a})",
    (ROW, SINGLE): "{a}[n % 4] | {a}[y[0]] | {a}[{a}.argmax()] | {a}.max() | {a}.dot(p) | {a}.logsumexp(0) | {a}.var() | F.cross_entropy({a}, y[0]) | {a}.softmax(0)[n % 2] | F.mse_loss({a}, p) | {a}.unbind()[1] | ({a} @ w).sum() | {a}.narrow(0, n % 3, 1)[0]",
    (ROW, ROW): "{a}.roll(n % 4) | {a}[[3, 2, 1, 0]] | {a} @ w | F.layer_norm({a}, (4,), p) | {a}.softmax(0) | {a}.cumprod(0) | torch.cat([{a}[n % 4 :], {a}[: n % 4]]) | {a}[{a}.argsort()] | {a}.index_fill(0, y[0], 0.5) | F.linear({a}, w, p) | {a}.scatter(0, y[:1], 0.5)",
    (ROW, SQUARE): "torch.outer({a}, {a}) | w * {a} | torch.diag_embed({a}) | w.index_add(0, torch.tensor([n % 4]), {a}[None]) | torch.stack([{a}] * 4)",
    (SQUARE, ROW): "{a}[n % 4] | {a}[y[0]] | {a}[{a}[:, 0].argmax()] | {a}.sum(0) | {a}[:, n % 4] | {a}.mv(p) | {a}.max(0).values | {a}.softmax(1)[2]",
    (SINGLE, SINGLE): "F.softmax({a}, 0) | {a}.cumsum(0) | {a}.sort(0).values | {a}.sum() | {a}.mean() | {a}.max() | {a}.view(()) | {a}.reshape(1)[0] | {a}.expand(3).sum() | torch.cat([{a}[None], {a}[None]]).max() | F.mse_loss({a}, {a} * 0.5) | {a}.norm()"
    " | F.binary_cross_entropy_with_logits({a}, {a}.sigmoid().detach()) | {a}.expand(x.shape).mean() | {a} * p[n % 4] | {a} + y[0] | {a} * y.float().mean() | {a}.logsumexp(0) | torch.stack([{a}, {a} * 2]).softmax(0)[0] | {a}.std(correction=0) | {a}.prod()"
    " | {a}.unsqueeze(0).repeat(2)[1] | {a}.flip(0) | {a}.amax() | {a}.index_select(0, torch.tensor([0])) | {a}.gather(0, torch.tensor(0)) | {a}.masked_fill({a} > 0, 0.5) | torch.where({a} > 0, {a}, -{a}) | {a}[None].index_add(0, torch.tensor([0]), {a}[None])[0]",
    (SINGLE, ROW): "{a} + p | torch.stack([{a}] * 4) | {a}.repeat(4) | torch.where({a} > 0, p, 0.0) | p.index_fill(0, torch.tensor([1]), 0.5) * {a} | {a}.expand(4).softmax(0) | torch.full((4,), 0.5) * {a}",
    (SINGLE, FULL): "torch.where({a} > 0, x, -x) | x.clamp(max={a}) | x / ({a}.abs() + 1) | {a}.expand_as(x) | {a} - x | x.masked_fill(x > 0, 0.5) * {a}",
    (SQUARE, FULL): "x @ {a}.softmax(1) | F.embedding(y, {a}) | {a}.index_select(0, y) | F.linear(x, {a}, p) | {a}[y] + x | ({a} @ x.t()).t()",
}  # fmt: skip
_IN_PLACE = """
{a}.lerp_({b}.detach(), 0.5) | {a}.index_add_(0, torch.tensor([0]), {b}[:1]) if {a}.dim() else None | {a}.index_fill_(0, torch.tensor([0]), 0.5) if {a}.dim() else None | {a}[n % 2 :].mul_(2) if {a}.dim() else None | {a}[{b} > 1] = 0.0
{a}[{a}.detach().flatten(1).sum(1).argmax()] += 1 if {a}.dim() > 1 else 0 | {a}.masked_fill_({b} > {b}.mean(), 0.0) | {a}[..., n % 3] = 0.5 | {a}.scatter_(1, y[:, None], 0.5) if {a}.dim() == 2 and len({a}) == len(y) else None
"""
_ON_STATE = """
for e, q in zip(average, parameters): e.lerp_(q.detach(), 0.1) | torch._foreach_mul_(average, 0.9) | average[0].mul_(0.9).add_(w.detach(), alpha=0.1) | running.train(n % 3 != 0) | running.mean.copy_(p.detach()) | running.mean.zero_()
bank[n % 4] = {row}.detach() | bank[n % 4].copy_({row}.detach()) | bank.mul_(0.9) | bank[y[0]] += {row}.detach() | queue.append({row}.detach()) | del queue[:-3] | bank.index_add_(0, y[:2], x[:2].detach()) | bank.roll(1, 0)[0].add_(1)
seen_numbers.append(torch.stack(queue[-2:]).sum().item() if len(queue) > 1 else 0) | seen_numbers.append({any}.double().sum().item() > 0) | seen_numbers.append(helper({any}).sum().item()) | seen_numbers.append(int({any}.argmax()))
seen_numbers.append(float({single})) | seen_numbers.append({single}.ndim) | seen_numbers.append({any}.dtype is torch.float32) | kept.append(Pack({any}, n)) | kept.append({'v': {any}.detach()}) | holder.factor = float({single}.detach())
with torch.no_grad(): w.lerp_(w.t().clone(), 0.01) | with torch.no_grad(): w.clamp_(-1, 1) | with torch.no_grad(): bank.add_(w) | nn.utils.clip_grad_norm_(parameters, 1.0) | with torch.no_grad(): p.copy_(average[1])
"""
_HEADS = """
for k in range(n % 4): | for k in range(1 + n % 5): | for k, r in enumerate(x.unbind()[: n % 3]): | for k in range(x.shape[0] % 3): | if y[0] > 1: | if {any}.mean() > 0: | while {single} > 100: | for part in x.split(2):
with torch.no_grad(): | with torch.autocast('cpu', torch.bfloat16): | if n % 5 == 0: | if int(y.argmax()) % 2: | if bool({any}.isfinite().all()): | if running.training: | for key in ('a', 'b'): | if {single}.item() > 0 and n % 2:
"""
_PASSES = [
    ["optimizer.zero_grad()", "scaler.scale({loss}).backward()", "scaler.unscale_(optimizer)",
     "nn.utils.clip_grad_norm_(parameters, 0.5 + n % 2)", "scaler.step(optimizer)", "scaler.update()"],
    ["optimizer.zero_grad()", "{loss}.backward()", "optimizer.step()",
     "for e, q in zip(average, parameters): e.lerp_(q.detach(), 0.1)"],
    ["third.zero_grad()", "optimizer.zero_grad()", "{loss}.backward()", "third.step()", "optimizer.step()"],
    ["optimizer.zero_grad()", "{loss}.backward(retain_graph=True)",
     "seen_numbers.append(sum([q.grad.norm().item() for q in parameters if q.grad is not None]))", "{loss}.backward()", "optimizer.step()"],
    ["leaf = x.detach().requires_grad_()", "(slope,) = torch.autograd.grad(m0(leaf).sum(), leaf, create_graph=True)",
     "optimizer.zero_grad()", "({loss} + (slope.norm(dim=1) - 1).pow(2).mean()).backward()", "optimizer.step()"],
    ["leaf = x.detach().requires_grad_()", "(slope,) = torch.autograd.grad({loss} * 0 + F.cross_entropy(m0(leaf), y), leaf)",
     "optimizer.zero_grad()", "F.cross_entropy(m0((x + 0.1 * slope.sign()).detach()), y).backward()", "optimizer.step()"],
    ["slopes = torch.autograd.grad({loss} + (w * w).sum() + p.sum(), [w, p], create_graph=True)",
     "fast = F.linear(x, w - 0.1 * slopes[0], p - 0.1 * slopes[1])", "optimizer.zero_grad()", "F.cross_entropy(fast, y).backward()", "optimizer.step()"],
    ["optimizer.zero_grad()", "for part in range(1 + n % 2):\n    ({loss} * 0.5).backward(retain_graph=True)", "optimizer.step()"],
    ["optimizer.zero_grad()", "{loss}.backward()", "nn.utils.clip_grad_norm_(parameters, 1.0, float('inf'))", "optimizer.step()", "schedule.step()"],
    ["optimizer.zero_grad()", "helper({loss}).backward()", "optimizer.step()", "optimizer.zero_grad()", "total(m0(x)).backward()", "optimizer.step()"],
    ["optimizer.zero_grad()", "torch.autograd.backward([{loss}, {other}])", "optimizer.step()"],
    ["optimizer.zero_grad()", "{loss}.backward(inputs=[w, p])", "optimizer.step()"],
    ["if n % 2: optimizer.zero_grad()", "{loss}.backward()", "if n % 2 == 0: optimizer.step()"],
    ["optimizer.zero_grad()", "with torch.autocast('cpu', torch.bfloat16):\n    low = F.cross_entropy(m0(x), y)", "(low.float() + {loss}).backward()", "optimizer.step()"],
]  # fmt: skip
_BETWEEN = """
seen_numbers.append(evaluate(torch.ones(3, 4)).sum().item()) | seen_numbers.append(evaluate(torch.ones(1 + n % 3, 4)).sum().item()) | average[0].zero_() if n == 5 else None | running.mean.add_(1) | bank.zero_() if n % 6 == 5 else None
with torch.no_grad(): p.copy_(average[1]) if n == 7 else None | running.eval() if n == 4 else running.train() if n == 8 else None | third.param_groups[0]['lr'] *= 0.9 | queue.clear() if n == 6 else None | words.weight.requires_grad_(n % 3 != 1)
seen_numbers.append([q.grad is None for q in parameters]) | gru.flatten_parameters() | conv.eval() if n == 3 else None | seen_numbers.append(total(torch.ones(2, 4)).item()) | words.weight.data.mul_(0.99) | helper.reset() if n == 9 and hasattr(helper, 'reset') else None
"""
_SETUP = """
conv = nn.Sequential(nn.Conv1d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8, 4))
gru = nn.GRU(4, 4)
cell = nn.GRUCell(4, 4)
attend = nn.MultiheadAttention(4, 2)
block = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
words = nn.Embedding(4, 4)
running = Running()
bank = torch.zeros(4, 4)
queue = []
parameters += [*conv.parameters(), *words.parameters(), *gru.parameters(), *cell.parameters(), *attend.parameters(), *block.parameters()]
average = [q.detach().clone() for q in parameters]
third = torch.optim.SGD([*words.parameters(), *conv.parameters()], lr=0.05, momentum=0.5)
helper = {compile}(lambda a: (a * 0.5 + 1).tanh() * a)
total = {compile}(lambda a: F.linear(a, w, p).relu().sum())
shared = {compile}(lambda a: F.linear(F.gelu(F.linear(a, w, p)), w))
evaluate = {compile}(lambda a: torch.cat([m0(a), F.linear(a, w)], 1))
packed = {compile}(lambda pack: Pack(pack.first.sin() + pack.second, second=pack.second * 2))
picked = {compile}(lambda named: named['a'] * 2 if named['b'][1] else named['b'][0].exp())
"""
# Lines that end most walks, and that few programs have; each of the others is in one program of four.
_RARE = "inplace=|register_hook|inference_mode|raise|retain_grad|no_such_thing|ones(3)|tensor([9])|y + 9|return|_version|data_ptr|out={|.data|numpy|add_param|own(|right_inverse"
_SOMETIMES = (
    "n %|_(|item()|kept|seed|rand|bernoulli|dropout|autocast|clip_|range(|create_graph|checkpoint|inner(|vmap(|bfloat16|*=|+=|] =|.grad|scale|"
    "closure|requires_grad_(|weight_norm|spectral_norm|numbers|n > 5|while|state.clear|load_state|holder|set_to_none|second|autograd.grad|retain_graph|"
    "y[0]|arg|> 0]|== 1]|tolist|float(|helper|packed|picked|ragged"
)


class WiderMaker(Maker):
    """Draws a program of these lines, too."""

    pointwise, binary, on_state = POINTWISE + _POINTWISE, BINARY + _BINARY, ON_STATE + _ON_STATE
    from_to = {
        pair: " | ".join([lines[pair] for lines in (FROM_TO, _FROM_TO) if pair in lines])
        for pair in (*FROM_TO, *[pair for pair in _FROM_TO if pair not in FROM_TO])
    }
    in_place, heads, faults, passes = IN_PLACE + _IN_PLACE, HEADS + _HEADS, FAULTS, PASSES + _PASSES
    between = BETWEEN + _BETWEEN

    def __init__(self, seed: int, writes: bool = False, creates: bool = False) -> None:
        super().__init__(seed, writes, creates)
        chance = random.Random(seed)
        self.form = chance.randrange(4)  # of the step's arguments
        self.learns = True
        self.wild = [word for word in _RARE.split("|") if chance.random() < 0.98]
        self.wild += [word for word in _SOMETIMES.split("|") if chance.random() < 0.75]

    def _setup(self) -> list[Block]:
        compile = "compile" if self.rng.random() < 0.7 else "(lambda f: f)"
        lines = [line.replace("{compile}", compile) for line in _SETUP.strip().splitlines()]
        before = super()._setup()
        place = next(number for number, block in enumerate(before) if block.line.startswith("optimizer = "))
        return [*before[:place], *[Block(line) for line in lines], *before[place:]]

    def _pick(self, *shapes: tuple) -> tuple[str, tuple[Any, ...]]:
        if (SINGLE in shapes or not shapes) and self.rng.random() < 0.1:  # more of what has no dims
            return super()._pick(SINGLE)
        return super()._pick(*shapes)
