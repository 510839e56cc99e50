"""Modules whose parameters are divided among processes: layers in parts (`tensor_parallel`), and all parameters between their uses (`fully_sharded`)."""
