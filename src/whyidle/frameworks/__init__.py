"""Plug-in folder: the names of a framework, one folder per framework.

``NAME`` of the folder is the framework's name in a recording. ``names`` has its ``VOCABULARY``: the
roles of the names in its recordings. ``wording`` has how its users write knobs and fixes by hand.
They import only the model.
"""
