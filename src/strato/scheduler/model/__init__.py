"""What a cycle looks at and decides, as types: resources, tasks, jobs, queues, nodes, reasons, plans."""
