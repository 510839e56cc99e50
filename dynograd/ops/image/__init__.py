"""Windows over images, and other sizes of images."""
