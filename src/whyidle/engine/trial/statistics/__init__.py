"""What the times, losses and memory of arms prove, and how sure that is."""
