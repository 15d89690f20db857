"""What runs in a process of an A/B trial besides the recording: the witness and what it needs."""
