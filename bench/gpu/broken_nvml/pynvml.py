"""In the place of NVML's binding: whatever it is asked, it fails."""


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    if name.startswith("nvml") and name != "nvmlInit":
        return fail_call
    if name == "nvmlInit":
        return int
    return type(name, (Exception,), {}) if name.startswith("NVMLError") else 0


def fail_call(*_: object) -> object:
    """Any call."""
    raise ValueError("a planted fault")
