"""What the job's own code does to samples, by line: in the dataset, the collate function or the
generator that a loader calls, in the training process or in its workers."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.decoding_libraries import DataKind, data_kind
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.lines.line_purposes import quote_line
from whyidle.analysis.lines.sampled_lines import sampled_stacks
from whyidle.analysis.lines.source_lines import frame_place, in_library
from whyidle.analysis.lines.source_loops import count_loops, find_decisive_lines
from whyidle.analysis.lines.source_statements import called_name, calls_in, last_name, parse_source
from whyidle.model.diagnosis import Place
from whyidle.model.roles import Role

LOOPED = 0.25
"""share of a function's time in loops from which they decide it: what a loop builds element by
element, such as a list, is converted outside of it"""
LONGEST = 60
"""characters of a line of source that a headline shows"""

MOST_BEFORE = 2
"""lines that are named besides the one at which Python had ended"""

_RANDOM = re.compile(
    r"rand|rng|aug|transform|tfm|choice|sample\(|shuffle|uniform|normal\(|noise|jitter|drop|crop|flip"
    r"|rotat|perturb|distort|elastic|mixup|cutmix|cutout",
    re.I,
)
"""names of what may be random: a cache behind it would freeze it, so rather too many"""
_Line = tuple[str | None, int | None]
_KINDS: dict[str, DataKind] = {"text": "text", "images": "images"}


@dataclass(frozen=True, slots=True)
class SampleWork:
    """The user's code in a loader's calls. Shares are of the sampled time in these calls (0-1)."""

    lines: tuple[tuple[Place, float], ...]
    """the lines in which the user's code was, the largest share first"""
    own: float
    """share in calls of the user's code, libraries that it calls included"""
    costliest: float
    """share in calls of the costliest of the functions that the loader calls"""
    function: str
    """name of that function"""
    looped: bool
    """whether Python loops over the parts of a sample decide the time of that function"""
    kind: DataKind | None
    """what the samples are, as far as libraries or the samples themselves show"""
    text: str
    """the source text of the likeliest line; empty where it was not kept"""
    leading: float = 0.0
    """share in lines of ``__getitem__`` before the first that may be random, by its source"""
    random: str = ""
    """that line; empty where it or what precedes it is not known"""
    varies: bool = False
    """whether its function may draw random numbers, by its names, or calls what the file does not
    define, which may: it cannot be done once for all epochs"""
    before: tuple[Place, ...] = ()
    """where Python had mostly ended at the costliest line: lines that may have run before it, the
    likeliest first"""

    @property
    def places(self) -> tuple[Place, ...]:
        """The costliest line, what may have run before it, and the other lines."""
        shown = (self.place, *self.before, *(place for place, _ in self.lines[1:]))
        return tuple({(place.file, place.line): place for place in reversed(shown)}.values())[::-1]

    @property
    def place(self) -> Place:
        """The line with the largest share."""
        return self.lines[0][0]

    @property
    def per_sample(self) -> bool:
        """Whether the loader calls a method that makes a single sample."""
        return self.function == "__getitem__"

    @property
    def frequency(self) -> str:
        """How often the costliest line runs, in words."""
        if self.looped:
            return "in a Python loop over each sample"
        return "for every sample" if self.per_sample else "for every batch"

    def describe_line(self) -> str:
        """Return the likeliest line of the largest share, for a headline."""
        text = self.text
        shown = text if len(text) <= LONGEST else text[: LONGEST - 2].rstrip() + " …"
        name = _name_line(self.before[0] if self.before else self.place)
        return f"{name} ({shown})" if shown else name

    def describe_spot(self) -> str:
        """Return where the largest share is, with "at" or what else is known."""
        sure = not self.before or self.before[0].line == self.place.line
        up_to = "" if sure else f"up to {_name_line(self.place)}, likely "
        return f"{up_to}at {self.describe_line()}"


def _name_line(place: Place) -> str:
    return f"{(place.file or '').rpartition('/')[2]}:{place.line}"


