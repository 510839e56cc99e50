"""PyTorch's inner modules of which packages import names (`torch._tensor_str`, `torch.optim.optimizer`'s helpers, ...), one file each."""
