"""`nn.functional`: the ops of neural networks under PyTorch's names. Nothing is defined here."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from dynograd.interpreter.out_forms import out_forms
from dynograd.interpreter.public_forms import explained
from dynograd.nn import randomized, variants
from dynograd.nn.gumbel import gumbel_softmax
from dynograd.nn.multihead import multi_head_attention_forward
from dynograd.tensor.methods import public_functions
from dynograd.tensor.tensor import Tensor

_names = (
    "add_layer_norm bias_gelu bias_relu bias_silu dropout_add swiglu varlen_attention "  # dynograd's own
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
    "adaptive_max_pool3d affine_grid alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear "
    "binary_cross_entropy binary_cross_entropy_with_logits celu channel_shuffle conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity cross_entropy "
    "ctc_loss dropout dropout1d dropout2d dropout3d elu embedding embedding_bag feature_alpha_dropout fold "
    "fractional_max_pool2d fractional_max_pool3d gaussian_nll_loss gelu glu grid_sample group_norm gumbel_softmax hardshrink hardsigmoid hardswish hardtanh "
    "hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss layer_norm leaky_relu linear linear_cross_entropy "
    "local_response_norm log_softmax logsigmoid lp_pool1d lp_pool2d lp_pool3d margin_ranking_loss "
    "multi_head_attention_forward max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d mish "
    "mse_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss normalize one_hot pad "
    "pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss prelu relu relu6 rms_norm rrelu "
    "scaled_dot_product_attention selu sigmoid silu smooth_l1_loss soft_margin_loss softmax softmin softplus "
    "softshrink softsign tanh tanhshrink threshold triplet_margin_loss triplet_margin_with_distance_loss unfold "
    "upsample upsample_bilinear upsample_nearest rrelu_"
).split()
_inplace = ("celu_ elu_ hardtanh_ leaky_relu_ relu_ selu_ sigmoid_ tanh_ threshold_").split()

_ops = {**out_forms(public_functions()), "multi_head_attention_forward": multi_head_attention_forward}
_ops |= {name: explained(getattr(variants, name)) for name in variants.__all__}
_ops |= {"native_channel_shuffle": _ops["channel_shuffle"]}
_ops |= {
    "gumbel_softmax": gumbel_softmax,
    **{name: explained(getattr(randomized, name)) for name in randomized.__all__},
}
__all__ = [name for name in (*_names, *variants.__all__, "native_channel_shuffle") if name in _ops]
globals().update({name: _ops[name] for name in __all__})
unfold = _ops["im2col"]  # Tensor.unfold is another op
for _name in _inplace:
    if hasattr(Tensor, _name):
        globals()[_name] = getattr(Tensor, _name)
        __all__.append(_name)


def __getattr__(name: str) -> Any:
    alike = get_close_matches(name, __all__, 5)
    raise AttributeError(f"nn.functional has no {name!r}." + (f" It has {', '.join(alike)}." if alike else ""))
