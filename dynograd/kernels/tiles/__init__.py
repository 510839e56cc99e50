"""Register tiles: blocks of products and of neighbours that stay in vector registers."""
