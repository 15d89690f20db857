"""Plug-in folder: what a subject calls things (``model.knobs.Subject``), one folder per subject.

``NAME`` is its name in a recording. A framework's folder may have ``names`` with its
``VOCABULARY``, the roles of the names in its recordings, and ``wording``, how its users write fixes
and those knobs that they write otherwise than declared. They import only the model.
"""
