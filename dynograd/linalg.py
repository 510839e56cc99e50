"""Linear algebra, under PyTorch's names (`torch.linalg`)."""
