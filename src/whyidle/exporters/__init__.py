"""A diagnosis out, one form per file.

An exporter is a file of this folder that imports nothing of ours but ``whyidle.model``. Its first
docstring line is its help text, and it declares

``SUFFIXES``
    file endings that ask for this form (``(".html",)``); empty where only a flag does.
``WANTS``
    ``"file"`` (a document to open elsewhere), ``"tty"`` (for reading in a terminal) or
    ``"either"``.

and one of two functions, both pure in the diagnosis (the same document gives the same text, byte
for byte):

    ``render(diagnosis: Diagnosis) -> str`` the whole form as text, ending in a newline.
    ``write(diagnosis: Diagnosis, overlays: Sequence[Overlay], target: Path) -> list[Path]`` for
    forms that copy the recording itself (``perfetto``): reads each overlay's source file again,
    writes ``target`` (one file per recording where there are several) and returns the files
    written. ``whyidle.engine.trace_overlay.make_overlays`` makes the overlays. Raises InputError
    where a source cannot be read a second time.

Files that begin with an underscore are parts shared by the forms: ``_palette`` (what the eight
buckets are called and which colours they have, everywhere), ``_words`` (numbers for people); or
sections of what a terminal shows: ``_findings``, ``_trials``, ``_unsaid``, ``_next``.
"""
