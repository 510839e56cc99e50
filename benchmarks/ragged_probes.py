"""The same ordinary operations on ragged tensors, tried in dynograd and in torch: `python -m benchmarks.ragged_probes torch`.

Prints one JSON object, from the text of a probe to null, or to the first words of the error. `docs/ragged.md` shows both sides; what torch said
is kept in `ragged_probes_torch.json` beside this file.
"""

from __future__ import annotations

import argparse
import importlib
import json
import warnings
from pathlib import Path
from typing import Any

__all__ = ["OUTCOMES", "PROBES", "outcomes", "tried"]

OUTCOMES = Path(__file__).parent / "ragged_probes_torch.json"

# Names: x, same (B, j, 8) of one set of offsets, y built apart with equal lengths, v (B, j), i (B, j) whole numbers, e with an empty row, d dense.
PROBES = """
x + same
x + y
x == y
x * torch.ones(8)
x * torch.ones(3, 1, 8)
torch.where(x > 0, x, 0.0)
x.masked_fill(x > 0, 0.0)
nn.Linear(8, 4)(x)
nn.LayerNorm(8)(x)
nn.RMSNorm(8)(x)
nn.Embedding(10, 4)(i)
nn.Dropout(0.5)(x)
nn.GELU()(x)
torch.softmax(x, 1)
torch.log_softmax(x, 1)
x.sum(1)
x.mean(1)
x.max(1)
x.amax(1)
x.prod(1)
x.std(1)
x.var(1)
x.norm(dim=1)
x.logsumexp(1)
x.argmax(2)
x.argmax(1)
x.median(1)
x.cumsum(1)
x.sort(1)
x.topk(1, 1)
x.flip(1)
x.roll(1, 1)
x.gather(2, torch.argsort(x, 2))
torch.stack([x, same], 1)
torch.cat([x, same], 2)
torch.cat([x, y], 1)
torch.cat([x, y], 0)
x[1]
x[:, -1]
x[:, :2]
x[:2]
x[[2, 0]]
x[x[..., 0] > 0]
x[..., 0]
x.expand(3, -1, 8)
x.unflatten(-1, [2, 4]).transpose(1, 2)
x.unbind()
sum(row.sum() for row in x)
x.sum().backward()
F.scaled_dot_product_attention(q, q, q)
F.scaled_dot_product_attention(q, q, q).sum().backward()
F.scaled_dot_product_attention(q, q, q, is_causal=True)
F.one_hot(i, 10)
torch.einsum('btd,de->bte', x, torch.ones(8, 4))
x @ torch.ones(8, 4)
x @ x.transpose(1, 2)
torch.bmm(x.transpose(1, 2), x)
nn.LSTM(8, 4, batch_first=True)(x)
nn.GRU(8, 4, batch_first=True)(x)
nn.Conv1d(8, 4, 3, padding=1)(x.transpose(1, 2))
nn.BatchNorm1d(8)(x.transpose(1, 2))
F.cross_entropy(x.transpose(1, 2), i % 8)
F.nll_loss(x.transpose(1, 2), i % 8)
F.mse_loss(x, y)
nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x, need_weights=False)
nn.MultiheadAttention(8, 2, batch_first=True).eval()(x, x, x, need_weights=False)
nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(x)
nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()(x)
nested([nested(rows), nested(rows[:2])])
x.tolist()
torch.func.vmap(lambda row: row * 2)(x)
pickle.loads(pickle.dumps(x.detach())).sum()
copy.deepcopy(x.detach())
nn.Linear(8, 4)(e)
e.sum(1)
torch.nn.utils.rnn.pack_sequence([row for row in e.unbind() if len(row)], enforce_sorted=False)
""".strip().splitlines()


def tried(torch: Any) -> dict[str, str | None]:
    """Each probe with what went wrong, or None."""
    import copy
    import pickle

    def nested(rows: Any) -> Any:
        return torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=rows[0].dtype.is_floating_point)

    answers: dict[str, str | None] = {}
    for text in PROBES:
        torch.manual_seed(0)
        rows = [torch.randn(count, 8) for count in (3, 1, 4)]
        x = nested(rows)
        space = {
            "torch": torch,
            "nn": torch.nn,
            "F": torch.nn.functional,
            "copy": copy,
            "pickle": pickle,
            "nested": nested,
            "rows": rows,
            "x": x,
            "same": x * 2,
            "y": nested([torch.randn(count, 8) for count in (3, 1, 4)]),
            "e": nested([rows[0], rows[1][:0]]),
            "i": torch.nested.nested_tensor([torch.arange(count) for count in (3, 1, 4)], layout=torch.jagged),
            "q": x.unflatten(-1, [2, 4]).transpose(1, 2),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                eval(text, space)
                answers[text] = None
            except Exception as error:
                answers[text] = f"{type(error).__name__}: {' '.join(str(error).split())[:90]}"
    return answers


def outcomes() -> dict[str, str | None]:
    """What torch said, as it is kept."""
    return json.loads(OUTCOMES.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library", nargs="?", default="dynograd", choices=["dynograd", "torch"])
    torch = importlib.import_module(parser.parse_args().library)
    print(json.dumps(tried(torch), indent=1))


if __name__ == "__main__":
    main()
