"""Says what PyTorch knows of its device, and how many kernels its profiler sees. Prints JSON."""

import argparse
import json
import os
import platform
import tempfile

import torch

PRODUCTS = 8


def describe_device(module):
    """What PyTorch says of the first device."""
    properties = module.get_device_properties(0)
    return {
        "name": module.get_device_name(0),
        "memory_bytes": properties.total_memory,
        "capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
    }


def count_events(device, module):
    """Events of the profiler by category, of a few matrix products and a copy back."""
    x = torch.randn(256, 256, device=device)
    x = x @ x
    module.synchronize()
    with torch.profiler.profile() as profiler:
        for _ in range(PRODUCTS):
            x = (x @ x).tanh()
        x.sum().item()
        module.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path) as file:
            events = json.load(file)["traceEvents"]
    counts = {}
    for event in events:
        if event.get("ph") == "X":
            counts[event.get("cat")] = counts.get(event.get("cat"), 0) + 1
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    module = getattr(torch, args.device)
    print(
        json.dumps(
            {
                "python": platform.python_version(),
                "machine": platform.machine(),
                "cores": len(os.sched_getaffinity(0)),
                "torch": torch.__version__,
                "cuda": torch.version.cuda,
                "cudnn": torch.backends.cudnn.version(),
                "devices": module.device_count(),
                "device": describe_device(module),
                "products": PRODUCTS,
                "events": count_events(args.device, module),
            }
        )
    )


if __name__ == "__main__":
    main()
