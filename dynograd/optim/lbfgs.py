"""L-BFGS: Newton's method by what recent steps tell of the curvature."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dynograd import arrays
from dynograd.autograd.modes import enable_grad, no_grad
from dynograd.ops.elementwise.complexes import view_as_real
from dynograd.optim.elementwise import check_common
from dynograd.optim.hooks import with_step_hooks
from dynograd.optim.line_searches import strong_wolfe
from dynograd.optim.optimizer import Optimizer, ParamsT
from dynograd.optim.options import scalar
from dynograd.tensor.tensor import Tensor

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Limited-memory BFGS: each call of `step` makes up to `max_iter` iterations, and calls the closure for each.

    For a loss of all the data (it must not change between calls). The direction is -H @ g, with H the inverse Hessian as far as the
    last `history_size` pairs of (change of parameters, change of gradient) tell. All parameters are one vector: one group only.
    Memory: 2 * history_size + 4 vectors.

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: the step length, the first one that a line search tries; the very first is at most 1 / (sum of |g|) of it.
        max_iter: the most iterations in a step.
        max_eval: the most calls of the closure in a step; by default max_iter * 5 // 4.
        tolerance_grad: stop when no element of the gradient is larger.
        tolerance_change: stop when no parameter, or the loss, changes by more.
        history_size: how many pairs are kept.
        line_search_fn: "strong_wolfe" for step lengths that meet the strong Wolfe conditions, or None for steps of `lr`.
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative lr, several parameter groups.
    Source: Nocedal and Wright, Numerical Optimization, 2nd edition, 2006, algorithms 7.4, 7.5, 3.5 and 3.6.

    >>> w = tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - tensor([3.0, 5.0])) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> loss = optimizer.step(closure)
    >>> w.detach().round(decimals=3)
    tensor([3., 5.])
    """

    needs_whole_parameters = True

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_common("LBFGS", lr)
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError(
                f"LBFGS doesn't support per-parameter options (parameter groups), but got {len(self.param_groups)} groups. Pass one "
                f"list of parameters."
            )

    @with_step_hooks
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Makes up to `max_iter` iterations.

        Args:
            closure: clears the gradients, computes the loss and calls backward; run with recording on.
        Returns:
            the first loss, as the closure returned it.
        Raises:
            ValueError: several parameter groups.

        >>> w = tensor([4.0], requires_grad=True)
        >>> optimizer = dynograd.optim.LBFGS([w])
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (w * w).sum()
        ...     loss.backward()
        ...     return loss
        >>> optimizer.step(closure).detach()
        tensor(16.)
        """
        if len(self.param_groups) != 1:
            raise ValueError(f"LBFGS.step: expected one parameter group, but there are {len(self.param_groups)}.")
        with no_grad():
            return arrays.quietly(self._iterate, enable_grad()(closure), self.param_groups[0])

    def _iterate(self, closure: Callable[[], Any], group: dict[str, Any]) -> Any:
        lr, search = float(scalar(group["lr"])), group["line_search_fn"]
        params: list[Any] = group["params"]
        state = self.state[params[0]]
        for name in ("func_evals", "n_iter"):
            state.setdefault(name, 0)
        first_loss = closure()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        g = _flat_gradient(params)
        if _largest(g) <= group["tolerance_grad"]:
            return first_loss
        kept: dict[str, Any] = {name: state.get(name) for name in _KEPT}
        kept["t"] = None if kept["t"] is None else float(kept["t"])
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                kept |= {"d": -g, "old_dirs": [], "old_stps": [], "ro": [], "H_diag": 1}
            else:
                _remember(kept, g, group["history_size"])
                kept["d"] = _direction(kept, g, state.setdefault("al", [None] * group["history_size"]))
            if kept["prev_flat_grad"] is None:
                kept["prev_flat_grad"] = g.clone()
            else:
                kept["prev_flat_grad"].copy_(g)
            kept["prev_loss"] = loss
            d = kept["d"]
            kept["t"] = min(1.0, 1.0 / g.abs().sum().item()) * lr if state["n_iter"] == 1 else lr
            slope = g.dot(d).item()
            if slope > -group["tolerance_change"]:
                break
            calls = 0
            if search is not None:
                if search != "strong_wolfe":
                    raise RuntimeError(f"LBFGS: only 'strong_wolfe' is supported, but line_search_fn is {search!r}.")

                evaluate = partial(_evaluate, closure, params, [p.clone() for p in params], d)
                most = group["max_eval"] - evaluations
                loss, g, kept["t"], calls = strong_wolfe(evaluate, kept["t"], d, loss, g, slope, most=most)
                _move(params, d, kept["t"])
            else:
                _move(params, d, kept["t"])
                if iteration != group["max_iter"]:  # after the last step nothing asks for the loss
                    loss, calls = float(closure()), 1
                    g = _flat_gradient(params)
            evaluations += calls
            state["func_evals"] += calls
            if (
                iteration == group["max_iter"]
                or evaluations >= group["max_eval"]
                or _largest(g) <= group["tolerance_grad"]
                or _largest(d) * abs(kept["t"]) <= group["tolerance_change"]
                or abs(loss - kept["prev_loss"]) < group["tolerance_change"]
            ):
                break
        if isinstance(group["lr"], Tensor) and search is None:
            kept["t"] = group["lr"].new_tensor(kept["t"])  # as PyTorch saves it
        state.update(kept)
        return first_loss


_KEPT = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


def _remember(kept: dict[str, Any], g: Any, history_size: int) -> None:
    """Adds the last step and the gradient's change over it, where the curvature along it is positive."""
    change, taken = g - kept["prev_flat_grad"], kept["d"] * kept["t"]
    product = change.dot(taken)
    if not product.item() > 1e-10:
        return
    lists = [kept[name] for name in ("old_dirs", "old_stps", "ro")]
    if len(lists[0]) == history_size:
        for history in lists:
            history.pop(0)
    for history, value in zip(lists, (change, taken, 1.0 / product)):
        history.append(value)
    kept["H_diag"] = product / change.dot(change)


