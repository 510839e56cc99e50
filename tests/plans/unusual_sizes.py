"""Ops on operands of sizes that nobody tries: no dims, one element, none, one row, one column, batches that become 1, 0 and 7 again.

A row has operands and expressions of them. `a[B,4]` is an array of B rows, `p[...]+` has positive values, `i[B]<4` whole numbers below 4,
`m[...]?` flags, `u[...]=` gets no gradient. The letters `x` and `y` stand for each of the shapes of `SHAPES`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy

__all__ = ["BATCHES", "Expression", "expressions", "leaves_of", "operands_of", "results_of"]

BATCHES = [5, 5, 1, 1, 0, 0, 7, 7, 5, 1, 0, 7, 6, 3, 3, 2, 0, 1, 4, 7]
SHAPES = ("", "1", "B", "1,1", "B,1", "1,B", "B,4", "4,B", "B,0", "0,B", "B,1,3", "2,B,3")
PAIRS = " / |B/B|B/|/B|B/1|1/B|B,4/4|B,4/B,4|B,4/B,1|B,1/4|B,1/1,B|1,B/B,1|B,4/|/B,4|B,0/|B,0/1|B,0/B,1|0,B/B|1,1/B|2,B,3/3|2,B,3/B,1|B,1,3/2,3"

TABLE = """
a[x]: torch.{unary}(a)
exp expm1 sin cos tan tanh sinh atan asinh abs neg sign sigmoid relu erf erfc square floor ceil trunc frac positive nan_to_num exp2 sinc isnan signbit
logical_not isfinite deg2rad rad2deg erfinv

p[x]+: torch.{positive}(p)
log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma acosh

a[x]: F.{activation}(a)
gelu silu softplus elu selu celu leaky_relu hardtanh hardsigmoid hardswish relu6 logsigmoid mish softsign tanhshrink hardshrink softshrink

a[x]: torch.{reduction}(a)
sum mean prod max min amax amin std var argmax argmin logsumexp(0) norm all any count_nonzero nansum nanmean median nanmedian var_mean std_mean aminmax numel

