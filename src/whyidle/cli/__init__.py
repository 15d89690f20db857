"""The command line: one subcommand per file, found by its file name.

A subcommand is a module with a docstring (its help), ``prepare(parser)`` and ``run(args)``, which
returns the exit status. Heavy imports belong into functions, so that help stays fast.
"""