def _direction(kept: dict[str, Any], g: Any, alphas: list[Any]) -> Tensor:
    """-H @ g by the two loops over the history (algorithm 7.4)."""
    pairs = list(enumerate(zip(kept["old_dirs"], kept["old_stps"], kept["ro"])))
    d = -g
    for i, (change, taken, ro) in reversed(pairs):
        alphas[i] = taken.dot(d) * ro
        d.sub_(change, alpha=float(alphas[i]))
    d.mul_(kept["H_diag"])
    for i, (change, taken, ro) in pairs:
        d.add_(taken, alpha=float(alphas[i] - change.dot(d) * ro))
    return d


def _evaluate(
    closure: Callable[[], Any], params: list[Any], start: list[Any], d: Any, length: float
) -> tuple[float, Any]:
    """Loss and gradient at a length along `d`; the parameters come back to where they were."""
    _move(params, d, length)
    evaluation = float(closure()), _flat_gradient(params)
    for p, value in zip(params, start):
        p.copy_(value)
    return evaluation


def _flat_gradient(params: list[Tensor]) -> Tensor:
    """All gradients in one vector; 0 where there is none."""
    real: list[Any] = [(view_as_real(p) if p.is_complex() else p) for p in params]
    flat = real[0].new_zeros(sum(numbers.numel() for numbers in real))
    place = 0
    for p, numbers in zip(params, real):
        g: Any = p.grad
        if g is not None:
            g = g.to_dense() if g.is_sparse else view_as_real(g) if g.is_complex() else g
            flat[place : place + numbers.numel()].copy_(g.reshape(-1))
        place += numbers.numel()
    return flat


def _move(params: list[Tensor], d: Any, length: float) -> None:
    place = 0
    for p in params:
        numbers: Any = view_as_real(p) if p.is_complex() else p
        numbers.add_(d[place : place + numbers.numel()].reshape(numbers.shape), alpha=length)
        place += numbers.numel()


def _largest(x: Any) -> float:
    return float(x.abs().max().item()) if x.numel() else 0.0
