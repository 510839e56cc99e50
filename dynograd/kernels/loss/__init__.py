"""Losses and their gradients; alignments (CTC) and linear chains (CRF)."""
