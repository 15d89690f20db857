"""The diagnosis in three lines."""


def render(diagnosis):
    first = diagnosis.findings[0].cause if diagnosis.findings else "nothing"
    return f"{diagnosis.verdict.state}\n  {first}\nthe device waits\n"
