"""Measure the use of the host and its containers from the kernel's files, once a second; keep 15 minutes of samples."""
