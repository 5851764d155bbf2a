"""Images: their names, how they are read from registries and archives, and the local store."""
