"""Random programs over tensors of many shapes and dtypes, as text that PyTorch and dynograd both run: `program(T, F, x, y, z, i, m)`.

Lines are drawn from a table of forms and run as they are drawn: what is refused is left out and kept beside the program (`refused`), since PyTorch
should refuse it too. Numbers stay small: what grows is squashed. A program gives a list of tensors.
"""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass, field

import numpy as np

import dynograd as dg

# Names in braces: {v} a tensor of floats, {u} another of any shape, {s} another of the same shape where there is one, {i} whole numbers, {m} booleans,
# {d} and {e} dims of {v}, {n} the size of {d}, {k} a number below it, {a} a size, {f} a number.
POINTWISE = """
{v}.tanh() | {v}.sigmoid() | {v}.sin() | {v}.cos() | {v}.abs() | F.relu({v}) | F.gelu({v}) | F.gelu({v}, approximate='tanh') | F.softplus({v}, beta={f}) | F.silu({v}) | F.elu({v}, {f}) | F.celu({v}, {f}) | F.selu({v})
{v}.square() | {v}.clamp(-0.7, 0.6) | {v}.clamp(min={f} - 1) | ({v}.abs() + 0.5).sqrt() | ({v}.abs() + 0.5).log() | ({v} * 0.3).exp() | {v}.atan() | {v} * {f} - 0.25 | 1 / (1.5 + {v}.abs()) | -{v} | {v}.erf() | F.logsigmoid({v})
F.leaky_relu({v}, 0.1) | F.hardtanh({v}, -0.5, 0.4) | F.hardswish({v}) | F.hardsigmoid({v}) | F.mish({v}) | F.relu6({v} * 4) | F.threshold({v}, 0.1, -0.2) | F.softshrink({v}, 0.2) | F.hardshrink({v}, 0.3) | F.tanhshrink({v}) | F.softsign({v})
{v}.pow(2) | {v}.pow(3) | ({v}.abs() + 0.1).pow({f}) | {f} ** {v} | {v}.rsqrt() if {v}.min() > 0.1 else {v} | ({v}.abs() + 0.3).rsqrt() | ({v}.abs() + 0.4).reciprocal() | {v}.expm1() | ({v}.abs()).log1p() | {v}.sinh() | {v}.cosh() | {v}.asinh()
({v} * 0.5).tanh().atanh() | ({v}.tanh() * 0.9).asin() | ({v}.tanh() * 0.9).acos() | {v}.round() + {v} * 0.1 | {v}.floor() * 0.1 + {v} | {v}.ceil() * 0.1 + {v} | {v}.trunc() * {v} | {v}.frac() | {v}.sign() * {v} | {v}.erfc() | {v}.sinc()
{v}.lgamma() if {v}.numel() and {v}.min() > 0.2 else {v} | ({v}.abs() + 1).lgamma() | ({v}.abs() + 1).digamma() | {v}.exp2() | ({v}.abs() + 0.5).log2() | ({v}.abs() + 0.5).log10() | {v}.nan_to_num() | {v}.positive() | {v}.logit(0.2) | {v}.deg2rad() | T.special.i0({v})
T.special.i0e({v}) | T.special.i1({v}) | T.special.ndtr({v}) | T.special.entr({v}.abs()) | T.special.erfcx({v}) | T.special.log_ndtr({v}) | T.special.xlog1py({v}, {v}.abs()) | T.special.xlogy({v}, {v}.abs() + 0.1) | {v}.detach() | {v}.clone() | {v}.contiguous()
{v} + 1 | 2 - {v} | {v} / 2 | {v} // 0.317 * 0.1 + {v} | {v} % 0.7 | {v}.remainder(0.5) | {v}.fmod(0.6) | {v}.to(T.bfloat16).to({v}.dtype) | {v}.to(T.float16).to({v}.dtype) | {v}.to(T.float32).to({v}.dtype) | {v}.double().to({v}.dtype) | T.nn.functional.glu(T.cat([{v}, {v}], {d}), {d})
F.normalize({v}, dim={d}) | F.softmax({v}, {d}) | F.log_softmax({v}, {d}) | F.softmin({v}, {d}) | {v} - {v}.mean({d}, keepdim=True) | {v} / (1 + {v}.abs().sum({d}, keepdim=True)) | {v}.cumsum({d}) * 0.3 | {v}.cumprod({d}) | {v}.logcumsumexp({d})
{v}.flip({d}) | {v}.roll({k}, {d}) | {v}.roll(1) | {v}.renorm(2, {d}, 0.8) | F.layer_norm({v}, {v}.shape[-1:]) | F.layer_norm({v}, {v}.shape[{d} % {v}.dim():]) | F.rms_norm({v}, {v}.shape[-1:], eps=1e-5) | {v}.diff(dim={d}, prepend={v}.narrow({d}, 0, 1))
T.where({v} > {f} - 0.5, {v}, -{v}) | T.where({m}, {v}, 0.5) if {m}.shape == {v}.shape else {v} | {v}.masked_fill({v} > 0.3, {f}) | {v}.where({v} < 0.5, {v} * 2) | T.heaviside({v}, {v}.new_tensor(0.5)) * {v} | {v}.tril() | {v}.triu(-1)
{v}.gradient(dim={d})[0] if isinstance({v}.gradient(dim={d}), (list, tuple)) else {v} | F.dropout({v}, 0.5, False) | F.instance_norm({v}) | F.local_response_norm({v}, 2) | {v}.detach() * 0.1 + {v} | T.utils.checkpoint.checkpoint(helper, {v}, use_reentrant=False) | Scaled.apply({v}, {f})
"""
BINARY = """
{v} + {u} | {v} - {u} | {v} * {u} | {v} / (1 + {u}.abs()) | T.maximum({v}, {u}) | T.minimum({v}, {u}) | T.where({v} > {u}, {v}, {u} * 0.5) | T.where({v} > 0, {u}, {v}) | T.lerp({v}, {u}, {f}) | T.atan2({v}, {u} + 3) | T.hypot({v}, {u}) | T.logaddexp({v}, {u})
T.fmax({v}, {u}) | T.fmin({v}, {u}) | T.copysign({v}, {u}) | T.fmod({v}, {u}.abs() + 0.5) | T.remainder({v}, {u}.abs() + 0.5) | T.addcmul({v}, {u}, {u}, value={f}) | T.addcdiv({v}, {u}, {u}.abs() + 1) | ({v}.abs() + 0.2).pow({u}) | {v}.dist({u}) | T.add({v}, {u}, alpha={f})
T.sub({v}, {u}, alpha=2) | {v}.clamp({u} - 0.5, {u} + 0.5) | {v}.clamp(max={u}) | T.xlogy({v}, {u}.abs() + 0.2) | {v}.sub({u}).abs() | {v}.mul({u}.sign()) | T.logaddexp2({v}, {u}) | {v}.true_divide({u}.abs() + 0.5) | T.div({v}, {u}.abs() + 0.5, rounding_mode='floor') * 0.1 + {v}
F.mse_loss({v}, {s}) | F.l1_loss({v}, {s}, reduction='none') | F.smooth_l1_loss({v}, {s}, beta={f}) | F.huber_loss({v}, {s}, reduction='sum', delta=0.4) * 0.1 | F.binary_cross_entropy_with_logits({v}, {s}.sigmoid()) | F.binary_cross_entropy({v}.sigmoid(), {s}.sigmoid(), reduction='none') | F.kl_div({v}.log_softmax(-1), ({s} * 0.7).softmax(-1), reduction='batchmean')
F.soft_margin_loss({v}, {s}.sign()) | F.poisson_nll_loss({v}, {s}.abs()) | F.gaussian_nll_loss({v}, {s}, {s}.abs() + 0.1) | F.hinge_embedding_loss({v}, {s}.sign()) | F.cosine_similarity({v}, {s}, dim={d}) | F.pairwise_distance({v}, {s}) | F.cosine_embedding_loss({v}, {s}, {v}.new_ones({v}.shape[:1]))
T.stack([{v}, {s}], {d}) | T.stack([{v}, {s}], -1).amax(-1) | T.cat([{v}, {s}], {d}) | T.cat([{v}, {u}], {d}) | {v} @ {u} | {v} @ {s}.mT | {v}.mT @ {s} | T.matmul({v}, {u}.transpose(-1, -2)) | F.linear({v}, {s}) | T.einsum('...i,...i->...', {v}, {s}) | T.einsum('ij,ij->j', {v}, {s}) | T.einsum('ij,kj->ik', {v}, {s}) | T.einsum('bij,bkj->bik', {v}, {s})
T.einsum('ij,j->i', {v}, {s}[0]) | T.tensordot({v}, {s}, ([{d}], [{d}])) | T.outer({v}.flatten()[:4], {u}.flatten()[:3]) | T.inner({v}, {s}) | T.kron({v}, {u}) if {v}.numel() * {u}.numel() < 60 else {v} | T.cdist({v}, {s}) | T.cross({v}, {s}, dim={d}) | T.linalg.vecdot({v}, {s}) | T.dot({v}.flatten(), {s}.flatten()) | T.baddbmm({v}, {v}, {v}) | T.addmm({v}, {v}, {v}) | T.bmm({v}, {s}.mT)
T.addmv({v}[:, 0], {v}, {s}[0]) | T.addr({v}, {v}[:, 0], {v}[0]) | F.bilinear({v}, {s}, {v}.new_ones(2, {v}.shape[-1], {v}.shape[-1]) * 0.1) | F.scaled_dot_product_attention({v}, {s}, {s} * 0.5) | F.scaled_dot_product_attention({v}, {v}, {s}, is_causal=True) | {v}.masked_scatter({v} > 0, {s} * 2) | {v}.index_add({d}, T.zeros({n}, dtype=T.long), {s}) | {v}.index_copy({d}, T.arange({n}), {s})
{v}.scatter_add({d}, T.arange({n}).flip(0).reshape([-1 if q == {d} % {v}.dim() else 1 for q in range({v}.dim())]).expand({v}.shape), {s}) | {v}.expand_as({u}) | {v}.broadcast_to({u}.shape) | T.broadcast_tensors({v}, {u})[0] | {v}.view_as({s}) | {v}.type_as({u}) | T.block_diag(T.atleast_2d({v}), {u}) | T.vdot({v}.flatten(), {s}.flatten()) | T.cartesian_prod({v}.flatten()[:3], {u}.flatten()[:2]) | T.ldexp({v}, {u}.detach().round().clamp(-2, 2))
"""
REDUCTIONS = """
{v}.sum() | {v}.mean() | {v}.sum({d}) | {v}.mean({d}, keepdim=True) | {v}.amax({d}) | {v}.amin({d}, keepdim=True) | {v}.max({d}).values | {v}.min({d})[0] | {v}.prod({d}) | {v}.prod() | {v}.std({d}) if {n} > 1 else {v} | {v}.var({d}, correction=0) | {v}.logsumexp({d}) | {v}.norm() | {v}.norm(dim={d}) | {v}.norm(1, {d}) | {v}.norm(p=float('inf'), dim={d})
{v}.max() | {v}.min() | {v}.amax() | {v}.aminmax(dim={d}).max | {v}.median() | {v}.median({d}).values | {v}.nanmean({d}) | {v}.nansum() | {v}.quantile(0.3, {d}) | {v}.quantile(0.5) | {v}.kthvalue({k} + 1, {d}).values | {v}.sort({d}).values | {v}.sort({d}, descending=True)[0] | {v}.topk({k} + 1, {d}).values | {v}.topk(1, {d}, largest=False)[0] | {v}.cummax({d}).values | {v}.cummin({d})[0]
{v}.argmax({d}).to({v}.dtype) * 0.1 | {v}.argmin().to({v}.dtype) * 0.1 | {v}.argsort({d}).to({v}.dtype) * 0.1 | {v}.count_nonzero({d}).to({v}.dtype) * 0.1 | ({v} > 0).any({d}).to({v}.dtype) | ({v} > 0).all().to({v}.dtype) | ({v} > 0).sum({d}) * {f} | T.linalg.vector_norm({v}, 3, {d}) | T.linalg.matrix_norm({v}) | T.std_mean({v}, {d}, correction=0)[0] + T.std_mean({v}, {d}, correction=0)[1] | T.var_mean({v}, correction=0)[0] | {v}.trace() | T.trapezoid({v}, dim={d}) | T.cumulative_trapezoid({v}, dim={d}) | {v}.sum(({d}, {e})) | {v}.mean(({d}, {e}), keepdim=True) | {v}.amax(({d}, {e})) | {v}.var(({d}, {e}), correction=0)
T.cov({v}) | T.corrcoef({v}) | {v}.sum_to_size({v}.shape) | {v}.sum_to_size(1) | T.logsumexp({v}, ({d}, {e})) | {v}.histc(4, -2, 2).to({v}.dtype) * 0.1 | T.linalg.det({v} + T.eye({v}.shape[-1], dtype={v}.dtype) * 2) | T.linalg.slogdet({v} + T.eye({v}.shape[-1], dtype={v}.dtype) * 3)[1] | T.linalg.inv({v} * 0.2 + T.eye({v}.shape[-1], dtype={v}.dtype)) | T.linalg.solve({v} * 0.2 + T.eye({v}.shape[-1], dtype={v}.dtype), {v}) | T.linalg.matrix_exp({v} * 0.3) | T.linalg.matrix_power({v}, 2) | T.linalg.svdvals({v}) | T.linalg.cholesky({v} @ {v}.mT + T.eye({v}.shape[-2], dtype={v}.dtype)) | T.linalg.eigvalsh({v} + {v}.mT) | T.linalg.qr({v})[1].abs()
"""
VIEWS = """
{v}.transpose({d}, {e}) | {v}.mT | {v}.movedim({d}, {e}) | {v}.flatten() | {v}.reshape(-1) | {v}.reshape(-1, {v}.shape[-1]) | {v}.unsqueeze({d}) | {v}.squeeze() | {v}.squeeze({d}) | {v}.narrow({d}, {k}, 1) | {v}.select({d}, {k}) | {v}[{k}:] | {v}[..., ::2] | {v}[None] | {v}[..., None, :] | {v}[::2, None] | {v}.chunk(2, {d})[-1] | {v}.split(1, {d})[{k}] | {v}.unbind({d})[{k}] | {v}.tensor_split(2, {d})[0]
{v}.expand(2, *{v}.shape) | {v}.unsqueeze({d}).expand(*{v}.unsqueeze({d}).shape) | {v}.repeat(2, *[1] * ({v}.dim() - 1)) | {v}.repeat_interleave(2, {d}) if {v}.dim() else {v} | {v}.tile(2) | {v}.diagonal() | {v}.diagonal(1, {d}, {e}) | {v}.unfold({d}, 1, 1) | {v}.unfold({d}, 2, 1) | {v}.permute(*range({v}.dim())[::-1]) | {v}.swapaxes(0, -1) | {v}.t() | {v}.view({v}.shape) | {v}.view(-1) | {v}.ravel() | {v}.rot90() | {v}.diag_embed() | {v}.flatten()[:6].diag() | {v}.contiguous().as_strided(({n},), (1,)) | {v}.unflatten({d}, (-1, 1)) | {v}.hsplit(1)[0] | T.atleast_3d({v})
F.pad({v}, (1, 2)) | F.pad({v}, (0, 1), value={f}) | F.pad({v}, (-1, 1)) | F.pad({v}, (1, 1), mode='reflect') | F.pad({v}, (1, 1), mode='replicate') | F.pad({v}, (1, 1), mode='circular') | F.pad({v}, (1, 0, 0, 1)) | T.cat([{v}, {v} * 2], {d}) | T.stack([{v}, {v} + 1], {d}) | T.hstack([{v}, {v}]) | T.vstack([{v}, {v}]) | T.dstack([{v}, {v}]) | {v}[[0, -1]] | {v}[T.tensor([0, 0])] | {v}[..., T.tensor([0])] | {v}[:, [0, 0]] | {v}[{v} > 0] | {v}[{v}[..., 0] > 0] | {v}[{m}] | {v}[{i} % {v}.shape[0]] | {v}[{i} % {v}.shape[0], 0] | {v}[[0], [-1]] | {v}[0, ..., -1]
{v}.index_select({d}, T.tensor([{k}, 0])) | {v}.gather({d}, T.zeros([1 if q == {d} % {v}.dim() else {v}.shape[q] for q in range({v}.dim())], dtype=T.long)) | {v}.gather({d}, {v}.argsort({d})) | {v}.take(T.tensor([0, {v}.numel() - 1])) | {v}.take_along_dim({v}.argmax({d}, keepdim=True), {d}) | {v}.masked_select({v} > 0) | {v}.scatter({d}, {v}.argmax({d}, keepdim=True), {f}) | {v}.scatter_reduce({d}, T.zeros({v}.shape, dtype=T.long), {v} * 2, 'sum') | {v}.scatter_reduce({d}, T.zeros({v}.shape, dtype=T.long), {v} + 2, 'mean', include_self=False)
{v}.index_fill({d}, T.tensor([{k}]), {f}) | {v}.index_put((T.tensor([0, 0]),), {v}[0] * 0.5, accumulate=True) | {v}.select_scatter({v}.select({d}, 0) * 2, {d}, {k}) | {v}.slice_scatter({v}.narrow({d}, 0, 1) * 2, {d}, {k}, {k} + 1) | {v}.diagonal_scatter({v}.diagonal() * 3) | {v}.index_reduce({d}, T.zeros({n}, dtype=T.long), {v} + 2, 'amax') | {v}.detach().unique().amax() * {v} | {v}.flip(0) | {v}.fliplr() | {v}.tensor_split([{k}], {d})[1] | T.tril_indices(2, 2)[0] + {v}.sum() | {v}.view({v}.dtype) | {v}.new_zeros(2, 2) + {v}.mean() | T.zeros_like({v}) + {v}[..., :1]
F.one_hot({i}.abs() % 4, 4).to({v}.dtype) * {v}.mean() | F.embedding({i} % {v}.shape[0], {v}) | F.embedding_bag({i}.reshape(1, -1) % {v}.shape[0], {v}, mode='sum') | {v}.flatten()[{i} % {v}.numel()] | T.bincount({i}.flatten() % 3, minlength=3) * {v}.mean() | {v}[{i} % {v}.shape[0]].sum(0) | T.bucketize({v}.detach(), T.tensor([-0.5, 0.0, 0.5], dtype={v}.dtype)) * {v} | T.searchsorted(T.tensor([-0.5, 0.0, 0.5], dtype={v}.dtype), {v}.detach()) * {v} | F.cross_entropy({v}, {v}.argmin(1)) | F.nll_loss({v}.log_softmax(1), {v}.argmin(1), reduction='none')
F.multi_margin_loss({v}, {v}.argmin(1)) | F.cross_entropy({v}, {v}.detach().softmax(1), label_smoothing=0.1) if {v}.numel() else {v} | F.cross_entropy({v}, {v}.argmin(1), weight={v}.new_ones({v}.shape[1]) * 2) | F.multilabel_soft_margin_loss({v}, ({v} > 0).to({v}.dtype)) if {v}.numel() else {v} | F.triplet_margin_loss({v}, {v} * 0.5, {v} + 1)
F.conv1d({v}, {v}.new_ones(2, {v}.shape[-2], 2) * 0.2, padding=1) | F.conv1d({v}, {v}.new_ones({v}.shape[-2], 1, 3) * 0.2, padding='same', groups={v}.shape[-2]) | F.conv2d({v}[None, None], {v}.new_ones(2, 1, 2, 2) * 0.3, padding=1, stride=2) | F.conv_transpose1d({v}, {v}.new_ones({v}.shape[-2], 2, 2) * 0.2, stride=2) | F.avg_pool1d({v}, 2, 1) | F.max_pool1d({v}, 2, 1) | F.adaptive_avg_pool1d({v}, 2) | F.adaptive_max_pool1d({v}, 2) | F.avg_pool2d({v}[None], 2, 1, 1) | F.max_pool2d({v}[None], 2, 2, 1) | F.interpolate({v}[None, None], scale_factor=2) | F.interpolate({v}[None], size=3, mode='linear') | F.unfold({v}[None, None], 2, padding=1) | F.lp_pool1d({v}, 2, 2) | F.interpolate({v}[None, None], size=(3, 4), mode='bilinear', align_corners=True) | F.pixel_shuffle({v}.flatten()[:4].reshape(4, 1, 1), 2)
F.batch_norm({v}, None, None, training=True) | F.group_norm({v}, 1) | F.batch_norm({v}, {v}.new_zeros({v}.shape[1]), {v}.new_ones({v}.shape[1])) | T.fft.rfft({v}, dim={d}).abs() | T.fft.ifft(T.fft.fft({v}, dim={d}), dim={d}).real | T.fft.irfft(T.fft.rfft({v}), {v}.shape[-1]) | T.view_as_real(T.complex({v}, {v} * 0.5))[..., 0] | T.polar({v}.abs() + 0.1, {v}).imag | T.complex({v}, {v} + 1).abs() | T.vander({v}.flatten()[:3], 3) | T.cumsum({v}.flatten(), 0)[-1] | T.combinations({v}.flatten()[:4]).prod(1)
"""
# Lines that write into a tensor `t`, which is new, a view of one that is new, or that tensor behind a view of it.
WRITES = """
t.mul_({f}) | t.add_({u}) | t.tanh_() | t.clamp_(-0.5, 0.5) | t[..., 0] = {f} | t[..., 1:] *= 0.5 | t.sub_({u}, alpha=0.1) | t.sigmoid_() | t[0] = t[-1] * 2 | t.zero_() | t.fill_({f}) | t.copy_({u}) | t.masked_fill_(t > 0.2, 0.1) | t[t > 0] = 0.3 | t[t < 0] *= 2 | t.t_() | t.transpose_(0, -1) | t.unsqueeze_(0) | t.squeeze_()
t.index_fill_(0, T.tensor([0]), 0.2) | t.index_add_(0, T.zeros(t.shape[0], dtype=T.long), t.detach() * 0.5) | t.scatter_(0, T.zeros(t.shape, dtype=T.long), 0.7) | t.diagonal().add_(1) | t.view(-1)[0] += 1 | t.select(0, 0).mul_({u}) | t.narrow(-1, 0, 1).exp_() | t.neg_().relu_() | t.pow_(2) | t.div_(2).sin_() | t.lerp_({u}, 0.5) | t.addcmul_({u}, {u}, value=0.3) | t += {u} | t *= {u} | t /= 2 | t -= t.mean()
t.unbind(0)[0].add_(1) | t.chunk(2, -1)[0].mul_(0.5) | t.index_put_((T.tensor([0, 0]),), t[0].detach().clone(), accumulate=True) | t[[0, 0]] = 0.4 | t[..., -1] += {f} | t.mT.mul_(0.5) | t.T[0] = 0.1 | t.unsqueeze(0).sub_(0.1) | t.clamp_min_(0.1) | t.abs_() | t.detach().add_(0.0) | t.fill_diagonal_(0.3) | t.tril_() | t.cumsum_(0) | t.round_() | t.masked_scatter_(t > 0, {u}.flatten().repeat(64)) | t.expand(2, *t.shape)[0].mul_(2) | t.permute(*range(t.dim())[::-1]).mul_(0.9) | t.copysign_({u}) | t.fmod_(0.7) | t.add_(0)
"""
# Lines with more below them, or that change how what follows is computed.
MODES = """
with T.no_grad():: o = {v} * {f} | with T.enable_grad():: o = {v}.sin() | if {v}.sum() > 0:: o = {v} * 2:: else:: o = {v} - 1 | o = {v} * 1:: for q in range({k} + 1):: o = o * 0.5 + q | o = {v} * 1.0:: if o.requires_grad:: o.register_hook(lambda g: g * 0.5)
o = {v} * 2.0:: if o.requires_grad:: o.register_hook(lambda g: kept.append(g) or g.clamp(-1, 1)) | o = {v} + 0.0:: if o.requires_grad:: o.retain_grad(); kept_leaves.append(o) | o = 0:: for row in {v}.unbind(0):: o = o * 0.5 + row.tanh() | o = {v}.detach().requires_grad_():: o = {v} * T.autograd.grad(o.sin().square().sum(), o)[0]
o = {v} * T.autograd.grad({v}.tanh().square().sum(), {v}, create_graph=True)[0] if {v}.requires_grad else {v} | o = T.func.grad(lambda q: (q.sin() * q).sum())({v}) | o = T.func.vmap(lambda q: q.tanh() * q.sum())({v}) | o = T.func.jvp(lambda q: q.sin() * q, ({v},), ({v}.detach(),))[1] | o = T.func.vjp(lambda q: q.sigmoid().sum(-1), {v})[0] | o = T.func.jacrev(lambda q: q.flatten()[:2].square())({v})
o = T.func.hessian(lambda q: q.sin().sum())({v}.flatten()[:3]) | o = T.func.vmap(lambda q: q.cumsum(0).flip(0), in_dims={d}, out_dims=0)({v}) if {v}.dim() > 1 else {v} | with T.autograd.graph.save_on_cpu():: o = {v}.sin() * {v} | try:: o = {v}.view(3, 5, 7):: except RuntimeError:: o = {v} * 0.5 | o = {v}.sum().item() * {v} | o = len({v}) * {v} | o = {v} * {v}.shape[0] / ({v}.numel() + 1) | while True:: o = {v}.relu(); break
with T.autocast('cpu', dtype=T.bfloat16):: o = ({v}.float().reshape(1, -1) @ {v}.float().reshape(-1, 1)).to({v}.dtype) | o = T.utils.checkpoint.checkpoint(lambda q: q.sin().cumsum(0) * q, {v}, use_reentrant=False) | with T.no_grad():: o = {v}.clone(); o.mul_(2) | o = sum(p.square().sum() for p in {v}.split(1, {d})) | o = T.stack([p.max() for p in {v}.unbind({d})]) | o = max({v}.flatten().tolist()) * {v} | o = {v} if bool(({v} > 10).any()) else {v}.cos()
"""
# Layers and optimizers; `layer` makes one with known weights of the dtype of a tensor.
LAYERS = """
layer(T, {v}, 'Linear', {v}.shape[-1], 3)({v}) | layer(T, {v}, 'Linear', {v}.shape[-1], 2, bias=False)({v}).tanh() | layer(T, {v}, 'LSTM', {v}.shape[-1], 2, batch_first=True)({v})[0] | layer(T, {v}, 'LSTM', {v}.shape[-1], 2, 2, bidirectional=True)({v})[1][1] | layer(T, {v}, 'LSTM', {v}.shape[-1], 3, proj_size=2)({v})[0]
layer(T, {v}, 'GRU', {v}.shape[-1], 2)({v})[0] | layer(T, {v}, 'GRU', {v}.shape[-1], 2, bidirectional=True, batch_first=True)({v})[1] | layer(T, {v}, 'RNN', {v}.shape[-1], 3, nonlinearity='relu')({v})[0] | layer(T, {v}, 'LSTMCell', {v}.shape[-1], 2)({v})[1] | layer(T, {v}, 'GRUCell', {v}.shape[-1], 2)({v}) | layer(T, {v}, 'RNNCell', {v}.shape[-1], 2)({v})
layer(T, {v}, 'MultiheadAttention', {v}.shape[-1], 1, batch_first=True)({v}, {s}, {s})[0] | layer(T, {v}, 'MultiheadAttention', {v}.shape[-1], 1)({v}, {v}, {v})[1] | layer(T, {v}, 'MultiheadAttention', 4, 2, kdim={v}.shape[-1], vdim={v}.shape[-1])(F.pad({v}, (0, 4 - {v}.shape[-1])), {v}, {s})[0] | layer(T, {v}, 'TransformerEncoderLayer', {v}.shape[-1], 1, 4, 0.0, batch_first=True)({v}) | layer(T, {v}, 'TransformerDecoderLayer', {v}.shape[-1], 1, 4, 0.0, norm_first=True)({v}, {s})
layer(T, {v}, 'Conv1d', {v}.shape[-2], 2, 2)({v}) | layer(T, {v}, 'Conv1d', {v}.shape[-2], 2, 3, padding=2, dilation=2, stride=2)({v}) | layer(T, {v}, 'Conv2d', 1, 2, 2, padding=1)({v}[None, None]) | layer(T, {v}, 'ConvTranspose1d', {v}.shape[-2], 2, 3, stride=2, output_padding=1)({v}) | layer(T, {v}, 'Conv2d', {v}.shape[-3], 2 * {v}.shape[-3], 1, groups={v}.shape[-3])({v})
layer(T, {v}, 'BatchNorm1d', {v}.shape[1])({v}) | layer(T, {v}, 'BatchNorm1d', {v}.shape[1], momentum=None)({v}).sin() | layer(T, {v}, 'BatchNorm1d', {v}.shape[1]).eval()({v}) | layer(T, {v}, 'BatchNorm2d', {v}.shape[1], affine=False)({v}) | layer(T, {v}, 'LayerNorm', {v}.shape[-1])({v}) | layer(T, {v}, 'RMSNorm', {v}.shape[-1], eps=1e-5)({v}) | layer(T, {v}, 'GroupNorm', 1, {v}.shape[1])({v}) | layer(T, {v}, 'InstanceNorm1d', {v}.shape[1], affine=True)({v})
layer(T, {v}, 'PReLU')({v}) | layer(T, {v}, 'PReLU', {v}.shape[1])({v}) | layer(T, {v}, 'Embedding', 4, 3)({i}.abs() % 4) * {v}.mean() | layer(T, {v}, 'Embedding', 4, 3, padding_idx=0, max_norm=0.5)({i}.abs() % 4) * {v}.mean() | layer(T, {v}, 'EmbeddingBag', 4, 3)({i}.reshape(1, -1).abs() % 4) * {v}.sum() | layer(T, {v}, 'Bilinear', {v}.shape[-1], {s}.shape[-1], 2)({v}, {s}) | T.nn.Flatten()({v}) | T.nn.Unflatten(1, (-1, 1))({v}) | T.nn.Threshold(0.1, 0.3)({v}) | T.nn.Softmax2d()({v})
T.nn.Upsample(scale_factor=2)({v}[None]) | T.nn.MaxPool1d(2, 1, return_indices=True)({v})[0] | T.nn.MaxUnpool1d(2)(*T.nn.MaxPool1d(2, return_indices=True)({v})) | T.nn.ZeroPad1d(1)({v}) | T.nn.ReflectionPad1d(1)({v}) | T.nn.ChannelShuffle(1)({v}[None]) | T.nn.PixelUnshuffle(1)({v}[None]) | T.nn.CosineSimilarity({d})({v}, {s}) | T.nn.MultiLabelMarginLoss()({v}, {v}.argsort(-1)) | T.nn.CTCLoss()({v}.log_softmax(-1)[:, None], T.ones(1, 1, dtype=T.long), T.tensor([{v}.shape[0]]), T.tensor([1])) if {v}.dim() > 1 and {v}.shape[-1] > 1 else {v}
T.nn.utils.rnn.pad_sequence([{v}, {v}[:1]]) | T.nn.utils.rnn.pad_packed_sequence(T.nn.utils.rnn.pack_padded_sequence({v}, [{v}.shape[0]] * {v}.shape[1]))[0] | layer(T, {v}, 'GRU', {v}.shape[-1], 2)(T.nn.utils.rnn.pack_padded_sequence({v}, [{v}.shape[0]] * {v}.shape[1]))[1] | T.nn.utils.parametrizations.weight_norm(layer(T, {v}, 'Linear', {v}.shape[-1], 3))({v}) | T.func.functional_call(layer(T, {v}, 'Linear', {v}.shape[-1], 2), {{'bias': {v}.flatten()[:2]}}, ({v},)) | T.nn.Sequential(layer(T, {v}, 'Linear', {v}.shape[-1], 2), T.nn.GELU(), T.nn.LogSoftmax(-1))({v})
stepped(T, {v}, 'SGD', lr=0.1, momentum=0.9, nesterov=True) | stepped(T, {v}, 'Adam', lr=0.1, amsgrad=True) | stepped(T, {v}, 'AdamW', lr=0.1) | stepped(T, {v}, 'RMSprop', lr=0.1, centered=True) | stepped(T, {v}, 'Adagrad', lr=0.1, lr_decay=0.1) | stepped(T, {v}, 'Adadelta') | stepped(T, {v}, 'Adamax', lr=0.1) | stepped(T, {v}, 'NAdam', lr=0.1) | stepped(T, {v}, 'RAdam', lr=0.1) | stepped(T, {v}, 'ASGD', lr=0.1) | stepped(T, {v}, 'Rprop', lr=0.1) | stepped(T, {v}, 'LBFGS', lr=0.1) | clipped(T, {v}, 0.5)
"""
HEAD = """
def _scaled(T):
    class Scaled(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.save_for_backward(x)
            ctx.factor = factor
            return x.sin() * factor
        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return g * x.cos() * ctx.factor, None
    return Scaled

def helper(x):
    return x.tanh() * x + 0.1

def layer(T, like, name, *args, **kwargs):
    made = getattr(T.nn, name)(*args, **kwargs).to(like.dtype).to(like.device)
    with T.no_grad():
        for number, p in enumerate(made.parameters()):
            p.copy_((T.arange(p.numel(), dtype=T.float64, device=p.device) * 1.3 + number).cos().reshape(p.shape) * 0.4)
    return made

def stepped(T, x, name, **options):
    p = x.detach().clone().requires_grad_()
    optimizer = getattr(T.optim, name)([p], **options)
    def closure():
        optimizer.zero_grad()
        loss = (p.sin() * p).sum()
        loss.backward()
        return loss
    for _ in range(3):
        optimizer.step(closure)
    return p.detach() + x

def clipped(T, x, limit):
    p = x.detach().clone().requires_grad_()
    p.square().sum().backward()
    norm = T.nn.utils.clip_grad_norm_([p], limit)
    return p.grad * x + norm
"""


