"""A running job or machine out, one destination per file: see ``model.publisher``.

They run in the process of ``whyidle run`` or ``whyidle watch``, never in the training process.
"""
