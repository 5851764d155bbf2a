"""Network topology: HyperNodes over the rows of the node table, and what a session makes of them."""
