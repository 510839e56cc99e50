"""Checkpointed parts of a step: see `parts` for its program, `recomputing` for its plan."""
