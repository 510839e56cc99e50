"""One number at a time."""
