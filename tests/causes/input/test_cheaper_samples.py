"""What workers cannot hide for want of cores has to become cheaper, in the words that fit it."""

from dataclasses import replace

import numpy as np
import pytest

from cured_twins import judge
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.loader_tables import BATCH, Iterator, Loading
from whyidle.model.process_facts import LoaderFacts
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

LOOP = "/job/main.py(90): <module>"
ASKS = f"/usr/lib/python3.11/site-packages/torch/utils/data/dataloader.py(733): __next__;{LOOP}"
COLLATE = f"/job/main.py(41): collate;{ASKS}"
DECODE = (
    f"/usr/lib/python3.11/site-packages/PIL/ImageFile.py(389): load;/job/main.py(30): read;{ASKS}"
)
READ = (
    "/usr/lib/python3.11/site-packages/h5py/_hl/dataset.py(872): __getitem__;/job/main.py(26): "
    f"__getitem__;{ASKS}"
)
CALL = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def job(stack, *, cores, waits=False, computing=30, delay=0):
    """60 ms of loading and so many of computing in each step."""
    guest = RecordedJob(cores=cores)
    begun = []
    for _ in range(30):
        begun.append(guest.now)
        with guest.call(CALL):
            guest.python(stack, ms(60))
        guest.backward(LOOP, ms(computing - 5))
        guest.step(LOOP, ms(5))
    made = np.zeros(len(begun), BATCH)
    made["worker"], made["start"], made["samples"] = -1, begun, 32
    made["end"] = made["start"] + ms(60)
    made["cpu"] = 1_000 if waits else ms(60 - delay)
    made["delay"] = ms(delay)
    loading = Loading(batches=made, cores=cores, threads=1, loaders=(LoaderFacts(asked=LOOP),))
    return replace(guest.timeline(), loading=loading)


def fixes(timeline):
    assert judge("dataloader-no-workers", timeline)
    (found,) = [f for f in diagnose_job([timeline]).findings if f.cause == "dataloader-no-workers"]
    return {fix.fix: fix for fix in found.fixes}


def test_where_cores_are_short_the_function_that_loads_is_to_become_cheaper():
    fix = fixes(job(COLLATE, cores=1))["whole-arrays"]
    assert "make collate cheaper" in fix.summary
    assert not fix.automatic
    assert fix.predicted.low == pytest.approx(1 / (1 - 0.667 / 3), rel=0.05)
    assert fix.predicted.high == pytest.approx(3.0, rel=0.05)


def test_pictures_are_decoded_at_a_reduced_size():
    summary = fixes(job(DECODE, cores=1))["cheaper-transforms"].summary
    assert "at reduced size" in summary
    assert "GPU" not in summary  # there is none


def test_where_a_library_reads_it_is_told_to_read_less():
    found = fixes(job(READ, cores=1))
    assert "reads through h5py" in found["cheaper-reads"].summary
    assert not {"whole-arrays", "cheaper-transforms"} & set(found)
    assert "cheaper-reads" not in fixes(job(COLLATE, cores=1))
    assert "cheaper-reads" not in fixes(job(READ, cores=16))


def test_a_folder_that_is_named_like_a_library_is_none():
    script = f"/home/me/tables/read.py(3): __getitem__;{ASKS}"
    assert "cheaper-reads" not in fixes(job(script, cores=1))
    script = f"/home/me/av/read.py(3): __getitem__;{ASKS}"
    assert "cheaper-transforms" not in fixes(job(script, cores=1))


def test_not_where_workers_have_cores_for_it():
    assert "whole-arrays" not in fixes(job(COLLATE, cores=16))


def test_not_where_loading_waits_for_something_else():
    assert "whole-arrays" not in fixes(job(COLLATE, cores=1, waits=True))


def test_waiting_for_a_core_asks_for_no_more_workers_than_cores():
    fix = fixes(job(COLLATE, cores=2, delay=50, computing=8))["loader-workers"]
    assert fix.edits[0].value == 2
    waiting = fixes(job(COLLATE, cores=2, waits=True, computing=8))["loader-workers"]
    assert waiting.edits[0].value > 2


def test_what_removes_the_work_stands_before_what_spreads_it():
    both = fixes(job(COLLATE, cores=2, computing=8))
    assert list(both) == ["whole-arrays", "loader-workers"]
    assert both["whole-arrays"].predicted.speedup > both["loader-workers"].predicted.speedup
    assert next(iter(fixes(job(COLLATE, cores=1)))) == "whole-arrays"


def led(*epochs, transforms=True):
    """The same job, whose loader was begun so often; each with the number of its loader."""
    timeline = job(COLLATE, cores=1)
    told = tuple(LoaderFacts(asked=LOOP, transforms=transforms, batch_size=n) for n in range(2))
    begun = tuple(Iterator(i, i + 1, number) for i, number in enumerate(epochs))
    loading = replace(timeline.loading, loaders=told, iterators=begun)
    return fixes(replace(timeline, loading=loading))


def test_a_cache_before_random_transforms_is_advice_where_a_second_epoch_is_seen():
    """Two thirds of the step are loading: half of that is expected, nothing certain."""
    fix = led(0, 0)["cached-preprocessing"]
    assert not fix.automatic
    assert not fix.edits
    assert fix.predicted.low == 1.0
    assert fix.predicted.speedup == pytest.approx(1 / (1 - 0.667 * 0.45), rel=0.03)
    assert fix.predicted.high == pytest.approx(3.0, rel=0.05)
    assert "half" in fix.predicted.method


