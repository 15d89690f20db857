"""Which commands have somebody else start what they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.fix.arms.isolation_report import find_launcher


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("srun python train.py", "srun"),
        ("/usr/bin/ssh node python train.py", "/usr/bin/ssh"),
        ("docker run image", "docker"),
        ("docker-compose up", "docker-compose"),
        ("flux run python train.py", "flux"),
        ("flux resource list", None),
        ("ray job submit -- python train.py", "ray"),
        ("ray start", None),
        ("python ssh", None),
        ("./srun.sh", None),
        ("", None),
    ],
)
def test_launchers_are_known_by_their_first_words(command: str, expected: str | None):
    assert find_launcher(command.split()) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("sudo docker run image", "docker"),
        ("sudo -E -u me docker run image", "docker"),
        ("sudo -n docker run image", "docker"),
        ("env -u B A=1 docker run image", "docker"),
        ("nohup nice -n 5 timeout -k 5 1h podman run image", "podman"),
        ("time -p srun python train.py", "srun"),
        ("taskset -c 0-3 srun python train.py", "srun"),
        ("timeout 60 python docker", None),
        ("env", None),
    ],
)
def test_what_stands_before_the_command_is_seen_through(command: str, expected: str | None):
    assert find_launcher(command.split()) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("srun python train.py", "srun"),
        ("cd here && A=1 exec srun python train.py", "srun"),
        ("if true; then docker run image; fi", "docker"),
        ("python train.py | tee log; (ssh node date)", "ssh"),
        ("python train.py --with docker # ssh", None),
        ("if command -v docker > /dev/null; then python train.py; fi", None),
        ("case $1 in\n  slurm) srun python train.py;;\nesac\n", "srun"),
        ("cat << EOF > job.sh\nsrun python train.py\nEOF\npython train.py\n", "srun"),
        ("python train.py \\\n    --name srun\nssh-keygen\n", None),
        ("nohup \\\n docker run image", "docker"),
        ("echo 'begun\nand ended'\ndocker run image", "docker"),
        ("", None),
    ],
)
@pytest.mark.parametrize("how", ["bash -c", "sh -exc", "bash -o pipefail -c", "file", "itself"])
def test_the_text_of_a_shell_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: str | None, how: str
):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "run.sh"
    script.write_text(f"#!/usr/bin/env bash\nset -e\n{text}\n")
    script.chmod(0o755)
    words = {"file": ["bash", "-e", "run.sh"], "itself": ["./run.sh", "fast"]}
    assert find_launcher(words.get(how, [*how.split(), text])) == expected


def test_what_is_no_script_of_a_shell_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for text in ("#!/usr/bin/env python\ndocker = 1\n", "\x7fELF\0docker\n"):
        Path("run").write_text(text)
        Path("run").chmod(0o755)
        assert find_launcher(["./run"]) is None
    assert find_launcher(["bash", "no-such-file"]) is None
