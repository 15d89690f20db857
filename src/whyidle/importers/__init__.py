"""Plug-in folder of importers: recorded evidence in, ``Timeline`` out, one format per file. Other
packages add importers by the entry-point group ``whyidle.importers``: modules as in
``whyidle.model.plugin.Importer``."""
