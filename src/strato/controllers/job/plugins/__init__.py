"""Job plugins: what ``spec.plugins`` of a Job turns on. One file each; `registry` is the table of them."""
