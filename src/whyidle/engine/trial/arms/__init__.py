"""One arm of a trial: starts it, isolates it, watches it, and reads its reports."""
