"""Statistics of arms: speed-up, equivalence of losses, memory growth, start-up cost."""
