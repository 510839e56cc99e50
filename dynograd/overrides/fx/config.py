"""`torch.fx.config`: options that PyTorch has."""

disable_progress = True
verbose_progress = False
validate_for_all_guards = False
