"""What the host and its containers use: the kernel's files, read once a second, and the last quarter of an hour."""
