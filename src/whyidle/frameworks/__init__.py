"""Plug-in folder: what a framework calls things, one folder per framework.

The folder's ``NAME`` is that of the framework in a recording. ``names`` has its ``VOCABULARY``:
how recordings of it spell roles and operators. ``wording`` says how its users write a knob by hand.
Both know nothing but the model.
"""
