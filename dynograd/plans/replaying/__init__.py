"""Replay: the second mode of `dynograd.compile`, in which the function's Python is not run again once it is known to do nothing but tensors."""
