"""Recorded steps on a GPU: their calls, captured in CUDA graphs."""
