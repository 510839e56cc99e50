"""Rows brought to a common scale: norms with weights, and softmax."""
