"""Grouping: which calls run together, and where their operands lie."""
