"""Every Python of the command starts as it would without us, and says why where it cannot."""

import os
import sys
from pathlib import Path

import pytest

import whyidle

OURS = {"PYTHONPATH": str(Path(whyidle.__file__).parent.parent)}

RECORD = """
import os, sys
from pathlib import Path
from whyidle.record.launcher import run_recorded
del os.environ["PYTHONPATH"]
if sys.argv[1] == "set":
    os.environ["PYTHONPATH"] = sys.argv[2]
run_recorded(sys.argv[3:], Path.cwd())
"""


@pytest.mark.parametrize("flag", ["-S", "-I", "-E", "-Is"])
def test_an_interpreter_that_does_not_hear_us_is_named(watching, flag):
    done = watching.run(sys.executable, flag, "-c", "print('works')")
    assert (done.returncode, done.stdout) == (0, "works\n")
    assert f"started with {flag}" in done.stderr


def test_both_customizations_still_run(watching):
    home = watching.folder / "home"
    home.mkdir()
    for name in ("sitecustomize", "usercustomize"):
        (home / f"{name}.py").write_text(f"import os\nos.environ[{name!r}] = __name__\n")
    code = (
        "import os, sys\n"
        "print([name in sys.modules for name in ('sitecustomize', 'usercustomize')])\n"
        "import sitecustomize, usercustomize\n"
        "print(os.environ['sitecustomize'], os.environ['usercustomize'])\n"
        "print([os.path.dirname(m.__file__) for m in (sitecustomize, usercustomize)])\n"
    )
    env = {"PYTHONPATH": str(home)}
    alone = watching.alone(sys.executable, "-c", code, env=env)
    done = watching.run(sys.executable, "-c", code, env=env)
    assert done.stdout == alone.stdout  # a Python without a user site starts the first one only
    started, first, second = done.stdout.splitlines()
    assert started.startswith("[True,")
    assert first == "sitecustomize usercustomize"
    assert second == str([str(home), str(home)])


@pytest.mark.parametrize("path", [None, "", "b:a", ":a", "a::b"])
def test_the_search_path_is_the_command_s(watching, path):
    words = [sys.executable, "-c", "import sys; print(sys.path)"]
    alone = watching.alone(*words, env={"PYTHONPATH": path})
    change = "del" if path is None else "set"
    watched = watching.alone(sys.executable, "-c", RECORD, change, path or "", *words, env=OURS)
    assert watched.stdout == alone.stdout


def test_a_script_s_own_sitecustomize_and_common_names(watching):
    for name in ("sitecustomize", "utils", "probe", "recorder", "guard", "loop", "sampler"):
        (watching.folder / f"{name}.py").write_text(f"WHO = 'my {name}'\n")
    script = watching.folder / "train.py"
    script.write_text(
        "#!/usr/bin/env python\n"
        "import sitecustomize, utils, probe, recorder, guard, loop, sampler\n"
        "print(sitecustomize.WHO, utils.WHO, probe.WHO, recorder.WHO, sampler.WHO)\n"
    )
    script.chmod(0o755)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    expected = "my sitecustomize my utils my probe my recorder my sampler\n"
    for words in ([script], [sys.executable, "-m", "train"], [f"./{script.name}"]):
        done = watching.run(*words, env={"PATH": path})
        assert done.stdout == expected, done.stderr


def test_switched_off(watching):
    code = "import os, sys; print(os.environ.get('WHYIDLE_RUN'), len(sys.meta_path))"
    env = {"WHYIDLE_DISABLE": "1"}
    alone = watching.alone(sys.executable, "-c", code, env=env)
    done = watching.run(sys.executable, "-c", code, env=env)
    assert done.stdout == alone.stdout
    assert not watching.store.exists()


def test_a_run_inside_a_run_leaves_the_watching_to_the_outer(watching):
    inner = watching.words(sys.executable, "-c", "print('once')")
    done = watching.run(*inner)
    assert done.stdout == "once\n"
    assert "another whyidle run around it" in done.stderr
    assert len(list((watching.store / "runs").iterdir())) == 1


def test_a_storm_of_short_processes_leaves_nothing(watching):
    code = (
        "import subprocess, sys\n"
        "many = [subprocess.Popen([sys.executable, '-c', '']) for _ in range(40)]\n"
        "print({p.wait() for p in many})\n"
        "print({subprocess.run(['true']).returncode for _ in range(160)})\n"
    )
    done = watching.run(sys.executable, "-c", code)
    assert done.stdout == "{0}\n{0}\n"
    left = {path.name for path in watching.recording().iterdir()}
    assert left <= {"asked", "ended.json", "telemetry.jsonl"}  # nothing of any of those processes


def test_no_folder_to_write_costs_the_evidence_only(watching):
    (watching.folder / "store").write_text("a file where the store should be")
    env = {"TMPDIR": "/proc/no-such"}
    done = watching.run(sys.executable, "-c", "print('works')", env=env)
    assert (done.returncode, done.stdout) == (0, "works\n")
    assert "not stored" in done.stderr
