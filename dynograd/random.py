"""Seeds and states of the default generator (`torch.random`).

>>> with dynograd.random.fork_rng():
...     _ = dynograd.random.manual_seed(3)
>>> dynograd.random.initial_seed() == 3
False
"""

from dynograd.base.random_streams import default_generator
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.tensor.randomness import fork_rng, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]

_show_plainly(globals())
