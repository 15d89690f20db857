"""Renders a diagnosis, one form per file.

An exporter imports only ``whyidle.model`` and has one of two functions, both pure (the same
diagnosis gives the same bytes):

    ``render(diagnosis: Diagnosis) -> str`` returns the form as text that ends in a newline.
    ``write(diagnosis: Diagnosis, overlays: Sequence[Overlay], target: Path) -> list[Path]`` is for
    forms that copy the recording (``perfetto``): it reads each overlay's source file again, writes
    ``target`` (one file per recording if there are several) and returns the written files.

Files that begin with an underscore are shared parts, such as ``_palette`` (titles and colours of
the buckets) and ``_number_format``, or sections of the terminal report.
"""
