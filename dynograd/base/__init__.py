"""The words that all rooms use: dtypes, devices, shapes, files, random streams. Nothing here knows arrays or tensors."""
