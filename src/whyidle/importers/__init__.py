"""Recorded evidence in, ``Timeline`` out; one format per file.

Other packages bring importers by the entry-point group ``whyidle.importers``: modules as
``whyidle.model.plugin.Importer`` describes them.
"""
