"""What is done in one compiled call for few elements, or for many small arrays at once."""
