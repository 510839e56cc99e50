"""Optimizers in compiled steps: their steps on the gradients of a plan, and closures that they are given."""
