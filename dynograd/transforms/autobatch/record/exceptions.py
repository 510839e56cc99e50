"""Ops of which some calls are not run in groups, with the reason; `tests/transforms/autobatch/test_autobatch_ops.py` holds the list."""

from __future__ import annotations

__all__ = ["PARTLY"]

# May only shrink. Ops of which no call is recorded are in `forms.AT_ONCE`.
PARTLY: dict[str, str] = {
    "index": "with a mask the shape of its result depends on values",
    "index_put_at": "with a mask, how many values fit depends on values",
    "lstm_layer": "lengths of sequences are checked against the tokens",
    "gru_layer": "lengths of sequences are checked against the tokens",
    "rnn_layer": "lengths of sequences are checked against the tokens",
    "segment_places": "lengths of segments are checked",
    "linalg_ldl_solve": "pivots are checked by value",
    "varlen_attention": "reads the lengths of its sequences",
}
