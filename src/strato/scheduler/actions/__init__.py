"""Actions: what a cycle does, one file each, in the order the configuration lists."""
