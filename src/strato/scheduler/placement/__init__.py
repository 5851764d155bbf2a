"""Where tasks go: candidates by class, scores, the compiled loops that place batches, and who calls them."""
