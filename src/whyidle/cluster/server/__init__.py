"""The web pages of ``whyidle serve``: one page per file of ``pages``, each also as JSON.

The stores on disk are the truth; nothing else has to survive the server. It needs the extra
``serve``: modules of this package import Starlette and Jinja2, and nobody imports them before
``whyidle serve`` was asked for.
"""
