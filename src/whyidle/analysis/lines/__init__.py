"""Where the step's time is spent, by the lines of the user's source."""
