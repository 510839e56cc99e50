"""Which ops autocast runs in which dtype: PyTorch's lists, by the names of our ops.

`lower`: in the autocast dtype. `wide`: in float32. `widest`: in the widest dtype among the operands. `around`: in float32, and the result
in the dtype of the first operand (normalizations of half inputs with float32 weights, which PyTorch's kernels take mixed).
Ops that are not listed run in the dtypes they are given.
"""

from __future__ import annotations

__all__ = ["BANNED", "POLICIES"]

_PRODUCTS = (
    "matmul linear convolution scaled_dot_product_attention addmm addmv addr addbmm baddbmm lstm_layer gru_layer rnn_layer "
    "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell conv_transpose1d conv_transpose2d conv_transpose3d "
    "linear_cross_entropy_in_chunks"
)
_LOSSES = (
    "cosine_embedding_loss cross_entropy cross_entropy_of_distributions hinge_embedding_loss kl_div l1_loss margin_ranking_loss "
    "mse_loss multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss huber_loss soft_margin_loss "
    "triplet_margin_loss binary_cross_entropy_with_logits"
)
_ON_CUDA = (
    "acos asin cosh erfinv exp expm1 log log10 log1p log2 pow scalar_power reciprocal rsqrt sinh softplus tan cumprod cumsum prod sum "
    "softmax log_softmax layer_norm add_layer_norm group_norm vector_norm renorm cdist dist pairwise_distance cosine_similarity"
)
_WIDEST = "addcdiv addcmul atan2 cross cat stack scatter_add index_put_at"

# device type -> op -> policy
POLICIES: dict[str, dict[str, str]] = {
    "cuda": dict.fromkeys([*_PRODUCTS.split(), "prelu"], "lower")
    | dict.fromkeys([*_ON_CUDA.split(), *_LOSSES.split()], "wide")
    | dict.fromkeys(_WIDEST.split(), "widest")
    | {"batch_norm": "around", "rms_norm": "around"},
    "cpu": dict.fromkeys(_PRODUCTS.split(), "lower")
    | dict.fromkeys(
        [*_LOSSES.split(), "binary_cross_entropy", "ctc_loss", "prod", "cdist", "quantile", "nanquantile", "trace"],
        "wide",
    )
    | dict.fromkeys(["cat", "stack"], "widest")
    | dict.fromkeys(["batch_norm", "rms_norm", "layer_norm", "add_layer_norm", "group_norm"], "around"),
}

# Ops that are refused on a GPU, and what to do instead.
BANNED: dict[str, str] = {
    "binary_cross_entropy": "nn.functional.binary_cross_entropy and nn.BCELoss are unsafe to autocast. Many models use a sigmoid layer "
    "right before the binary cross entropy layer. In this case, combine the two layers using "
    "nn.functional.binary_cross_entropy_with_logits or nn.BCEWithLogitsLoss, which are safe to autocast."
}
