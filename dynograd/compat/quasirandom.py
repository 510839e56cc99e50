"""`torch.quasirandom`: Sobol's points, from SciPy's generator."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy

from dynograd.base.hints import DtypeLike
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.tensor.tensor import Tensor

dynograd: Any = sys.modules["dynograd"]  # its public names, as programs have them: it lies above this layer

__all__ = ["SobolEngine"]


class SobolEngine:
    """Points that fill the unit cube evenly (Sobol, 1967; direction numbers of Joe and Kuo, 2008).

    Args:
        dimension: of the cube, 1 ... 21201.
        scramble: whether the points are shifted and their digits mixed at random (Owen); the draws are SciPy's, not PyTorch's.
        seed: of the scrambling.

    Raises:
        ImportError: SciPy is not installed.

    >>> dynograd.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], got {dimension}."
            )
        try:
            from scipy.stats import qmc
        except ImportError:
            raise ImportError("SobolEngine: SciPy makes the points. Install it: pip install scipy") from None
        if scramble and seed is None:
            seed = int(dynograd.randint(2**31, (1,)))
        self.dimension, self.scramble, self.seed, self.num_generated = dimension, scramble, seed, 0
        self._engine: Any = qmc.Sobol(dimension, scramble=scramble, rng=seed, bits=self.MAXBIT)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DtypeLike = None) -> Tensor:
        """The next `n` points, (n, dimension).

        Args:
            n: how many.
            out: is written and returned.
            dtype: of the points.
        Returns:
            (n, dimension), from 0, below 1.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers that are no powers of two
            points = self._engine.random(n) if n else numpy.empty((0, self.dimension))
        self.num_generated += n
        result = dynograd.tensor(points, dtype=dtype or dynograd.get_default_dtype())
        return result if out is None else out.resize_(result.shape).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DtypeLike = None) -> Tensor:
        """The next 2 ** m points; together with those before, their number must be a power of two.

        Args:
            m: 0 or more.
            out: is written and returned.
            dtype: of the points.
        Returns:
            (2 ** m, dimension), from 0, below 1.
        Raises:
            ValueError: it is not.
        """
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points have been previously "
                f"generated, then: n={self.num_generated}+2**{m}={total}. If you still want to do this, please use 'SobolEngine.draw()'."
            )
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Begins anew.

        Returns:
            The engine.
        """
        self._engine.reset()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Passes over `n` points.

        Args:
            n: how many.
        Returns:
            The engine.
        """
        self._engine.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        text = f"SobolEngine(dimension={self.dimension}"
        text += ", scramble=True" if self.scramble else ""
        return text + (f", seed={self.seed})" if self.seed is not None else ")")


_show_plainly(globals())
