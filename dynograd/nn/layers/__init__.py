"""Layers, containers and losses: the modules that models are built of."""
