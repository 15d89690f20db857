"""Plug-in folder: what a subject calls things (``model.knobs.Subject``), one folder per subject.

``wording`` has how users write knobs and fixes by hand. A framework's folder has also ``NAME``, its
name in a recording, and ``names`` with its ``VOCABULARY``: the roles of the names in its
recordings. They import only the model.
"""
