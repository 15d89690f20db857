"""States rather than times: memory snapshots, the flight recorder, NCCL's log."""
