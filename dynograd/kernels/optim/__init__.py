"""Steps of optimizers and sums of gradients."""
