"""Pure functions from a recording to facts: no clock, file, environment or log."""
