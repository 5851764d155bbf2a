"""The scheduler's view of the cluster (`World`): nodes as rows, tasks and their classes, jobs and queues."""
