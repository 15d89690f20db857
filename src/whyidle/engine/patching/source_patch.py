"""Writes kept fixes as a patch of the user's own files. The files themselves are never written."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path

from whyidle import catalog
from whyidle.engine.patching.unified_diff import render_diff
from whyidle.engine.patching.user_files import UserFiles, own_files
from whyidle.engine.recording.plan_channel import Made
from whyidle.engine.wording import by_hand, patched_difference
from whyidle.model.diagnosis import Edit, Place
from whyidle.model.knobs import Setting
from whyidle.model.patch import KnobChange, Rewrite, SourceForm

WRITTEN = "written where the trials changed it"
AS_PYTORCH = {"rocm": "cuda", "other": "cuda", "tpu": "xla"}
"""kinds of devices that PyTorch calls otherwise"""


@dataclass(frozen=True, slots=True)
class KeptFix:
    """A fix that was kept: its edits, and the places that its finding names."""

    fix: str
    edits: Sequence[Edit]
    where: Sequence[Place] = ()


@dataclass(frozen=True, slots=True)
class SourcePatch:
    """What ``git apply`` takes, run in ``root``. ``files`` are the changed files' new texts by
    absolute path; ``sentences`` say what has no source form here, one for each, ``lacking`` of
    which fixes; ``own`` is what was looked at. ``notes`` say of fixes that the patch has which
    places trials have told nothing of."""

    diff: str
    files: dict[Path, str]
    sentences: tuple[str, ...]
    own: UserFiles
    lacking: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def diff_root(self) -> Path:
        """The folder that the diff's names start from."""
        return self.own.root

    def note_missing(self, fix: KeptFix, why: str) -> SourcePatch:
        """The same, of which it is told that a fix is to be written by hand, and why."""
        edits = _in_order(fix.edits)
        hands = "; ".join(by_hand(edit.knob, _edit_setting(edit)) for edit in edits)
        sentences = (*self.sentences, f"{fix.fix}: {hands} ({why})")
        return replace(self, sentences=sentences, lacking=(*self.lacking, fix.fix))


def make_patch(
    kept: Sequence[KeptFix],
    command: Sequence[str],
    folder: Path,
    device: str = "cuda",
    made: Made | None = None,
) -> SourcePatch:
    """The patch for fixes that were kept for a command that is started in ``folder`` and trains on
    a kind of device; ``made`` is where what they set was made."""
    named = [place.file for fix in kept for place in fix.where if place.file]
    own = own_files(command, folder, named)
    tree = _SourceTree.read_tree(own, AS_PYTORCH.get(device, device), _by_file(made or {}, folder))
    first = sorted(kept, key=lambda fix: not any(_is_first(edit) for edit in fix.edits))
    left = [(fix.fix, said) for fix in first if (said := tree.apply_fix(fix, folder))]
    sentences, lacking = [f"{name}: {said}" for name, said in left], [name for name, _ in left]
    notes = [f"{name}: {WRITTEN}; {'; '.join(told)}" for name, told in tree.notes.items()]
    notes += _differences_in_files([fix for fix in first if fix.fix not in lacking])
    changed = {path: text for path, text in tree.texts.items() if text != tree.before[path]}
    diff = "".join(
        render_diff(path.relative_to(own.root).as_posix(), tree.before[path], text)
        for path, text in sorted(changed.items())
    )
    by_people = tuple(dict.fromkeys(sentences))
    return SourcePatch(diff, changed, by_people, own, tuple(dict.fromkeys(lacking)), tuple(notes))


def _differences_in_files(written: Sequence[KeptFix]) -> list[str]:
    """What of these is otherwise in files than in trials."""
    edits = [(fix, edit.knob) for fix in written for edit in fix.edits if edit.value]
    told = [(fix, patched_difference(knob)) for fix, knob in edits]
    return [f"{fix.fix}: {difference}" for fix, difference in told if difference]


_ByFile = dict[str, dict[Path, dict[int, str]]]
"""knob -> file -> line that made what it sets -> why it was not set there"""


