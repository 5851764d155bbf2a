"""Priority and fairness: who is served next, and who is told to come back later."""