a[x]: {of}
torch.sum(a, 0) | torch.sum(a, -1, keepdim=True) | torch.mean(a, 0) | torch.mean(a, -1, keepdim=True) | torch.prod(a, 0) | torch.prod(a, -1, keepdim=True)
torch.max(a, 0) | torch.min(a, -1, keepdim=True) | torch.amax(a, 0) | torch.amin(a, -1, keepdim=True) | torch.std(a, 0) | torch.var(a, -1, keepdim=True)
torch.var(a, 0, correction=0) | torch.argmax(a, 0) | torch.argmin(a, -1, keepdim=True) | torch.logsumexp(a, 0) | torch.logsumexp(a, -1, keepdim=True) | torch.norm(a, dim=0)
torch.norm(a, 1, -1) | torch.linalg.vector_norm(a, 3) | torch.linalg.vector_norm(a, float('inf')) | torch.all(a > 0, 0) | torch.any(a > 0, -1) | torch.median(a, 0)
torch.cumsum(a, 0) | torch.cumsum(a, -1) | torch.cumprod(a, 0) | torch.cumprod(a, -1) | torch.cummax(a, 0) | torch.cummin(a, -1) | torch.logcumsumexp(a, 0)
torch.sort(a, 0) | torch.sort(a, -1, descending=True) | torch.argsort(a, 0) | torch.topk(a, 1, 0) | torch.kthvalue(a, 1, 0) | torch.mode(a, 0) | torch.nansum(a, 0) | torch.nanmean(a, -1)
F.softmax(a, 0) | F.softmax(a, -1) | F.log_softmax(a, 0) | F.log_softmax(a, -1) | F.softmin(a, 0) | F.normalize(a, dim=0) | F.normalize(a, 1, -1) | F.glu(a, -1)
torch.flip(a, (0,)) | torch.flip(a, (-1,)) | torch.roll(a, 1) | torch.roll(a, 1, 0) | torch.roll(a, -1, -1) | a.unsqueeze(0) | a.unsqueeze(-1) | a.squeeze() | a.squeeze(0) | a.squeeze(-1)
a.reshape(-1) | a.flatten() | a.reshape(1, -1) | a.reshape(a.shape + (1,)) | a.view(a.shape) | a.expand(2, *a.shape) | a.expand(a.shape) | a.repeat(*[1] * a.dim()) | a.repeat(2, *[1] * a.dim())
a.repeat(*[0] * a.dim()) | a.repeat_interleave(2) | a.repeat_interleave(2, 0) | a.tile(2) | a.t() | a.transpose(0, -1) | a.permute(*reversed(range(a.dim()))) | a.movedim(0, -1) | a.contiguous() | a.clone()
a[...] | a[None] | a[:] | a[0] | a[-1] | a[..., 0] | a[:1] | a[1:] | a[:0] | a[::2] | a[..., :2] | a[..., 1:] | a[..., None] | a.select(0, 0) | a.narrow(0, 0, 1) | a.narrow(-1, 0, 0) | a.unbind(0)
a.chunk(2, 0) | a.chunk(3, -1) | a.split(1, 0) | a.split(2, -1) | torch.tensor_split(a, 2) | a.unfold(0, 1, 1) | a.diagonal(0, -2, -1) | torch.tril(a) | torch.triu(a, 1) | torch.diag(a) | torch.diag_embed(a)
torch.stack([a, a]) | torch.stack([a, a], -1) | torch.cat([a, a]) | torch.cat([a, a], -1) | torch.cat([a, a[:0]]) | torch.hstack([a, a]) | torch.vstack([a, a]) | torch.dstack([a, a]) | torch.atleast_1d(a)
torch.atleast_2d(a) | torch.atleast_3d(a) | a * 2 | 2 / (a * a + 1) | a + 1 | 1 - a | a ** 2 | a ** 3 | 2 ** a | -a | a * True | a.clamp(-0.5, 0.5) | a.clamp(min=0.1) | a.clamp(max=0.1)
torch.where(a > 0, a, 0.5) | torch.where(a > 0, 1.0, a) | a.masked_fill(a > 0, 2.0) | a[a > 0] | a.masked_select(a > 0) | a.nonzero() | (a > 0).nonzero(as_tuple=True) | a.double() | a.half().float() | a.bfloat16().float()
a.int() | a.long() | a.bool() | a.to(torch.float64).float() | a.zero_() if not a.requires_grad else a * 0 | a.new_zeros(a.shape) + a | torch.zeros_like(a) + a | torch.ones_like(a) * a | torch.full_like(a, 2.0) * a
F.dropout(a, 0.0) | F.dropout(a, 1.0) | F.dropout(a, 0.5, False) | a * a.sum() | a - a.mean() | a / (a.norm() + 1) | a * a.numel() | a.sum() + a | F.pad(a, (1, 1)) | F.pad(a, (0, 0)) | F.pad(a, (1, 0), value=2.0)
F.pad(a, (-1, 1)) | a.diff() | torch.trapezoid(a) | torch.cumulative_trapezoid(a) | a.abs().sum().sqrt() | a.tolist() | a.sum().item() | a.isfinite().all() | torch.equal(a, a) | torch.allclose(a, a)
a.view_as(a) | torch.broadcast_to(a, (2, *a.shape)) | a.swapaxes(0, -1) | a.unflatten(0, (-1, 1)) | a.softmax(-1).log() | a.exp().sum(-1).log() | (a * a).sum(-1).add(1).rsqrt() | a.relu().sum(0) | a.mul(a).mean()
a.take(torch.zeros(2, dtype=torch.int64)) | a.index_select(0, torch.tensor([0])) | a.index_select(0, torch.zeros(0, dtype=torch.int64)) | a[torch.zeros(0, dtype=torch.int64)] | a[torch.tensor([0, 0])] | a[torch.tensor(0)]
a.gather(0, torch.zeros_like(a, dtype=torch.int64)) | a.gather(-1, torch.zeros_like(a, dtype=torch.int64)) | a.scatter(0, torch.zeros_like(a, dtype=torch.int64), a * 2) | a.scatter_add(-1, torch.zeros_like(a, dtype=torch.int64), a)
a.scatter(0, torch.zeros_like(a, dtype=torch.int64), 2.0) | a.scatter_reduce(0, torch.zeros_like(a, dtype=torch.int64), a, 'sum') | a.index_add(0, torch.tensor([0]), a[:1]) | a.index_fill(0, torch.tensor([0]), 2.0)
a.index_copy(0, torch.tensor([0]), a[:1] * 2) | torch.take_along_dim(a, torch.zeros_like(a, dtype=torch.int64), 0) | a.clone().fill_(2.0) + a | a.clone().mul_(a) | a.clone().add_(1) | a.clone().index_fill_(0, torch.tensor([0]), 0.0)
a.bernoulli(1.0) | torch.rand_like(a) * 0 + a | a.dist(a * 2) | torch.renorm(a, 2, 0, 1.0) | a.fmod(0.3) | a.remainder(0.3) | a.floor_divide(0.3) | torch.bucketize(a, torch.tensor([0.0, 1.0])) | a.histc(3, -1, 1)
torch.quantile(a, 0.5) | torch.quantile(a, 0.5, 0) | a.argsort(stable=True) | torch.msort(a) | a.unique() | torch.special.entr(a.abs()) | torch.special.xlog1py(a, a * a) | a.rot90() | a.fliplr() | a.flipud() | torch.cov(a) | torch.corrcoef(a)
F.one_hot((a > 0).long(), 3) | a.sgn() | torch.polar(a.abs(), a).abs() | torch.view_as_real(torch.complex(a, a)) | torch.fft.fft(a).abs() | torch.fft.rfft(a).abs() | a.matrix_exp() | a.trace() | a.inner(a) | a.ravel() | a.kron(a)

