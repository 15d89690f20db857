"""The text of a sheet, for tests that need one of their own."""


def sheet(workload: str, habit: str, before: str = "", after: str = "") -> str:
    """One with a planted habit: ``habit`` plants and cures it; more lines and tables around it."""
    return f"""
workload = "{workload}"
kind = "single"
{before}
[[inject]]
cause = "sync-checkpoint"
family = "interruption"
buckets = ["interruption"]
locus = "torch.save"
{habit}
{after}
"""
