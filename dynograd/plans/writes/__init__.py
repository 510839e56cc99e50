"""Writes in place within a step: into what it has made, which then stands for new values, and into tensors that stay."""
