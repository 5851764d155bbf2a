"""What a cycle says: reasons, explanations, statuses, events and metrics."""
