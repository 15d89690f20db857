"""Documents of a watched process: what is missing or does not fit is not recorded."""

import json

import pytest

from whyidle.model.process_facts import OptimizerFacts, ProcessFacts, SaveFacts, Switches
from whyidle.readers.probe import load
from whyidle.readers.probe.process_facts import read_facts
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

ODD = (None, True, -1, 0.5, "text", [], [1], [None], {}, {"a": 1}, [{"a": []}], {"looks": "often"})


def test_what_fits_is_kept_beside_what_does_not():
    facts = read_facts(
        {
            "pid": "one",
            "cores": 4,
            "switches": {"num_threads": 2, "deterministic": "yes"},
            "optimizers": {"a": {"name": "Adam", "tensors": "many"}, "b": 3},
            "saves": [{"bytes": 7, "seconds": 1.5}, "lost"],
            "memory": [[1, 2, 3], [4, 5]],
            "unheard_of": 1,
        }
    )
    assert (facts.pid, facts.cores) == (None, 4.0)
    assert facts.switches == Switches(num_threads=2)
    assert facts.optimizers == {"a": OptimizerFacts("Adam")}
    assert facts.saves == (SaveFacts(7, 1.5),)
    assert facts.memory == ((1, 2, 3),)


def test_a_framework_without_cuda_is_not_one_that_does_not_say():
    assert read_facts({"cuda_built": None}).cuda_built == ""
    assert read_facts({}).cuda_built is None


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_no_value_of_any_type_breaks_the_reader(odd, tmp_path):
    job = RecordedJob()
    job.step("/job/train.py(22): <module>", ms(10))
    path = job.save(tmp_path)
    facts = dict.fromkeys(ProcessFacts.__struct_fields__, odd)
    (tmp_path / "1.facts.json").write_text(json.dumps(facts))
    (tmp_path / "1.loaders.json").write_text(
        json.dumps({"settings": odd, "made": odd, "cores": odd, "threads": odd, "tensors": odd})
    )
    for name in ("compiles", "bursts"):
        keys = ("compiles", "graph_breaks", "bursts", "off", "counted_s")
        (tmp_path / f"1.{name}.json").write_text(json.dumps(dict.fromkeys(keys, odd)))
    assert isinstance(load(path).process, ProcessFacts)
