"""Memory over a step, and what it would be otherwise."""