PHOTOS = """\
class Photos(Dataset):
    def __getitem__(self, index):
        image = read(self.paths[index]).resize((256, 256))
        if random.random() < 0.5:
            image = flip(image)
        return image
"""


HIDDEN = PHOTOS.replace("read(", "self.aug(index) or read(")
"""what is called first may be random, by its name"""


@pytest.mark.parametrize(("line", "source"), [(3, PHOTOS), (5, PHOTOS), (3, ""), (3, HIDDEN)])
def test_what_the_source_shows_before_the_first_random_number_is_to_be_cached(line, source):
    """A copy that is read costs a tenth, at most half; on one core no worker gains as much."""
    stack = f"/lib/site-packages/PIL/Image.py(9): load;/job/main.py({line}): __getitem__;{ASKS}"
    timeline = replace(job(stack, cores=1), sources={"/job/main.py": source})
    loaders, begun = (LoaderFacts(asked=LOOP),), (Iterator(0, 1, 0), Iterator(1, 2, 0))
    loading = replace(timeline.loading, loaders=loaders, iterators=begun)
    found = fixes(replace(timeline, loading=loading))
    assert ("cached-preprocessing" in found) == (line == 3 and source == PHOTOS)
    if "cached-preprocessing" in found:
        first = next(iter(found.values()))
        assert "before the first random transform, at main.py:4" in first.summary
        assert first.predicted.low == pytest.approx(1 / (1 - 0.667 * 0.5), rel=0.1)
        assert first.predicted.speedup == pytest.approx(1 / (1 - 0.667 * 0.9), rel=0.1)


def test_no_cache_is_advised_without_a_chain_or_a_second_epoch_of_one_loader():
    assert "cached-preprocessing" not in led(0)
    assert "cached-preprocessing" not in led(0, 1)  # training once, and evaluating once
    assert "cached-preprocessing" not in led(0, 0, transforms=False)


SOURCE = """\
def collate(rows):
    ids = [pieces(text) for text in rows]
def pieces(text):
    while text:
        text = text[1:]
def __getitem__(i):
    return [table[i + lag] for lag in range(48)]
"""


def test_the_object_of_a_method_has_any_name():
    source = SOURCE.replace("(i)", "(rows, i)").replace(
        "table[i + lag] for", "rows.step(i + lag) for"
    )
    assert "batched-lookup" not in rewriting("/job/main.py(7): __getitem__", source=source)[1]


def rewriting(stack, *, cores=1, source=SOURCE):
    timeline = replace(job(f"{stack};{ASKS}", cores=cores), sources={"/job/main.py": source})
    (found,) = [f for f in diagnose_job([timeline]).findings if f.cause == "dataloader-no-workers"]
    return found, {fix.fix: fix for fix in found.fixes}


def test_a_loop_over_each_sample_is_to_become_one_look_up():
    """What removes the work stands before what spreads it, on many cores, too."""
    for cores in (1, 16):
        found, fixes = rewriting("/job/main.py(7): __getitem__", cores=cores)
        assert "__getitems__" in fixes["batched-lookup"].summary
        assert "main.py:7 (return [table[i + lag]" in fixes["batched-lookup"].summary
        assert not {"whole-arrays", "cheaper-transforms"} & set(fixes)
        assert found.where[0].line == 7
    assert found.removal.high == pytest.approx(3.0, rel=0.05)
    assert found.removal.low > 2.5


def test_a_loop_in_collate_is_to_work_on_whole_batches():
    fixes = rewriting("/job/main.py(5): pieces;/job/main.py(2): collate")[1]
    assert "Python loop at main.py:5" in fixes["whole-arrays"].summary
    assert "batched-lookup" not in fixes


@pytest.mark.parametrize(
    "value",
    [
        "crop(table[i + lag])",
        "self.change(table[i + lag])",
        "step(table[i + lag]) for step in steps",
    ],
)
def test_samples_that_may_differ_in_each_epoch_are_not_to_be_built_once(value):
    """By the names of what is called, or as what is called was handed over."""
    source = SOURCE.replace("table[i + lag] for", f"{value} for")
    fixes = rewriting("/job/main.py(7): __getitem__", source=source)[1]
    assert "batched-lookup" not in fixes
    assert "cheaper" in fixes["whole-arrays"].summary


@pytest.mark.parametrize("library", ["transformers/tokenization_utils_base", "tokenizers/__init__"])
def test_texts_are_to_be_tokenised_once(library):
    inner = f"/usr/lib/python3.11/site-packages/{library}.py(9): encode"
    fixes = rewriting(f"{inner};/job/main.py(2): collate")[1]
    assert "before training" in fixes["tokenised-once"].summary
    assert not any("crop" in fix.summary for fix in fixes.values())


def test_rows_of_a_frame_are_to_be_looked_up_at_once():
    inner = "/usr/lib/python3.11/site-packages/pandas/core/indexing.py(9): __getitem__"
    assert "batched-lookup" in rewriting(f"{inner};/job/main.py(6): __getitem__")[1]