def work_inline(facts: Facts, windows: Intervals) -> SampleWork | None:
    """Return the work in a loader's calls in the training process, or in generators that batches
    are taken from; None without samples of it."""
    plays, generators = facts.timeline.vocabulary.plays, facts.host.generators
    stacks: Counter[str] = Counter()
    late: Counter[str] = Counter()
    for stack, time, after in _stacks_by_end(facts, windows):
        frames = stack.split(";")
        inner = list(takewhile(lambda frame: not plays(Role.LOADER_FRAME, frame), frames))
        called = ";".join(inner) if len(inner) < len(frames) else generators.inner_frames(stack)
        if called:  # else a late sample, of the loop itself
            stacks[called] += time
            late[called] += time * after
    return _divide_work(facts, stacks, late)


def _stacks_by_end(facts: Facts, windows: Intervals) -> Iterator[tuple[str, int, bool]]:
    """Yield stacks with their time, and whether Python had ended there."""
    for after in (False, True):
        for stack, time in sampled_stacks(facts, windows, after=after).items():
            yield stack, time, after


def work_of_workers(facts: Facts) -> SampleWork | None:
    """Return the work in loader workers; None without samples of it."""
    loading = facts.timeline.loading
    sampled = Counter(loading.stacks[i] for i in loading.samples["stack"])
    return _divide_work(facts, sampled, Counter())


def _divide_work(facts: Facts, stacks: Counter[str], late: Counter[str]) -> SampleWork | None:
    """Divide the time of ``stacks``, in ``late`` of which Python had ended."""
    lines: Counter[_Line] = Counter()
    ended: Counter[_Line] = Counter()
    called: Counter[tuple[str | None, str | None]] = Counter()
    places: dict[_Line, Place] = {}
    looped: Counter[tuple[str | None, str | None]] = Counter()
    entered: Counter[Place] = Counter()
    sources = _Sources(facts.timeline.sources)
    for stack, time in stacks.items():
        frames = [frame_place(frame, facts.rank) for frame in stack.split(";")]
        own = [place for place in frames if place is not None and not in_library(place)]
        if own:
            place = sources.decisive_place(_outer_function(own))
            line = place.file, place.line
            lines[line] += time
            ended[line] += late[stack]
            places[line] = place
            function = own[-1].file, own[-1].function
            called[function] += time
            entered[own[-1]] += time
            looped[function] += time * sources.loop_over_parts(own)
    if not lines:
        return None
    total, most = max(stacks.total(), 1), called.most_common(1)[0][0]
    found = tuple((places[line], time / total) for line, time in lines.most_common())
    costly, time = lines.most_common(1)[0]
    before = sources.lines_before(places[costly]) if 2 * ended[costly] > time else ()
    random = sources.first_random_line(entered.most_common(1)[0][0])
    leading = sum(time for place, time in entered.items() if (place.line or 0) < random)
    return SampleWork(
        lines=found,
        own=lines.total() / total,
        costliest=called[most] / total,
        function=most[1] or "",
        looped=looped[most] >= LOOPED * called[most],
        kind=data_kind(stacks) or _KINDS.get(facts.timeline.loading.sample),
        text=quote_line(facts.timeline.sources, before[0] if before else places[costly]),
        leading=leading / total if random else 0.0,
        varies=bool(random) or sources.calls_unknown(entered.most_common(1)[0][0]),
        random=f"{(most[0] or '').rpartition('/')[2]}:{random}" if random and leading else "",
        before=before,
    )


def _outer_function(own: list[Place]) -> Place:
    """The outermost function at the innermost line: that of a comprehension is the one it is in."""
    line = own[0].file, own[0].line
    *_, place = takewhile(lambda place: (place.file, place.line) == line, own)
    return place


