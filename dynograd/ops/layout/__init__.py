"""The same elements under other shapes and in other orders."""
