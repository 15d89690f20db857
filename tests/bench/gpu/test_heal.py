"""What the stage ``heal`` does with the patch that ``fix`` wrote, and that it can write one."""

import pytest

from bench.gpu.job_run import JOBS, job_words
from bench.gpu.stages import heal
from bench.gpu.target import Target
from bench.gpu.twins import find_twin
from whyidle.fix.patching.source_patch import KeptFix, make_patch
from whyidle.model.diagnosis import Edit, Place

EDITS = {
    "loader-without-workers": [Edit(knob="loader.workers", value=8, was=0)],
    "pageable-copies": [
        Edit(knob="loader.pin_memory", value=True),
        Edit(knob="copy.non_blocking", value=True),
    ],
    "fp32": [Edit(knob="autocast.dtype", value="bfloat16")],
    "unfused-optimizer": [Edit(knob="optimizer.fused", value=True, was=False)],
    "allocator-churn": [Edit(knob="memory.empty_cache_every", value=50, was=1)],
}


@pytest.mark.parametrize("name", heal.NAMES)
def test_every_job_to_heal_can_be_patched(name, tmp_path):
    target, twin = Target("cuda", "a GPU", 6.0), find_twin(name)
    changes = twin.script_changes(cured=False)
    copy = target.write_script(JOBS / twin.script, tmp_path, changes)
    line = twin.line_number()
    where = [Place(function="main", file=copy.name, line=line)] if line else []
    words = job_words(target, copy.name, twin.options(target, cured=False), 1.0)
    patch = make_patch([KeptFix("fix", EDITS[name], where)], words, tmp_path)
    assert patch.diff
    assert not patch.sentences