class _Sources:
    """The source text of the user's lines, and the loops around them."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._loops: dict[str, Counter[int]] = {}
        self._decisive: dict[str, dict[int, int]] = {}

    def decisive_place(self, place: Place) -> Place:
        """Return the place of the loops in a statement of several lines, else the place itself."""
        file, line = place.file or "", place.line or 0
        if file not in self._decisive:
            text = self._sources.get(file, "")
            self._decisive[file] = find_decisive_lines(text, self._loops_in(file))
        line = self._decisive[file].get(line, line)
        return Place(file=place.file, line=line, function=place.function, rank=place.rank)

    def lines_before(self, place: Place) -> tuple[Place, ...]:
        """Return lines that may have run before a line, the likeliest first."""
        text = self._sources.get(place.file or "", "")
        found = find_preceding_lines(text, place.line or 0)[:MOST_BEFORE]
        return tuple(
            Place(file=place.file, line=line, function=None, rank=place.rank) for line in found
        )

    def first_random_line(self, place: Place) -> int:
        """Return the first line of the ``__getitem__`` around a place that may be random, by names
        in it or in functions of the file that are called; 0 without one."""
        functions, around = self._functions_at(place)
        for node in (n for f in around if place.function == "__getitem__" for n in f.body):
            names = {called_name(call) for call in calls_in(node)}
            parts = [node, *(known for known in functions if known.name in names)]
            if any(_RANDOM.search(ast.unparse(part)) for part in parts):
                return node.lineno
        return 0

    def calls_unknown(self, place: Place) -> bool:
        """Return whether the function around a place calls an attribute of its object, an argument
        or an item of a loop: functions that are given to it, such as transforms."""
        functions, around = self._functions_at(place)
        defined = {one.name for one in functions}
        for one in around:
            arguments = [arg.arg for arg in one.args.args]
            loops = [n.target for n in ast.walk(one) if isinstance(n, ast.For | ast.comprehension)]
            items = (n for target in loops for n in ast.walk(target) if isinstance(n, ast.Name))
            given = {*arguments, *(item.id for item in items)}
            for called in (call.func for call in calls_in(one)):
                if isinstance(called, ast.Attribute) and called.attr not in defined:
                    if ast.unparse(called.value) in ("self", *arguments[:1]):
                        return True
                elif isinstance(called, ast.Name) and called.id in given:
                    return True
        return False

    def _functions_at(self, place: Place) -> tuple[list[ast.FunctionDef], list[ast.FunctionDef]]:
        """The functions of a place's file, and those around its line."""
        tree = parse_source(self._sources.get(place.file or "", "")) or ast.Module([], [])
        found, line = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)], place.line or 0
        return found, [one for one in found if one.lineno <= line <= (one.end_lineno or 0)]

    def loop_over_parts(self, own: list[Place]) -> bool:
        """Return whether the user's frames of a stack are in a loop over the parts of a sample: one
        loop in a method that makes a single sample, else one inside a loop over samples."""
        lines = dict.fromkeys((place.file or "", place.line or 0) for place in own)
        depth = sum(self._loops_in(file)[line] for file, line in lines)
        return depth > (own[-1].function != "__getitem__")

    def _loops_in(self, file: str) -> Counter[int]:
        if file not in self._loops:
            self._loops[file] = count_loops(self._sources.get(file, ""))
        return self._loops[file]


_LOOPS: Final = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def find_preceding_lines(text: str, line: int) -> list[int]:
    """Return lines that may have run before ``line`` in its function, the likeliest first: those
    with loops, or calls of functions of the file that have some, then other calls, each from the
    nearest. At the line of a ``def``, which is sampled when a call of it begins, the call before
    has run all of it. Empty where the text does not show the function."""
    tree = parse_source(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTION)] if tree else []
    around = [node for node in functions if node.lineno <= line <= (node.end_lineno or 0)]
    if not around:
        return []
    function = max(around, key=lambda node: node.lineno)
    whole = line < function.body[0].lineno
    looping = {node.name: _first_loop(node) for node in functions}
    found: list[tuple[int, int, int]] = []
    for node in _simple_statements(function.body):
        if not whole and node.lineno > line:
            continue
        called = {last_name(call.func) for call in calls_in(node)}
        loops = [start for name in called if (start := looping.get(name)) is not None]
        if loops or _first_loop(node) is not None:
            found.append((0, -node.lineno, node.lineno))
            found += [(0, -node.lineno, start) for start in loops]
        elif called:
            found.append((1, -node.lineno, node.lineno))
    return list(dict.fromkeys(number for *_, number in sorted(found, key=lambda row: row[:2])))


def _first_loop(node: ast.AST) -> int | None:
    inner = (part for part in ast.walk(node) if isinstance(part, _LOOPS))
    return min((part.lineno for part in inner), default=None)


def _simple_statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements in order, loops whole, the parts of other blocks one by one."""
    found: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.If | ast.With | ast.Try):
            for part in ("body", "orelse", "finalbody"):
                found += _simple_statements(getattr(node, part, []))
        else:
            found.append(node)
    return found