def _forms(text: str) -> list[str]:
    return [form.strip() for line in text.strip().splitlines() for form in line.split(" | ")]


KINDS = {
    "pointwise": _forms(POINTWISE),
    "binary": _forms(BINARY),
    "reduction": _forms(REDUCTIONS),
    "view": _forms(VIEWS),
    "write": _forms(WRITES),
    "mode": _forms(MODES),
    "layer": _forms(LAYERS),
}
_WEIGHTS = [5, 4, 2.5, 4, 2, 1.5, 2]
LARGEST = 400  # elements
# Whose derivative jumps where elements are equal or 0: what rounds otherwise gives another.
EDGED = ("std", "norm", "dist", "corrcoef", "cosine", "svdvals", "eigvalsh", "qr(", "lp_pool")


@dataclass
class TensorProgram:
    """A program, its inputs, and lines that dynograd has refused, each with the number of lines before it."""

    seed: int
    lines: list[str] = field(default_factory=list)
    inputs: list[np.ndarray] = field(default_factory=list)
    refused: list[tuple[int, str, str]] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.text_of(self.lines, self.results)

    @staticmethod
    def text_of(lines: list[str], results: list[str]) -> str:
        body = [
            "Scaled, kept, kept_leaves = _scaled(T), [], []",
            *lines,
            f"return [{', '.join(results)}], kept, kept_leaves",
        ]
        return HEAD + "\ndef program(T, F, x, y, z, i, m):\n" + "".join(f"    {line}\n" for line in body)

    def function(self, text: str | None = None):
        names: dict = {}
        exec(compile(text or self.text, f"<program {self.seed}>", "exec"), names)
        return names["program"]