a[x] b[y]: {binary}
a + b | a - b | a * b | a / (b * b + 1) | torch.maximum(a, b) | torch.fmin(a, b) | torch.where(a > b, a, b) | a > b | a == b | torch.lerp(a, b, 0.3) | torch.addcmul(a, a, b) | torch.hypot(a, b + 3) | torch.atan2(a, b + 3)
a.copysign(b) | torch.logaddexp(a, b) | a.abs().add(1).pow(b) | a.masked_fill(b > 0, 0.5) | torch.add(a, b, alpha=2) | F.mse_loss(a, b.expand_as(a + b).reshape((a + b).shape)) if a.shape == (a + b).shape else a * b | torch.fmod(a, b + 3)
torch.broadcast_tensors(a, b) | (a + b).sum(0) | (a * b).relu().sum(-1) | (a - b).square().mean() | torch.outer(a.reshape(-1), b.reshape(-1)) | torch.dot(a.reshape(-1), a.reshape(-1)) * b | torch.isclose(a, b) | a.heaviside(b)
torch.special.xlogy(a, b * b + 1) | a.clamp(b, b + 1) | a.clone().mul_(2).add(b) | a.xlogy(b * b + 1) | torch.cartesian_prod(a.reshape(-1), b.reshape(-1)) | torch.lerp(a, b, a) | a.float_power(2) + b | torch.ldexp(a, b)

a[B,4]: {rows}
F.layer_norm(a, (4,)) | F.rms_norm(a, (4,)) | F.group_norm(a, 1) | F.batch_norm(a, None, None, training=True) | F.instance_norm(a[:, :, None]) | F.local_response_norm(a[:, :, None], 2) | a @ a.t() | a.t() @ a | a.mm(a.t())
a.std(1) | a.var(0) | a.max(1).values | a[:, 1] | a[:, [2, 0]] | a[[0]] | a[a[:, 0] > 0] | a[a.sum(1).argmax()] | a.view(-1, 2, 2) | a.view(a.shape[0], -1) | a.reshape(2, -1) | a.unfold(1, 2, 1) | torch.cdist(a, a) | F.pdist(a)
F.max_pool1d(a[:, None], 2) | F.avg_pool1d(a[:, None], 2) | F.adaptive_avg_pool1d(a[:, None], 1) | F.adaptive_max_pool1d(a[:, None], 2) | F.lp_pool1d(a[:, None], 2, 2) | F.interpolate(a[:, None], scale_factor=2) | F.pixel_shuffle(a[:, :, None, None], 2)
F.max_pool2d(a.view(-1, 1, 2, 2), 2) | F.avg_pool2d(a.view(-1, 1, 2, 2), 2) | F.adaptive_avg_pool2d(a.view(-1, 1, 2, 2), 1) | F.interpolate(a.view(-1, 1, 2, 2), scale_factor=2, mode='bilinear') | F.unfold(a.view(-1, 1, 2, 2), 2)
torch.linalg.norm(a) | torch.linalg.matrix_norm(a) | a.trace() | torch.einsum('ij,kj->ik', a, a) | torch.einsum('ij->j', a) | torch.tensordot(a, a, ([1], [1])) | torch.bmm(a[:, None], a[:, :, None]) | torch.block_diag(a, a) | a.cov() | a.mode(1)
F.cosine_similarity(a, a * 2 + 1) | F.pairwise_distance(a, a * 2 + 1) | F.embedding_bag(torch.zeros(a.shape, dtype=torch.int64), torch.ones(2, 3)) + a.sum() | torch.nn.utils.rnn.pad_sequence(list(a)) | torch.stack(list(a)) | sum([r.sum() for r in a])

