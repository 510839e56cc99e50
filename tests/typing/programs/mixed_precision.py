"""Optimizers and schedulers: warm-up, clipping, mixed precision, accumulation, averages, checkpoints, early stopping."""

from __future__ import annotations

import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dynograd as torch
from dynograd import Tensor, nn
from dynograd.nn.utils import clip_grad_norm_, parameters_to_vector
from dynograd.optim import Optimizer
from dynograd.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, ReduceLROnPlateau, SequentialLR
from dynograd.optim.swa_utils import AveragedModel
from dynograd.profiler import profile


def optimizer_for(model: nn.Module, name: str, lr: float) -> Optimizer:
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    if name == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=0.9)
    return torch.optim.AdamW(groups, lr=lr)


def schedule(optimizer: Optimizer, steps: int) -> LRScheduler:
    warm = LinearLR(optimizer, start_factor=0.1, total_iters=2)
    return SequentialLR(optimizer, [warm, CosineAnnealingLR(optimizer, T_max=steps, eta_min=1e-5)], milestones=[2])


class EarlyStopping:
    def __init__(self, patience: int) -> None:
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def step(self, value: float) -> bool:
        self.bad = 0 if value < self.best else self.bad + 1
        self.best = min(self.best, value)
        return self.bad >= self.patience


def save(path: Path, model: nn.Module, optimizer: Optimizer, scheduler: LRScheduler, epoch: int) -> None:
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "epoch": epoch,
        },
        path,
    )


def restore(path: Path, model: nn.Module, optimizer: Optimizer) -> int:
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    missing, unexpected = model.load_state_dict(state["model"], strict=False)
    optimizer.load_state_dict(state["optimizer"])
    assert not missing and not unexpected
    return int(state["epoch"])


def main(epochs: int = 3, accumulate: int = 2, half: bool = True) -> float:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = torch.randn(16, 4, device=device), torch.randn(16, 1, device=device)
    model = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 1)).to(device=device, dtype=torch.float32)
    averaged = AveragedModel(model)
    optimizer = optimizer_for(model, "adamw", lr=1e-2)
    scheduler = schedule(optimizer, epochs)
    plateau = ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=1)
    scaler = torch.GradScaler(device.type, enabled=device.type == "cuda")
    stopping = EarlyStopping(patience=2)
    mean = 0.0
    for _ in range(epochs):
        losses: list[Tensor] = []
        for step, (rows, targets) in enumerate(zip(x.split(4), y.split(4))):
            context = torch.autocast(device.type, dtype=torch.bfloat16) if half else nullcontext()
            with context:
                loss = nn.functional.mse_loss(model(rows), targets) / accumulate
            scaler.scale(loss).backward()
            if (step + 1) % accumulate == 0:
                scaler.unscale_(optimizer)
                clip_grad_norm_(model.parameters(), max_norm=1.0, norm_type=2.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                averaged.update_parameters(model)
            losses.append(loss.detach())
        scheduler.step()
        mean = torch.stack(losses).mean().item()
        plateau.step(mean)
        if stopping.step(mean):
            break
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.pt"
        save(path, model, optimizer, scheduler, epochs)
        assert restore(path, model, optimizer) == epochs
    with profile() as events:
        model(x)
    assert len(events.key_averages()) > 0
    rates = [group["lr"] for group in optimizer.param_groups]
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert count == parameters_to_vector(model.parameters()).numel() and all(rate > 0 for rate in rates)
    return mean


if __name__ == "__main__":
    main()
