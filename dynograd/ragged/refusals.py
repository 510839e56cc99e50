"""What ragged tensors refuse, each with the reason and the way out; and the ops below others, which only ever see packed elements."""

from __future__ import annotations

from typing import Any

from dynograd.ragged.calls import Call, ragged_rule

__all__ = ["INNER", "REFUSED"]

REFUSED = {
    "it reads memory by strides, and rows of different lengths have none in common. Use slices, or x.values().": """
        as_strided as_strided.public as_strided_copy as_strided_scatter""",
    "the sum to a shape would add elements of different rows. Use x.sum(dim).": "sum_to_size",
    "sizes of the batch are given as numbers, and rows have different ones. Use group_norm or batch_norm.": """
        native_group_norm native_batch_norm""",
    "a ragged tensor has its segments already: x.sum(1), x.mean(1), x.amax(1), x.prod(1).": """
        segment_reduce segment_sum segment_spread segment_extreme segment_product
        segment_cumsum segment_softmax""",
    "sparse products take dense tensors; use x.values() for the elements of all rows.": """
        sparse_product sparse_transposed_product sparse_sampled""",
}

# Ops that compute gradients, or parts of other ops: the faces above them have ragged rules, so these get packed elements or dense groups.
INNER = frozenset(
    """sum_to basic_fill basic_put index index_backward index_put_at gather_backward repeat_backward repeat_interleave
    repeat_interleave_backward sum_runs mirrored_pad mirrored_pad_backward tie_shares diagonal_backward diagonal_put unfold_backward
    embedding embedding_backward max_pool max_pool_values max_pool_places adaptive_max_pool adaptive_max_pool_places max_unpool
    avg_pool avg_pool_backward adaptive_avg_pool adaptive_avg_pool_backward batch_norm moved_statistics convolution_input_gradient
    convolution_weight_gradient cross_entropy nll_loss cross_entropy_of_distributions ctc_losses recurrence resample resample_back
    columns_of_patches patches_of_columns lu_permutation scaled_dot_product_attention lstm_layer gru_layer rnn_layer chain_likelihoods
    chain_marginals chain_best_paths linear_cross_entropy_in_chunks varlen_attention varlen_attention_with_logarithms segment_combine segment_squares
    segment_logsumexp segment_cumprod segment_logcumsumexp segment_recurrence segment_move segment_behind_one segment_places
    segment_gather segment_scatter grouped_products""".split()
)


def _refuse(why: str) -> Any:
    def rule(call: Call) -> Any:
        raise call.refuse(why)

    return rule


for _why, _names in REFUSED.items():
    ragged_rule(*_names.split(), kind="refused", note=_why)(_refuse(_why))