a[B,4] w[3,4] c[3]: {linear}
F.linear(a, w, c) | F.linear(a, w) | a @ w.t() | torch.addmm(c, a, w.t()) | F.linear(a, w, c).relu() | F.linear(a, w, c).sum(0) | F.linear(a[:, None], w, c) | F.linear(a[:0], w, c) | F.linear(a.sum(0), w, c) | a.mv(w[0]) | torch.matmul(a, w[0])
F.linear(a[:, :0], w[:, :0], c) | F.linear(a, w[:0], c[:0]) | F.linear(a[:, :1], w[:, :1], c) | torch.einsum('bi,ji->bj', a, w) + c | F.gelu(F.linear(a, w, c)) | F.linear(a.relu(), w) * c | torch.addmv(a[:, 0], a, w[1]) | F.bilinear(a, a, w[:, :, None] * w[:, None], c)
F.conv1d(a[:, None], w[:, None, :2], c) | F.conv1d(a[:, :, None], w[:, :, None], c) | F.conv2d(a.view(-1, 1, 2, 2), w.view(3, 1, 2, 2), c) | F.conv_transpose1d(a[:, :, None], w.t()[:, :, None], c) | F.conv1d(a[:, None], w[:, None], c, padding=2)
F.scaled_dot_product_attention(a[:, None], a[:, None], a[:, None]) | F.scaled_dot_product_attention(a[None], a[None], a[None]) | F.scaled_dot_product_attention(a[None], w[None], w[None]) | F.scaled_dot_product_attention(w[None], a[None], a[None], is_causal=False)
torch.chain_matmul(a, w.t(), w) | torch.baddbmm(c[None, None], a[None], w.t()[None]) | torch.kron(a, w) | F.layer_norm(a, (4,), w[0], w[1]) | F.rms_norm(a, (4,), w[0]) | F.batch_norm(a, None, None, w[0], w[1], training=True) | F.prelu(a, w[0]) | F.group_norm(a, 1, w[0], w[1])
F.batch_norm(a, w[0].detach(), w[1].detach().abs() + 1, w[2], w[1]) | torch.cat([a, w]) | torch.cat([a[:, :3], a @ w.t()], 1) | torch.stack([a.sum(0), w.sum(0)]) | a[:, None] * w | (a[:, None] - w).square().sum(-1) | torch.cdist(a, w) | torch.where(a > 0, a, w[0])

