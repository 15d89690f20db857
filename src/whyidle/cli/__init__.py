"""The command line: one subcommand per file, found by its file name.

A subcommand is a module with a docstring (its help), ``prepare(parser)`` and ``run(args)``, which
returns the exit status. Modules here import nothing heavy at the top, so that help is instant.
"""
