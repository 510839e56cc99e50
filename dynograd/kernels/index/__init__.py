"""Reading and writing at places: indexing, scatters, embeddings, searches, masks."""
