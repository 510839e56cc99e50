"""Convolutions and the windows of images."""
