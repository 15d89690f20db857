"""Trials: the user's command with and without a fix, in turn, each arm in its own process.

``arms`` runs the command once, ``loop`` selects fixes and compares arms, ``statistics`` decides
what the measurements prove, and ``executors`` are the places where arms run.
"""
