"""Reading and writing at places, searching and sorting."""
