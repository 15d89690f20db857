"""What the emulated device is: every number of its model, in one place.

``WHYIDLE_EMULATED`` may hold a JSON object with any of the fields; ``configure`` changes them from
within the process. The defaults make ordinary layers of a hundred or so units take milliseconds.
"""

from __future__ import annotations

import dataclasses
import json
import os

VARIABLE = "WHYIDLE_EMULATED"


@dataclasses.dataclass
class Config:
    """Rates are per second, ``_ns`` are nanoseconds; factors multiply a rate."""

    devices: int = 1
    name: str = "emulated accelerator"
    peak_flops: float = 1e9
    """of matrix products and convolutions in fp32"""
    tf32_factor: float = 4.0
    half_factor: float = 8.0
    """of bf16 and fp16"""
    turning: float = 1.0
    """kernel that turns images for a convolution on tensor cores, unless they are channels_last: so
    many times the bytes of the convolution are moved"""
    algorithms: int = 10
    """of a convolution, each of which is run where ``cudnn.benchmark`` asks for the fastest"""
    untuned: float = 1.0
    """times as long a convolution takes where nobody has searched"""
    bandwidth: float = 1e9
    """of the device's memory, bytes"""
    kernel_ns: int = 20_000
    """that every kernel takes, however small"""
    launch_ns: int = 10_000
    """that the host spends on a launch at least; what the dispatch took counts towards it"""
    queue: int = 1024
    """launches that may be outstanding on a stream: the host waits when there are more"""
    pinned_bandwidth: float = 400e6
    pageable_bandwidth: float = 100e6
    copy_ns: int = 20_000
    """latency of a copy"""
    staged_bytes: int = 65_536
    """pageable copies to the device up to this size do not block the host if asked not to"""
    link_width: int = 16
    link_width_max: int = 16
    memory_bytes: int = 1 << 30
    allocate_ns: int = 200_000
    """that the host spends to get a segment from the device"""
    release_ns: int = 500_000
    """that the host spends to give one back, the device drained"""
    clocks: tuple[tuple[float, float, int], ...] = ((0.0, 1.0, 0),)
    """(seconds since the device began, clock factor, event reasons as NVML numbers them), in order
    of time"""
    clock_mhz: int = 1980
    power_idle_w: float = 100.0
    power_limit_w: float = 700.0
    """in force"""
    power_limit_default_w: float = 700.0
    """that it ships with"""
    network_bandwidth: float = 200e6
    network_ns: int = 50_000
    """latency of a collective"""

    def clock(self, since_ns: int) -> tuple[float, int]:
        """Clock factor and event reasons, this long after the device began."""
        factor, reasons = 1.0, 0
        for begin_s, each, bits in self.clocks:
            if since_ns >= begin_s * 1e9:
                factor, reasons = each, bits
        return factor, reasons

    def change(self, **fields: object) -> None:
        """Set fields by name.

        Raises:
            TypeError: a name that is no field.
        """
        known = {field.name for field in dataclasses.fields(self)}
        if unknown := sorted(set(fields) - known):
            raise TypeError(f"no such settings of the emulated device: {', '.join(unknown)}")
        for name, value in fields.items():
            setattr(self, name, value)


def from_environment() -> Config:
    """The defaults, with what ``WHYIDLE_EMULATED`` says."""
    config = Config()
    config.change(**json.loads(os.environ.get(VARIABLE) or "{}"))
    return config
