"""Which job is visited next, and which need no visit: job classes, and the job queues of a session."""
