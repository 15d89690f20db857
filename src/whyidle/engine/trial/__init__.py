"""Trials: the user's command with and without a fix, in turn, each in a process of its own.

``arm`` runs it once, ``pair`` holds two ways of it against each other, ``numbers`` their losses,
``candidates`` says what is worth a trial, and ``heal`` tries one after another. ``quiet`` is what
of a trial is thrown away.
"""
