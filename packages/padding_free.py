"""`python -m packages.padding_free`: a BERT of Hugging Face's is fine-tuned on sentences of different lengths, with padding and without it.

Without padding the tokens of all sentences stand behind one another in one row; positions begin anew with each sentence, and attention is told
where the sentences end. The model is transformers' own, unmodified: an attention function is registered with it. The environment is one where
`torch` is dynograd (`make-torch-shim --install`), or `python -m dynograd -m packages.padding_free`.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy
import torch
import transformers as tf
from transformers.masking_utils import AttentionMaskInterface
from transformers.modeling_utils import AttentionInterface

from dynograd.nn.functional import varlen_attention


def by_lengths(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: Any = None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple:
    """Attention of each sentence with itself: (1, heads, tokens, size) each, with `cu_seq_lens_q` saying where sentences begin."""
    parts = [part[0].transpose(0, 1) for part in (query, key, value)]  # (tokens, heads, size)
    causal = bool(getattr(module, "is_causal", False))
    result = varlen_attention(
        *parts,
        options["cu_seq_lens_q"],
        dropout_p=dropout,
        is_causal=causal,
        scale=scaling,
        enable_gqa=key.shape[1] != query.shape[1],
    )
    return result[None], None


AttentionInterface.register("by_lengths", by_lengths)
AttentionMaskInterface.register("by_lengths", lambda *args, **options: None)  # no mask: lengths say it


def packed(sentences: list[Any]) -> dict[str, Any]:
    """The inputs of a model for sentences without padding."""
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.tensor([len(ids) for ids in sentences]).cumsum(0)])
    positions = torch.cat([torch.arange(len(ids)) for ids in sentences])
    return dict(
        input_ids=torch.cat(sentences)[None], position_ids=positions[None], cu_seq_lens_q=offsets, cu_seq_lens_k=offsets
    )


def padded(sentences: list[Any]) -> dict[str, Any]:
    """The same with padding and a mask."""
    ids = torch.nn.utils.rnn.pad_sequence(sentences, batch_first=True)
    lengths = torch.tensor([len(ids) for ids in sentences])
    return dict(input_ids=ids, attention_mask=(torch.arange(ids.shape[1]) < lengths[:, None]).long())


class Classifier(torch.nn.Module):
    """BERT and a layer on the first token of each sentence."""

    def __init__(self, attention: str, **sizes: Any) -> None:
        super().__init__()
        config = tf.BertConfig(
            vocab_size=5000,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            attn_implementation=attention,
            **sizes,
        )
        self.bert, self.last = tf.BertModel(config, add_pooling_layer=False), torch.nn.Linear(config.hidden_size, 2)

    def forward(self, inputs: dict[str, Any]) -> Any:
        states = self.bert(**inputs).last_hidden_state
        first = states[0, inputs["cu_seq_lens_q"][:-1]] if "cu_seq_lens_q" in inputs else states[:, 0]
        return self.last(first)


def main(rounds: int = 7) -> float:
    """Prints the seconds of a step both ways, and that both give the same; returns how many times faster it is without padding."""
    sizes: dict[str, Any] = dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536)
    rng = numpy.random.default_rng(0)
    # Lengths of the sentences of film reviews: 4 to 60 words, 21 on average.
    lengths = rng.gamma(5.0, 4.2, 32).clip(4, 60).astype(int)
    sentences = [torch.tensor(rng.integers(5, 5000, length)) for length in lengths]
    labels = torch.tensor(rng.integers(0, 2, 32))
    models = {"padded": Classifier("sdpa", **sizes), "packed": Classifier("by_lengths", **sizes)}
    models["packed"].load_state_dict(models["padded"].state_dict())
    inputs = {"padded": padded(sentences), "packed": packed(sentences)}
    optimizers = {name: torch.optim.AdamW(model.parameters(), lr=1e-4) for name, model in models.items()}

    def step(name: str) -> tuple[float, float]:
        begin = time.perf_counter()
        optimizers[name].zero_grad()
        loss = torch.nn.functional.cross_entropy(models[name](inputs[name]), labels)
        loss.backward()
        optimizers[name].step()
        return time.perf_counter() - begin, float(loss)

    losses = {name: [step(name)[1] for _ in range(3)] for name in models}
    assert numpy.allclose(losses["padded"], losses["packed"], rtol=1e-3), losses
    times = {name: [] for name in models}
    for _ in range(rounds):
        for name in models:
            times[name].append(step(name)[0])
    medians = {name: statistics.median(values) for name, values in times.items()}
    share = sum(lengths) / (len(lengths) * max(lengths))
    print(f"32 sentences of {min(lengths)} to {max(lengths)} tokens, {share:.0%} of the padded ones are real")
    print(
        f"padded {medians['padded'] * 1e3:.0f} ms, without padding {medians['packed'] * 1e3:.0f} ms: {medians['padded'] / medians['packed']:.2f} times as fast"
    )
    return medians["padded"] / medians["packed"]


if __name__ == "__main__":
    sys.exit(main() < 1)