def _has_equals(names: dict, slots: dict) -> bool:
    for name in (slots["v"], slots["s"]):
        array = np.sort(names[name].detach().double().numpy().reshape(-1))
        if array.size and (np.abs(array).min() < 1e-6 or np.diff(array).min(initial=1) < 1e-6):
            return True
    return False


def _lines(name: str, kind: str, form: str, base: str, draw: random.Random) -> list[str]:
    """The lines of a form: what it gives is called `name`."""
    if kind == "mode":
        lines, depth = [], 0
        for part in form.split(":: "):
            text = part.strip()
            header = text.startswith(("with ", "if ", "for ", "else", "try", "except", "while "))
            if text.startswith(("else", "except")):
                depth = 0
            lines.append("    " * depth + text + (":" if header else ""))
            depth += header
        return [*lines, f"{name} = o"]
    if kind == "write":
        lines = [f"t = {base}"]
        if draw.random() < 0.4:
            lines = [
                f"b = {base}",
                f"t = {draw.choice(['b[..., :2]', 'b.transpose(0, -1)', 'b.view(-1)', 'b[0]', 'b.unsqueeze(0)', 'b.detach()', 'b.narrow(0, 0, 1)', 'b.diagonal()'])}",
            ]
        lines.append(form)
        return [*lines, f"{name} = {draw.choice(['b', 'b', 't', 'b * t.sum()']) if lines[0][0] == 'b' else 't'}"]
    return [f"{name} = {form}"]