a[B,4] i[B]<4: {indexed}
F.cross_entropy(a, i) | F.cross_entropy(a, i, reduction='none') | F.cross_entropy(a, i, reduction='sum') | F.cross_entropy(a, i, label_smoothing=0.1) | F.cross_entropy(a, i, torch.ones(4)) | F.nll_loss(a.log_softmax(1), i) | F.nll_loss(a.log_softmax(1), i, reduction='sum')
F.nll_loss(a.log_softmax(1), i, reduction='none') | F.cross_entropy(a, F.one_hot(i, 4).float()) | F.multi_margin_loss(a, i) | F.cross_entropy(a, i, ignore_index=1) | a.gather(1, i[:, None]) | a[torch.arange(a.shape[0]), i] | F.embedding(i, a.t() @ a)
F.embedding(i, torch.eye(4)) + a | a.t()[i] | a.t().index_select(0, i) | a.index_add(1, i[:4].clamp(max=3), a[:, :4][:, :i[:4].shape[0]]) | torch.zeros(4, 4).index_add(0, i, a) | torch.zeros(4, 4).scatter_add(0, i[:, None].expand(-1, 4), a) | a.scatter(1, i[:, None], 0.5)
torch.zeros(4, 4).index_put((i,), a, accumulate=True) | a.masked_fill((i > 1)[:, None], 0.0) | a[i > 1] | a[i == 9] | a[i < 9] | torch.where((i > 1)[:, None], a, -a) | torch.bincount(i, minlength=4) | F.one_hot(i, 4) * a | i.float() @ a | a.sum(0)[i] | a.t()[i, i.sort().values]
torch.nn.functional.embedding_bag(i[:, None], a.t() @ a) | a.gather(1, i[:, None].expand(-1, 2)) | torch.take_along_dim(a, i[:, None], 1) | a.scatter_reduce(1, i[:, None], a[:, :1], 'amax') | i.sum() * a | a * i[:, None] | a.sum() * i | i.float().mean() * a

a[B] b[B]: {losses}
F.mse_loss(a, b) | F.mse_loss(a, b, reduction='sum') | F.mse_loss(a, b, reduction='none') | F.l1_loss(a, b) | F.smooth_l1_loss(a, b) | F.huber_loss(a, b) | F.binary_cross_entropy_with_logits(a, b.sigmoid()) | F.binary_cross_entropy(a.sigmoid(), b.sigmoid().detach())
F.kl_div(a, b.softmax(0), reduction='sum') | F.soft_margin_loss(a, b.sign()) | F.margin_ranking_loss(a, b, a.sign()) | F.hinge_embedding_loss(a, b.sign()) | F.poisson_nll_loss(a, b.abs()) | F.gaussian_nll_loss(a, b, b.abs() + 1) | a.dot(b) | torch.outer(a, b) | a @ b | torch.vdot(a, b)
F.cosine_similarity(a, b, 0) | torch.stack([a, b]).sum(0) | torch.cat([a, b]).mean() | torch.complex(a, b).abs() | torch.meshgrid(a, b, indexing='ij') | a[:, None] - b | torch.searchsorted(a.sort().values, b) | a.sort().values + b.sort().values | torch.cross(a[:3], b[:3], 0)

a[] b[]: {losses}
F.mse_loss(a, b) | F.mse_loss(a, b, reduction='none') | F.l1_loss(a, b) | F.smooth_l1_loss(a, b) | F.huber_loss(a, b) | F.binary_cross_entropy_with_logits(a, b.sigmoid()) | F.binary_cross_entropy(a.sigmoid(), b.sigmoid().detach())
F.soft_margin_loss(a, b.sign()) | F.margin_ranking_loss(a, b, a.sign()) | F.hinge_embedding_loss(a, b.sign()) | F.poisson_nll_loss(a, b.abs()) | F.gaussian_nll_loss(a, b, b.abs() + 1) | F.kl_div(a, b, reduction='sum')
torch.stack([a, b]) | torch.stack([a, b]).softmax(0) | torch.meshgrid(a, b, indexing='ij') | torch.lerp(a, b, 0.5) | torch.addcdiv(a, a, b * b + 1) | torch.broadcast_tensors(a, b) | torch.tensordot(a, b, 0) | torch.where(a > b, a, b) | a.expand(3) * b

a[4] i[]<4: {one}
F.cross_entropy(a, i) | F.nll_loss(a.log_softmax(0), i) | a[i] | a.index_select(0, i) | a.gather(0, i) | F.embedding(i, a[:, None] * a) | a.take(i) | F.multi_margin_loss(a, i) | torch.eye(4)[i] * a | F.one_hot(i, 4) * a | a.index_fill(0, i, 0.0) | a.index_add(0, i, a[0])
a.scatter(0, i, a[0]) | a * i | a.clone().index_put_((i,), a[1]) | a.roll(1)[i] | a.unbind()[2] * i | a[i:] | a[:i] | a[i - 1] | a.narrow(0, i, 1) | a.select(0, 1) + i
F.layer_norm(a, (4,)) | F.linear(a, a[None]) | F.linear(a, torch.ones(3, 4), a[:3]) | F.softmax(a, 0)[i] | a.outer(a)[i] | F.dropout(a[i], 0.0) | F.normalize(a, dim=0)

