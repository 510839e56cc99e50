"""Programs by chance that change gradients between a backward pass and what reads them."""

from __future__ import annotations

from tests.plans.random_programs import PASSES, Block, Maker, listed

__all__ = ["GradientMaker"]

EACH = """
q.grad.mul_(0.5) | q.grad.data.clamp_(-0.1, 0.1) | q.grad.clamp_(-0.1, 0.1) | q.grad.add_(q.detach(), alpha=0.1) | q.grad[..., 0] = 0.0 | q.grad *= scale | q.grad /= 2
q.grad.add_(torch.randn_like(q.grad), alpha=0.01) | kept.append(q.grad) | kept.append(q.grad.data) | kept.append(q.grad.view(-1)) | q.grad = q.grad * 2 | q.grad.copy_(q.grad.sign())
seen_numbers.append(q.grad.norm().item()) | q.grad.zero_() | q.grad.view(-1).mul_(2) | q.grad.t().add_(0.1) | q.grad.data.mul_(0.9) | q.grad.add_(0.1 * n) | q.grad.detach().neg_()
q.grad.data = q.grad.data * 0.5 | q.grad.data[0] = 0.3 | q.data.sub_(q.grad.data, alpha=0.1) | q.grad.mul_(q.grad.norm()) | q.grad = None | seen_numbers.append(q.grad.tolist())
F.relu(q.grad, inplace=True) | torch.mul(q.grad, 0.5, out=q.grad) | q.grad.sub_(q.grad.mean()) | holder.tensor = q.grad | q.grad.masked_fill_(q.grad > 0.2, 0.2) | q.grad.requires_grad_(False)
"""
HEADS = (
    "for q in parameters: | for q in [w, p]: | for q in [w]: | for q in parameters[:1]: | for q in parameters[::-1]:"
)
GUARDS = "if q.grad is not None: | if q.grad is not None: | if q.grad is not None and n % 3: | if q.grad is not None and q.grad.sum() > 0: | if q.grad is not None and n != 5:"
_READS = ("optimizer.step()", "second.step()", "optimizer.zero_grad()")


class GradientMaker(Maker):
    """Draws one."""

    passes = PASSES

    def _changes(self) -> list[Block]:
        rng = self.rng
        blocks = []
        for _ in range(rng.choice([1, 1, 2, 3])):
            lines = [Block(line) for line in rng.sample(listed(EACH), rng.choice([1, 1, 2]))]
            blocks.append(Block(rng.choice(listed(HEADS)), [Block(rng.choice(listed(GUARDS)), lines)]))
        return blocks

    def _pass(self) -> list[Block]:
        blocks = []
        for block in super()._pass():
            if block.line in _READS and self.rng.random() < 0.7:
                blocks += self._changes()
            blocks.append(block)
        if self.rng.random() < 0.3:
            blocks += self._changes()
        return blocks
