"""The ragged rules, one file for each family of ops."""