a[B,2,4]: {three}
a.sum((0, 2)) | a.mean((0, 1)) | a.transpose(1, 2) | a @ a.transpose(1, 2) | a.transpose(0, 1).reshape(2, -1) | F.layer_norm(a, (2, 4)) | F.batch_norm(a, None, None, training=True) | F.instance_norm(a) | F.group_norm(a, 1) | a.flatten(1) | a.flatten(0, 1) | a.max(1) | a.amax((0, 1)) | a.var((0, 2))
a.std((1, 2), keepdim=True) | a.logsumexp((1, 2)) | a.cumsum(1) | a.softmax(1) | a[:, 0] | a[:, :, 1:3] | a[:, [1]] | a[..., [1, 2]] | a.permute(2, 0, 1) | a.unbind(1) | a.split(2, 2) | torch.cat([a, a], 1) | torch.einsum('bij,bkj->bik', a, a) | torch.bmm(a, a.transpose(1, 2)) | F.pad(a, (1, 1), 'reflect')
F.pad(a, (1, 1), 'replicate') | F.pad(a, (1, 1), 'circular') | F.conv1d(a, torch.ones(3, 2, 2)) | F.max_pool1d(a, 2) | F.scaled_dot_product_attention(a, a, a) | F.scaled_dot_product_attention(a, a, a, is_causal=True) | F.interpolate(a, size=6, mode='linear') | a.unfold(2, 2, 2) | a.norm(dim=(1, 2)) | torch.linalg.matrix_norm(a)
F.scaled_dot_product_attention(a[:, None], a[:, None], a[:, None]) | F.conv_transpose1d(a, torch.ones(2, 3, 2)) | F.fold(a.flatten(1)[:, :4, None], 2, 2) | torch.linalg.vector_norm(a, dim=(0, 2)) | F.softmax(a, 0) | F.unfold(a[:, :, None], (1, 2)) | a.diagonal(0, 1, 2) | a.roll((1, 1), (0, 2)) | a.flip(0, 2) | F.cross_entropy(a, torch.zeros(a.shape[0], 4, dtype=torch.int64))

