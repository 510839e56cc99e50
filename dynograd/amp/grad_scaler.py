"""GradScaler: the loss is multiplied so that small float16 gradients do not vanish, and the gradients are divided again."""

from __future__ import annotations

import enum
import warnings
from collections import defaultdict
from typing import Any

from dynograd import arrays
from dynograd.autograd.writes import before_writing, stamp_all
from dynograd.base import dtypes
from dynograd.cuda import driver
from dynograd.errors import user_level
from dynograd.kernels import kernel
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["GradScaler", "OptState"]


class OptState(enum.Enum):
    """How far a step of an optimizer has come.

    >>> [state.name for state in dynograd.amp.grad_scaler.OptState]
    ['READY', 'UNSCALED', 'STEPPED']
    """

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh() -> dict[str, Any]:
    return {
        "stage": OptState.READY,
        "found_inf_per_device": {},
        "gradients": None,
    }  # those of a step that failed, as it left them


def _gradients_of(optimizer: Any) -> list[tuple[Tensor, int]]:
    """The gradients of an optimizer's parameters, and how often each was written."""
    gradients = [p._grad for group in optimizer.param_groups for p in group["params"] if p._grad is not None]
    return [(gradient, gradient._version) for gradient in gradients]


class GradScaler:
    """Scales the loss, and skips the steps in which a gradient is infinite or NaN; then the scale shrinks, and after many good steps grows.

    scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update(). Call `unscale_(optimizer)` before clipping. The scale and
    what was found stay on the device. The host waits for it in `step`, to know whether to call the optimizer; not for SGD, and
    not for Adam and AdamW made with `fused=True` or `capturable=True`.

    Args:
        device: "cuda" or "cpu".
        init_scale: the first scale.
        growth_factor, growth_interval: the scale is multiplied by the one after so many steps without infinite gradients.
        backoff_factor: and by this after a step with them.
        enabled: False makes all methods do nothing but call the optimizer.

    >>> w = tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.SGD([w], lr=0.1)
    >>> scaler = dynograd.amp.GradScaler("cpu", init_scale=1024.0)
    >>> scaler.scale((w * w).sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w
    tensor([0.8000, 1.6000], requires_grad=True)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and driver.known() is None:
            warnings.warn(
                "dynograd.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=user_level(),
            )
            self._enabled = False
        if not self._enabled:
            return
        if not growth_factor > 1.0:
            raise ValueError(f"GradScaler: the growth factor must be > 1.0, got {growth_factor}.")
        if not backoff_factor < 1.0:
            raise ValueError(f"GradScaler: the backoff factor must be < 1.0, got {backoff_factor}.")
        self._init_scale = init_scale
        self._scale: Tensor | None = None  # made on the device of the first loss
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Tensor | None = None
        self._per_optimizer_states: defaultdict[int, dict[str, Any]] = defaultdict(_fresh)

    # --- one iteration ------------------------------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """The tensor, or each tensor of an iterable, times the scale.

        Args:
            outputs: a tensor, usually the loss, or an iterable of tensors.
        Returns:
            The same, multiplied; unchanged when disabled.

        >>> dynograd.amp.GradScaler("cpu", init_scale=8.0).scale(tensor(2.0))
        tensor(16.)
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            self._make_scale(outputs)
            return outputs * self._on(outputs.device)
        if not isinstance(outputs, (list, tuple)) and not hasattr(outputs, "__iter__"):
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")
        scaled = [self.scale(output) for output in outputs]
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of the optimizer's parameters by the scale, once between two updates.

        Args:
            optimizer: it must have gradients of a scaled loss.
        Raises:
            RuntimeError: it was called already, or after `step`.
            ValueError: a gradient is float16: parameters must be float32.

        >>> w = tensor([2.0], requires_grad=True)
        >>> scaler, optimizer = dynograd.amp.GradScaler("cpu"), dynograd.optim.SGD([w], lr=0.1)
        >>> scaler.scale((w * w).sum()).backward()
        >>> scaler.unscale_(optimizer)
        >>> w.grad
        tensor([4.])
        """
        if not self._enabled:
            return
        self._check_scale("unscale_")
        state = self._state_of(optimizer)
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        assert self._scale is not None
        inv_scale = wrap(arrays.cast(1.0 / arrays.cast(self._scale.array, dtypes.float64), dtypes.float32))
        found_inf = wrap(arrays.zeros((), dtypes.float32, self._scale.device))
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inv_scale, found_inf, False)
        state["stage"] = OptState.UNSCALED

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        """Multiplies the gradients by `inv_scale`; a copy of `found_inf` for each device says whether one is not finite.

        Scalers of other programs replace it.
        """
        groups: dict[Any, list[Any]] = {}
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p._grad is None:
                    continue
                if p._grad.dtype is dtypes.float16 and not allow_fp16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                entries = p._grad._values() if p._grad.is_sparse else p._grad
                groups.setdefault(p._grad.device, []).append(entries.array)
        found_infs = {}
        for device, gradients in groups.items():
            # No op makes the copy: what a compiled step has recorded is not there to be written into.
            found_infs[device] = wrap(arrays.copy(arrays.to_device(found_inf.array, device)))
            inverse = inv_scale.to(device).array
            before_writing(gradients)
            arrays.quietly(kernel("tables", "unscale", gradients[0]), gradients, inverse, found_infs[device].array)
            stamp_all(gradients)
        return found_infs

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`unscale_` where it was not called, then the optimizer's step, unless a gradient is not finite.

        Args:
            optimizer: its `step` is called with the other arguments.
            *args, **kwargs: for the optimizer; no closure.
        Returns:
            What the optimizer's step returns; None when it was skipped.
        Raises:
            RuntimeError: it was called already since the last `update`.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale("step")
        state = self._state_of(optimizer)
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        try:
            return self._step_unscaled(optimizer, state, args, kwargs)
        except BaseException:
            if state["stage"] is OptState.UNSCALED:
                state["gradients"] = _gradients_of(optimizer)
            raise

    def _state_of(self, optimizer: Any) -> dict[str, Any]:
        """What is known of an optimizer since the last update. After a step that failed, gradients of another backward pass are scaled ones again."""
        state = self._per_optimizer_states[id(optimizer)]
        state["optimizer"] = optimizer  # held until update(), or another one could come to its place in memory
        failed = state["gradients"]
        if failed is not None:
            now = _gradients_of(optimizer)
            if len(now) != len(failed) or any(
                [its is not other or times != others for (its, times), (other, others) in zip(now, failed)]
            ):
                state.update(_fresh())
        return state

    def _step_unscaled(self, optimizer: Any, state: dict[str, Any], args: tuple, kwargs: dict[str, Any]) -> object:
        found_infs = [*state["found_inf_per_device"].values()]
        if not found_infs:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        if getattr(optimizer, "_step_supports_amp_scaling", False) and len(found_infs) == 1:
            optimizer.found_inf = found_infs[0]
            try:
                result = optimizer.step(*args, **kwargs)
            finally:
                del optimizer.found_inf
        elif not sum([found_inf.item() for found_inf in found_infs]):
            result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """The scale for the next iteration: smaller if a gradient was not finite, larger after `growth_interval` good steps; or `new_scale`.

        Args:
            new_scale: a number or a tensor of one element; None goes by the rule.
        """
        if not self._enabled:
            return
        self._check_scale("update")
        scale, tracker = self._scale.array, self._growth_tracker.array  # type: ignore[union-attr]
        if new_scale is not None:
            arrays.write(scale, new_scale.array if isinstance(new_scale, Tensor) else float(new_scale))
        else:
            found_infs = [
                found_inf
                for state in self._per_optimizer_states.values()
                for found_inf in state["found_inf_per_device"].values()
            ]
            if not found_infs:
                raise AssertionError("No inf checks were recorded prior to update.")
            device = arrays.device_of(scale)
            total = arrays.to_device(found_infs[0].array, device)
            for other in found_infs[1:]:
                total = total + arrays.to_device(other.array, device)
            factors = self._growth_factor, self._backoff_factor, self._growth_interval
            kernel("tables", "update_scale", scale)(scale, tracker, total, *factors)
        self._per_optimizer_states = defaultdict(_fresh)

    # --- what is kept ---------------------------------------------------------------------------------------------------------

    def _make_scale(self, like: Tensor) -> None:
        if self._scale is None:
            device = arrays.device_of(like.array)
            self._scale = wrap(arrays.full((), self._init_scale, dtypes.float32, device))
            self._growth_tracker = wrap(arrays.full((), self._init_growth_tracker, dtypes.int32, device))

    def _check_scale(self, who: str) -> None:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {who} but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) earlier in "
                f"the iteration."
            )

    def _on(self, device: Any) -> Tensor:
        scale = self._scale
        assert scale is not None
        return scale if scale.device == device else wrap(arrays.to_device(scale.array, device))

    def get_scale(self) -> float:
        """The scale as a number (1.0 when disabled). Waits for the device.

        Returns:
            A float.

        >>> dynograd.amp.GradScaler("cpu").get_scale()
        65536.0
        """
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """By what the scale is multiplied after `growth_interval` good steps.

        Returns:
            A float.
        """
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets by what the scale is multiplied after `growth_interval` good steps.

        Args:
            new_factor: above 1.
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By what the scale is multiplied after a gradient that was not finite.

        Returns:
            A float.
        """
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets by what the scale is multiplied after a gradient that was not finite.

        Args:
            new_factor: below 1.
        """
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps the scale grows.

        Returns:
            An int.
        """
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets after how many good steps the scale grows.

        Args:
            new_interval: positive.
        """
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def is_enabled(self) -> bool:
        """Whether it scales at all.

        Returns:
            True or False.
        """
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Scale, factors and the count of good steps; empty when disabled.

        Returns:
            A dict for `load_state_dict`.
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave.

        Args:
            state_dict: what `state_dict` gave.
        Raises:
            RuntimeError: it is empty, of a scaler that was disabled.
        """
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            arrays.write(self._scale.array, float(state_dict["scale"]))
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._growth_tracker is not None:
            arrays.write(self._growth_tracker.array, int(state_dict["_growth_tracker"]))

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after scaler.update()."
                )
            state |= {"_init_scale": self.get_scale(), "_init_growth_tracker": self._get_growth_tracker()}
            state |= {"_scale": None, "_growth_tracker": None}
        return state
