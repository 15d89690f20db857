"""Makes the samples of a dataset once, in the user's Python, and reads them again.

Standard library only, with the dataset's own packages. ``sample_maker`` is run by
``planning.preparation``; ``prepared_dataset`` is copied beside the prepared data.
"""
