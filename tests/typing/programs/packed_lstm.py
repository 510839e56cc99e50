"""An LSTM on packed sequences, with padding and masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import dynograd as torch
from dynograd import Tensor, nn
from dynograd.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence, pad_sequence
from dynograd.optim.lr_scheduler import StepLR
from dynograd.utils.data import DataLoader


class Batch(NamedTuple):
    tokens: Tensor
    lengths: Tensor
    labels: Tensor


class Reader(nn.Module):
    def __init__(self, words: int, size: int = 8, classes: int = 2, padding_idx: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, size, padding_idx=padding_idx)
        self.lstm = nn.LSTM(size, size, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.head = nn.Sequential(nn.Linear(2 * size, size), nn.Tanh(), nn.Dropout(0.2), nn.Linear(size, classes))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name, parameter in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter, gain=nn.init.calculate_gain("tanh"))

    def encode(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        packed: PackedSequence = pack_padded_sequence(
            self.embedding(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        output, (h, c) = self.lstm(packed)
        states, sizes = pad_packed_sequence(output, batch_first=True)
        assert h.shape == c.shape and int(sizes.max()) == states.size(1)
        return states, h

    def forward(self, batch: Batch) -> Tensor:
        states, _ = self.encode(batch.tokens, batch.lengths)
        mask = torch.arange(states.shape[1])[None, :] < batch.lengths[:, None]
        pooled = states.masked_fill(~mask.unsqueeze(-1), float("-inf")).max(dim=1).values
        logits: Tensor = self.head(pooled)
        return logits


def collate(samples: Sequence[tuple[list[int], int]]) -> Batch:
    sentences = [torch.tensor(words, dtype=torch.long) for words, _ in samples]
    return Batch(
        pad_sequence(sentences, batch_first=True, padding_value=0),
        torch.tensor([len(sentence) for sentence in sentences]),
        torch.as_tensor([label for _, label in samples]),
    )


def main(epochs: int = 2) -> float:
    torch.manual_seed(0)
    samples = [([1 + (i + j) % 9 for j in range(2 + i % 4)], i % 2) for i in range(12)]
    loader = DataLoader(samples, batch_size=4, shuffle=True, collate_fn=collate)
    model = Reader(words=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
    criterion = nn.CrossEntropyLoss(reduction="mean", label_smoothing=0.05)
    losses: list[float] = []
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(model(batch), batch.labels)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            if bool(torch.isfinite(norm)):
                optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    assert scheduler.get_last_lr()[0] < 0.1
    return sum(losses) / len(losses)


if __name__ == "__main__":
    main()
