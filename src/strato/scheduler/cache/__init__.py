"""What the scheduler knows of the cluster: nodes as rows, tasks and their classes, jobs and queues, kept current."""
