"""`functional_call` under its older path."""

from dynograd.nn.functional_call import functional_call

__all__ = ["functional_call"]
