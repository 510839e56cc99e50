"""Files of weights: safetensors, checkpoints of several files, and those that PyTorch wrote. Nothing is ever unpickled."""
