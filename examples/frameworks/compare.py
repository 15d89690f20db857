"""Trains one model in every installed framework, and compares the runs.

Losses are held against each other first. If they agree, each script runs under `whyidle run`, and
`whyidle compare` puts the runs side by side.

    python compare.py --python tensorflow=/opt/tf/bin/python --python jax=/opt/jax/bin/python
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import problem

HERE = Path(__file__).parent
RUNS = {
    "torch": ["train_torch.py"],
    "tensorflow": ["train_tensorflow.py"],
    "jax": ["train_jax.py"],
    "keras-tensorflow": ["train_keras.py", "--backend", "tensorflow"],
    "keras-jax": ["train_keras.py", "--backend", "jax"],
    "keras-torch": ["train_keras.py", "--backend", "torch"],
}
"""name -> script; the modules that it needs are the parts of the name"""
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""so that no framework gains by more cores, and a busy machine disturbs each alike"""
TOLERANCE = 1e-4
"""relative difference of losses. Rounding in single precision makes 3e-7 here in 300 steps, and
5e-5 where Keras reports means. A learning rate that is 1 % higher makes 1e-2."""


def main():
    args = parse_arguments()
    pythons = dict(item.split("=", 1) for item in args.python)
    names = [name for name in args.only or RUNS if is_installed(name, find_python(name, pythons))]
    if len(names) < 2:
        sys.exit(
            "compare.py: fewer than two frameworks are installed; name interpreters by --python"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        problem.write_problem(path, args.steps)
        options = ["--problem", str(path), "--steps", str(args.steps)]
        commands = {name: [find_python(name, pythons), *RUNS[name], *options] for name in names}
        check_losses(commands, Path(folder))
        if not args.check:
            compare_runs(commands, Path(folder), args)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--python",
        metavar="NAME=PATH",
        action="append",
        default=[],
        help=f"the interpreter of a framework: {', '.join(RUNS)}",
    )
    parser.add_argument("--only", metavar="NAME", nargs="+", choices=RUNS)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--check", action="store_true", help="compare the losses only")
    parser.add_argument("--store", metavar="DIR", help="folder of stored runs")
    parser.add_argument("--html", metavar="PATH", help="write the page of the comparison")
    parser.add_argument("--markdown", metavar="PATH", help="write the table as Markdown")
    return parser.parse_args()


def find_python(name, pythons):
    """The interpreter of a framework; for Keras also that of its backend."""
    return pythons.get(name) or pythons.get(name.removeprefix("keras-")) or sys.executable


def is_installed(name, python):
    """Whether its modules can be imported; says why it is skipped."""
    modules = name.split("-")
    for module in modules:
        code = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({module!r}))"
        if subprocess.run([python, "-c", code], check=False).returncode:
            print(f"skipped {name}: {python} has no {module}")
            return False
    return True


def check_losses(commands, folder):
    """Train each without whyidle; exit if the losses differ."""
    first = None
    for name, command in commands.items():
        path = folder / f"{name}.npy"
        run_command([*command, "--losses", str(path)], name)
        losses = np.load(path)
        if first is None:
            first, reference = name, losses
            print(f"{name}: loss {losses[0]:.6f} to {losses[-1]:.6f}")
            continue
        if len(losses) != len(reference):
            sys.exit(f"{name} took {len(losses)} steps, {first} {len(reference)}")
        error = np.abs(losses - reference) / np.abs(reference)
        worst = int(error.argmax())
        print(f"{name}: loss {losses[0]:.6f} to {losses[-1]:.6f}, differs by {error.max():.1e}")
        if not error.max() <= TOLERANCE:
            sys.exit(
                f"The losses differ, so the runs are not compared. Step {worst + 1}: {first} "
                f"{reference[worst]:.6f}, {name} {losses[worst]:.6f}; allowed {TOLERANCE:g}."
            )


def compare_runs(commands, folder, args):
    """Run each under `whyidle run`, and call `whyidle compare`."""
    whyidle = [sys.executable, "-m", "whyidle"]
    store = ["--store", str(Path(args.store).absolute() if args.store else folder / "runs")]
    documents = []
    for name, command in commands.items():
        document = str(folder / f"{name}.json")
        run_command([*whyidle, "run", "-q", *store, "--json", document, *command], name)
        documents.append(document)
    outputs = [f"--{form}={path}" for form in ("html", "markdown") if (path := getattr(args, form))]
    subprocess.run([*whyidle, "compare", *documents, *outputs], check=True)


def run_command(command, name):
    """Run a command in the folder of the scripts; exit with its last words if it fails."""
    environment = {**os.environ, **ONE_THREAD}
    done = subprocess.run(
        command, cwd=HERE, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{name} failed with status {done.returncode}:\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    main()
