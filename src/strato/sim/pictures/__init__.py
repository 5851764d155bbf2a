"""Pictures of simulations, one file per subject; drawn by matplotlib, which the extra ``report`` brings."""
