"""Which processes trained together, and what is said where a launcher started them again."""

from dataclasses import replace

from watched_run import add_facts
from whyidle.diagnosis.job_starts import jobs_of
from whyidle.record import rank_roster
from whyidle.testing.builder import Builder


def one(rank, *, start=0, steps=3, parent=5, begun=0, port="29500", launched=True, **told):
    """A rank that stepped so often, in one start of an elastic launcher."""
    made = Builder()
    for _ in range(steps):
        with made.step():
            made.quiet(1000)
            with made.span("Optimizer.step#SGD.step"):
                made.quiet(1000)
    launch = {"TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": str(start)}
    settings = {
        "ppid": parent,
        "first_step": begun,
        "environment": {"MASTER_PORT": port},
        "launch": launch if launched else {},
        **told,
    }
    timeline = made.timeline()
    return add_facts(replace(timeline, rank=rank, world_size=2, base_ns=begun), settings)


def test_a_new_start_is_no_job_of_its_own_and_the_longest_one_counts():
    first = [one(0, begun=1), one(1, begun=2)]
    again = [one(0, start=1, steps=9, begun=10), one(1, start=1, steps=9, begun=11)]
    (job,) = jobs_of([*again, *first])
    assert job.ranks == again
    assert job.others == [first]


def test_a_rank_that_crashed_before_its_first_step_is_not_joined_by_its_successor():
    again = [one(0, start=1, steps=9, begun=10), one(1, start=1, steps=9, begun=11)]
    (job,) = jobs_of([one(0, begun=1), *again])
    assert job.ranks == again
    assert [[t.rank for t in start] for start in job.others] == [[0]]


def test_two_launchers_are_two_jobs():
    jobs = jobs_of([one(0, parent=5), one(1, parent=5), one(0, parent=6), one(1, parent=6)])
    assert [[t.rank for t in job.ranks] for job in jobs] == [[0, 1], [0, 1]]
    assert not any(job.others for job in jobs)


def test_ranks_of_one_parent_that_follow_each_other_are_two_jobs():
    options = {"launched": False}
    mine = [one(rank, begun=begun, **options) for begun in (1, 9) for rank in (0, 1)]
    assert [job.ranks for job in jobs_of(mine)] == [mine[:2], mine[2:]]


def test_the_rank_whose_exception_ended_a_start_is_named():
    other = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]"
    first = [
        one(0, begun=1, died_of=other, ended=2),
        one(1, begun=1, died_of="ValueError: a bad sample", ended=3),
    ]
    again = [one(rank, start=1, steps=9, begun=10**9, ended=1) for rank in (0, 1)]
    (note,) = rank_roster.notes_on_starts(again, [first])
    assert note.startswith("the launcher started the ranks 2 times; start 1 ended after at least 3")
    assert note.endswith(
        "rank 1 ended by ValueError: a bad sample after at least 3 optimizer steps"
    )


def test_where_only_the_others_errors_are_known_the_killed_rank_is_named(tmp_path):
    other = "DistBackendError: NCCL communicator was aborted"
    ranks = [one(0, died_of=other, ended=9), one(1)]
    (note,) = rank_roster.notes_on(tmp_path, ranks, 1)
    assert note.startswith("rank 1 was killed or crashed after at least 3 optimizer steps")


def test_a_start_of_which_nothing_is_known_is_told():
    alone = [one(0, begun=1)]
    again = [one(rank, start=1, steps=9, begun=10**9) for rank in (0, 1)]
    (note,) = rank_roster.notes_on_starts(again, [alone])
    assert note.endswith("the reason is unknown")
