"""An arm without isolation, for scripts of ours."""


class Open:
    """No guard: what runs here writes nothing."""

    def command(self, words):
        return list(words)

    def environment(self):
        return {}

    places = ()