a[B,4]: {module}
nn.Linear(4, 3)(a) | nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))(a) | nn.LayerNorm(4)(a) | nn.BatchNorm1d(4).eval()(a) | nn.BatchNorm1d(4)(a) | nn.RNN(4, 3)(a[:, None])[0] | nn.LSTM(4, 3)(a[:, None])[0] | nn.GRU(4, 3)(a[:, None])[0] | nn.GRU(4, 3, batch_first=True)(a[:, None])[0]
nn.LSTM(4, 3)(a[None])[0] | nn.GRUCell(4, 3)(a) | nn.LSTMCell(4, 3)(a)[0] | nn.RNNCell(4, 3)(a) | nn.MultiheadAttention(4, 2)(a[:, None], a[:, None], a[:, None])[0] | nn.MultiheadAttention(4, 2)(a[None], a[None], a[None])[0] | nn.TransformerEncoderLayer(4, 2, 8, 0.0)(a[:, None]) | nn.Conv1d(1, 2, 3)(a[:, None])
nn.Conv2d(1, 2, 2)(a.view(-1, 1, 2, 2)) | nn.Bilinear(4, 4, 2)(a, a) | nn.PReLU()(a) | nn.Dropout(0.0)(a) | nn.Softmax(-1)(a) | nn.GroupNorm(2, 4)(a) | nn.RMSNorm(4)(a) | nn.MaxPool1d(2)(a[:, None]) | nn.Flatten()(a[:, None]) | nn.Embedding(3, 2)(torch.zeros(a.shape[0], dtype=torch.int64)) + a.sum()
"""

_OPERAND = re.compile(r"(\w)\[([^\]]*)\]([+?=]|<\d+)?")


class Operand(NamedTuple):
    letter: str
    shape: tuple[int | str, ...]
    kind: str


class Expression(NamedTuple):
    """`text` of operands, some of whose sizes are "B"."""

    text: str
    operands: tuple[Operand, ...]

    @property
    def title(self) -> str:
        shapes = [f"{operand.letter}{list(operand.shape)}".replace("'", "") for operand in self.operands]
        return f"{self.text} of {', '.join(shapes)}"

    @property
    def batches(self) -> Sequence[int]:
        return BATCHES if any(["B" in operand.shape for operand in self.operands]) else [2] * 5


def _shape(text: str) -> tuple[int | str, ...]:
    return tuple([int(size) if size.isdigit() else size for size in text.split(",") if size.strip()])


def _operands(head: str) -> Iterator[tuple[Operand, ...]]:
    operands = [Operand(letter, _shape(shape), kind) for letter, shape, kind in _OPERAND.findall(head)]
    letters = {shape for operand in operands for shape in operand.shape if shape in ("x", "y")}
    if not letters:
        yield tuple(operands)
    for shapes in (
        [(shape,) for shape in SHAPES] if letters == {"x"} else [pair.split("/") for pair in PAIRS.split("|")]
    ):
        stands = {("x",): _shape(shapes[0]), ("y",): _shape(shapes[-1])}
        if letters:
            yield tuple([operand._replace(shape=stands.get(operand.shape, operand.shape)) for operand in operands])


def expressions() -> Iterator[tuple[str, Expression]]:
    """(family, expression) of each."""
    for block in TABLE.strip().split("\n\n"):
        head, *lines = block.splitlines()
        head, form = head.split(": ", 1)
        family = re.search(r"\{(\w+)\}", form)[1]  # type: ignore[index]
        bare = form == f"{{{family}}}"
        texts = itertools.chain(*[line.split(" | " if bare else " ") for line in lines])
        for text in texts:
            name, _, argument = text.partition("(")
            whole = text if bare else form.replace(f"{{{family}}}", name)
            if argument and not bare:
                whole = f"{whole[:-1]}, {argument}"
            for operands in _operands(head):
                yield family, Expression(whole.strip(), operands)


def operands_of(expression: Expression, batch: int, call: int) -> list[Any]:
    """Arrays, other ones in each call."""
    rng = numpy.random.default_rng([batch, call])
    arrays: list[Any] = []
    for _, sizes, kind in expression.operands:
        shape = tuple([batch if size == "B" else size for size in sizes])
        if kind.startswith("<"):
            arrays.append(numpy.asarray(rng.integers(0, int(kind[1:]), shape)))
        elif kind == "?":
            arrays.append(numpy.asarray(rng.random(shape) < 0.5))
        else:
            values = numpy.asarray(rng.uniform(-0.9, 0.9, shape), numpy.float32)
            arrays.append(numpy.asarray(numpy.abs(values) + numpy.float32(1.1)) if kind == "+" else values)
    return arrays


def results_of(expression: Expression, library: Any) -> Callable[..., list[Any]]:
    """A function of leaves that gives what the expression gives, and sets the leaves' gradients."""
    space = {"torch": library, "F": library.nn.functional, "nn": library.nn}
    code = compile(expression.text, "<expression>", "eval")
    letters = [operand.letter for operand in expression.operands]

    def results(*leaves: Any) -> list[Any]:
        library.manual_seed(0)
        value = eval(code, dict(space, **dict(zip(letters, leaves))))
        outputs = list(value) if isinstance(value, (list, tuple)) else [value]
        totals = [
            (output * library.linspace(0.5, 1.5, output.numel()).reshape(output.shape)).sum()
            for output in outputs
            if isinstance(output, library.Tensor) and output.requires_grad and not output.is_complex()
        ]
        if totals:
            sum(totals[1:], totals[0]).backward()
        return outputs

    return results


def leaves_of(expression: Expression, library: Any, arrays: Sequence[Any]) -> list[Any]:
    leaves = [library.from_numpy(array.copy()) for array in arrays]
    for leaf, operand in zip(leaves, expression.operands):
        if leaf.is_floating_point() and operand.kind != "=":
            leaf.requires_grad_()
    return leaves