@dataclass(slots=True)
class _SourceTree:
    """The user's files, as they are and as they become."""

    own: UserFiles
    before: dict[Path, str]
    texts: dict[Path, str]
    device: str
    made: _ByFile
    notes: dict[str, dict[str, None]] = field(default_factory=dict)

    @classmethod
    def read_tree(cls, own: UserFiles, device: str, made: _ByFile) -> _SourceTree:
        texts = {path: text for path in own.files if (text := _read_text(path)) is not None}
        return cls(own, texts, dict(texts), device, made)

    def apply_fix(self, fix: KeptFix, folder: Path) -> str:
        """Write a fix into whichever files have a place for it; what is left to say. What belongs
        together is written wholly, or not at all."""
        before, edits = dict(self.texts), _in_order(fix.edits)
        said = {edit.knob: self._apply_edit(fix, edit, folder) for edit in edits}
        whole = any(catalog.find_knob(knob).belongs_with in said for knob in said)
        if whole and any(said.values()):
            self.texts = before
            self.notes.pop(fix.fix, None)
            hands = (by_hand(edit.knob, _edit_setting(edit)) for edit in edits)
            said = {knob: said[knob] or hand for knob, hand in zip(said, hands, strict=True)}
        return "; ".join(filter(None, said.values()))

    def _apply_edit(self, fix: KeptFix, edit: Edit, folder: Path) -> str:
        """Write one edit; what is left to say."""
        done, why, notes = self._write_edit(fix, edit, folder, list(self.texts))
        if not done and not why and not notes and self.own.script in self.texts:
            done, why, notes = self._write_edit(fix, edit, folder, [self.own.script], insert=True)
        hand = by_hand(edit.knob, _edit_setting(edit))
        if why or (notes and not done):
            return f"{hand} ({'; '.join(dict.fromkeys((*why, *notes)))})"
        if notes:
            self.notes.setdefault(fix.fix, {}).update(dict.fromkeys(notes))
        return "" if done else hand

    def _write_edit(
        self, fix: KeptFix, edit: Edit, folder: Path, paths: list[Path], *, insert: bool = False
    ) -> tuple[bool, list[str], list[str]]:
        done, why, notes = False, [], []
        beside = {each.knob: each.value for each in fix.edits if each.value is not None}
        change = KnobChange(
            edit.knob,
            _edit_setting(edit),
            edit.was,
            (),
            self.own.options,
            insert,
            self.device,
            beside,
        )
        for path in paths:
            for form in _forms_of_knob(edit.knob):
                before, now = self.before[path], self.texts[path]
                lines = _move_lines(_place_lines(fix.where, path, folder), before, now)
                made = self._making_lines(edit.knob, path)
                change = replace(change, lines=lines, made=made)
                found = _rewrite_text(form, now, change, path)
                self.texts[path] = found.text
                done |= found.done
                name = path.relative_to(self.own.root)
                why += [f"{name}, {each}" for each in found.why]
                notes += [f"{name}, {each}" for each in found.notes]
        return done, why, notes

    def _making_lines(self, knob: str, path: Path) -> dict[int, str] | None:
        """Lines of a file as it is by now that made what a knob sets."""
        if knob not in self.made:
            return None
        before, now = self.before[path], self.texts[path]
        lines = self.made[knob].get(path, {})
        return {
            new: why for line, why in lines.items() for new in _move_lines((line,), before, now)
        }


def _by_file(made: Made, folder: Path) -> _ByFile:
    found: _ByFile = {}
    for knob, places in made.items():
        files = found.setdefault(knob, {})
        for place, why in places.items():
            name, _, line = place.rpartition(":")
            files.setdefault((folder / name).resolve(), {})[int(line)] = why
    return found


def _in_order(edits: Iterable[Edit]) -> list[Edit]:
    """What others need first; what changes nothing not at all."""
    real = [edit for edit in edits if edit.value is not None and edit.value != edit.was]
    return sorted(real, key=lambda edit: not _is_first(edit))


def _is_first(edit: Edit) -> bool:
    return catalog.find_knob(edit.knob).written_first


def _edit_setting(edit: Edit) -> Setting:
    assert edit.value is not None, edit.knob
    return edit.value


def _forms_of_knob(knob: str) -> list[SourceForm]:
    family = knob.partition(".")[0] + ".*"
    forms = catalog.load_source_forms().values()
    return [form for form in forms if knob in form.knobs or family in form.knobs]


def _rewrite_text(form: SourceForm, text: str, change: KnobChange, path: Path) -> Rewrite:
    """The new text where it is Python again; else the old one, and why."""
    mark, body = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
    try:
        found = form.write(body, change)
        if found.text == body:
            return replace(found, text=text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the compiler thinks of the user's own lines
            compile(found.text, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        return Rewrite(text, why=(f"which cannot be changed by a program: {error}",))
    return replace(found, text=mark + found.text)


def _read_text(path: Path) -> str | None:
    """A file's text, its line ends as they are; None where it is not UTF-8."""
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None


def _place_lines(where: Iterable[Place], path: Path, folder: Path) -> tuple[int, ...]:
    return tuple(
        place.line
        for place in where
        if place.file and place.line is not None and (folder / place.file).resolve() == path
    )


def _move_lines(lines: tuple[int, ...], before: str, now: str) -> tuple[int, ...]:
    """Where lines of the text before have gone; a line that was changed, to where it stood."""
    if not lines or before == now:
        return lines
    matcher = SequenceMatcher(None, before.split("\n"), now.split("\n"), autojunk=False)
    moved = []
    for line in lines:
        for _, start, end, new, _ in matcher.get_opcodes():
            if start < line <= end:
                moved.append(new + line - start)
    return tuple(moved)
