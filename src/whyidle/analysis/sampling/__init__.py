"""What stack samples of a watched process say, and how far that may be from the truth."""
