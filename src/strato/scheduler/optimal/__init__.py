"""What the action `flow` is made of: the session as a network, who gives up places, what that gains, places kept."""
