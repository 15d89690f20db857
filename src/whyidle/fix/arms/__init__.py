"""One arm of a trial: starts, isolates and watches it, and reads its reports."""