def make(seed: int, length: int | None = None) -> TensorProgram:
    """The program of a seed."""
    draw = random.Random(seed)
    numbers = np.random.default_rng(seed)
    program = TensorProgram(seed)
    sizes = [draw.choice([1, 2, 3, 4, 3, 2, 0] if draw.random() < 0.1 else [1, 2, 3, 4, 3, 2]) for _ in range(3)]
    shapes = [
        [],
        sizes[:1],
        sizes[:2],
        sizes[:2],
        sizes[:2],
        sizes[:3],
        sizes[1:],
        [sizes[0], sizes[0]],
        [2, *sizes[:2]],
        [1, sizes[1]],
        [2, 1, *sizes[:2]],
    ]
    chosen = [draw.choice(shapes) for _ in range(3)]
    if draw.random() < 0.6:
        chosen[1] = chosen[0]
    program.inputs = [numbers.normal(size=shape) for shape in chosen]
    program.inputs += [numbers.integers(0, 5, draw.choice([[], [2], [3], [2, 2]])), numbers.random(chosen[0]) > 0.4]
    names: dict = {"T": dg, "F": dg.nn.functional, "kept": [], "kept_leaves": []}
    exec(compile(HEAD, "<head>", "exec"), names)
    names["Scaled"] = names["_scaled"](dg)
    for name, array in zip("xyzim", program.inputs, strict=True):
        names[name] = dg.tensor(array)
        if name in "xy":
            names[name].requires_grad_()
    floats = ["x", "y", "z"]
    used: set[str] = set()
    for number in range(length or draw.randint(3, 12)):
        kind = draw.choices(list(KINDS), _WEIGHTS)[0]
        v = draw.choice(floats[-4:] if draw.random() < 0.8 else floats)
        value = names[v]
        same = [name for name in floats if names[name].shape == value.shape and name != v] or [v]
        d = draw.randrange(-value.dim(), value.dim()) if value.dim() else -1
        e = draw.randrange(-value.dim(), value.dim()) if value.dim() else 0
        n = value.shape[d] if value.dim() else 1
        slots = dict(
            v=v,
            u=draw.choice(floats),
            s=draw.choice(same),
            i="i",
            m="m",
            d=d,
            e=e,
            n=n,
            k=draw.randrange(n) if n else 0,
            f=draw.choice([0.5, 0.25, 1.5, 0.8]),
        )
        name = f"v{number}"
        base = f"{v} * 1.0"
        form = draw.choice(KINDS[kind])
        lines = _lines(name, kind, form.format(**slots), base, draw)
        scope = dict(names)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile("\n".join(lines), "<line>", "exec"), scope)
                result = scope[name]
                if not isinstance(result, dg.Tensor):
                    raise TypeError("no tensor")
        except Exception as error:
            program.refused.append((len(program.lines), "\n".join(lines), f"{type(error).__name__}: {error}"))
            continue
        if not result.is_floating_point() or result.numel() > LARGEST or result.dim() > 5:
            continue
        if any(word in lines[0] for word in EDGED) and _has_equals(names, slots):
            continue
        if "conv" in form and not value.numel():  # of nothing PyTorch gives other shapes than it says
            continue
        array = result.detach().double().numpy()
        if not np.isfinite(array).all():
            continue
        if array.size and np.abs(array).max() > 8:
            lines.append(f"{name} = ({name} * 0.1).tanh()")
            scope[name] = (result * 0.1).tanh()
        used.update(part for part in (slots["v"], slots["u"], slots["s"]) if f"{part}" in " ".join(lines))
        program.lines += lines
        names[name] = scope[name]
        floats.append(name)
    program.results = [name for name in floats[3:] if name not in used] or floats[-1:]
    return program
