"""Routes of alerts, one per file.

A route is a module with ``open(settings, environ) -> Route``, which raises UsageError where its
settings are wrong, and ``FAULTS``, the exceptions of a failed delivery.
"""
