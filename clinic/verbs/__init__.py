"""What the command line can do, and how it may end."""

FAILED, USAGE, STOPPED = 1, 2, 130
"""exit statuses"""


class UsageError(Exception):
    """What was asked for cannot be done."""
