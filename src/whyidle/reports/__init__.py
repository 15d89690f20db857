"""Renders a diagnosis, one form per file.

An exporter imports only ``whyidle.model`` and has one pure function (the same diagnosis gives the
same bytes): ``render(diagnosis: Diagnosis) -> str`` returns the form as text that ends in a
newline.

Files that begin with an underscore are shared parts, such as ``_palette`` (titles and colours of
the buckets) and ``_number_format``, or sections of the terminal report.
"""
