"""A training loop with everything: groups of parameters, schedulers, mixed precision, clipping, saving and loading."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import dynograd as torch
from dynograd import Tensor, nn
from dynograd.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, ReduceLROnPlateau, SequentialLR


def groups(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": matrices, "weight_decay": decay}, {"params": rest, "weight_decay": 0.0}]


class Trainer:
    def __init__(self, model: nn.Module, lr: float = 1e-2, mixed: bool = False) -> None:
        self.model = model
        self.mixed = mixed
        self.optimizer = torch.optim.AdamW(groups(model, 0.1), lr=lr)
        warmup = LinearLR(self.optimizer, start_factor=0.1, total_iters=2)
        self.scheduler = SequentialLR(
            self.optimizer, [warmup, CosineAnnealingLR(self.optimizer, T_max=10)], milestones=[2]
        )
        self.scaler = torch.amp.GradScaler("cpu", enabled=False)
        self.steps = 0

    def context(self) -> contextlib.AbstractContextManager[Any]:
        if self.mixed:
            return torch.autocast("cpu", dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def step(self, x: Tensor, y: Tensor, accumulate: int = 2) -> float:
        self.model.train()
        self.optimizer.zero_grad()
        total = 0.0
        for part_x, part_y in zip(x.chunk(accumulate), y.chunk(accumulate), strict=True):
            with self.context():
                loss = nn.functional.mse_loss(self.model(part_x), part_y) / accumulate
            self.scaler.scale(loss).backward()
            total += loss.item()
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        assert torch.isfinite(norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.steps += 1
        return total

    def save(self, path: Path) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "steps": self.steps,
        }
        torch.save(state, path)

    def load(self, path: Path) -> None:
        state = torch.load(path, map_location="cpu", weights_only=True)
        self.model.load_state_dict(state["model"], strict=True)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.steps = state["steps"]


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 1))


def main() -> float:
    torch.manual_seed(0)
    torch.set_num_threads(torch.get_num_threads())
    x = torch.linspace(-1, 1, 32).reshape(8, 4)
    y = x.sum(dim=1, keepdim=True)
    trainer = Trainer(network(), mixed=True)
    losses = [trainer.step(x, y) for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.pt"
        trainer.save(path)
        other = Trainer(network())
        other.load(path)
    assert other.steps == 3 and torch.equal(other.model(x), trainer.model(x))
    rates = [group["lr"] for group in trainer.optimizer.param_groups]
    plain = torch.optim.SGD(trainer.model.parameters(), lr=0.1)
    halves = LambdaLR(plain, lr_lambda=lambda epoch: 0.5**epoch)
    plateau = ReduceLROnPlateau(plain, mode="min", factor=0.5, patience=1)
    plain.step()
    halves.step()
    plateau.step(losses[-1])
    assert halves.get_last_lr()[0] <= 0.1 and len(rates) == 2
    weight = next(trainer.model.parameters())
    assert weight.grad is not None and weight.dtype is torch.float32 and weight.device.type == "cpu"
    return losses[-1]


if __name__ == "__main__":
    print(main())
