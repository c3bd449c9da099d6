"""Floor 2: preallocated cache buffers and the one operator that writes and attends over them."""
