"""Writes kept fixes as a patch of the user's files, which are never modified themselves."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher, unified_diff
from pathlib import Path

from whyidle import catalog
from whyidle.diagnosis.fix_instructions import by_hand, patched_difference
from whyidle.fix.patching.user_files import UserFiles, own_files
from whyidle.model.diagnosis import Edit, Place
from whyidle.model.knobs import Setting
from whyidle.model.patch import KnobChange, Rewrite, SourceForm
from whyidle.record.plan_channel import Made


def render_diff(name: str, before: str, after: str) -> str:
    """Render the diff of one file; ``name``: its path from the root, with slashes."""
    if before == after:
        return ""
    old, new = (_split_lines(text) for text in (before, after))
    lines = unified_diff(
        old, new, _quote_name(f"a/{name}"), _quote_name(f"b/{name}"), lineterm="\n"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _split_lines(text: str) -> list[str]:
    """Lines as git counts them: only a line feed ends one."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _quote_name(name: str) -> str:
    """A name as git writes it: quoted if it contains quotes, backslashes or control characters;
    followed by a tab if it contains a space."""
    if any(character in '"\\' or character < " " or character == "\x7f" for character in name):
        escaped = "".join(_octal_escape(character) for character in name)
        return f'"{escaped}"'
    return f"{name}\t" if " " in name else name


def _octal_escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    plain = " " <= character != "\x7f"
    return character if plain else f"\\{ord(character):03o}"


WRITTEN = "written where the trials changed it"
AS_PYTORCH = {"rocm": "cuda", "other": "cuda", "tpu": "xla"}
"""kind of device -> PyTorch's name, if different"""


@dataclass(frozen=True, slots=True)
class KeptFix:
    """A kept fix: its edits, and the places of its finding."""

    fix: str
    edits: Sequence[Edit]
    where: Sequence[Place] = ()


@dataclass(frozen=True, slots=True)
class SourcePatch:
    """A patch for ``git apply``, run in ``diff_root``."""

    diff: str
    files: dict[Path, str]  # new texts of the changed files
    sentences: tuple[str, ...]  # instructions for edits that the patch lacks
    own: UserFiles
    lacking: tuple[str, ...] = ()  # fixes that the patch lacks
    notes: tuple[str, ...] = ()  # places of included fixes that trials did not test

    @property
    def diff_root(self) -> Path:
        """The folder that the diff's names start from."""
        return self.own.root

    def note_missing(self, fix: KeptFix, why: str) -> SourcePatch:
        """Add the instruction to write a fix by hand, and the reason."""
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
    """Write a patch for kept fixes of a command with the working folder ``folder``. ``made`` are
    the lines that created the objects that the fixes set."""
    named = [place.file for fix in kept for place in fix.where if place.file]
    own = own_files(command, folder, named)
    tree = _SourceTree.read_tree(own, AS_PYTORCH.get(device, device), _by_file(made or {}, folder))
    first = sorted(kept, key=lambda fix: not any(_is_first(edit) for edit in fix.edits))
    unwritten = [
        (fix.fix, instruction) for fix in first if (instruction := tree.apply_fix(fix, folder))
    ]
    sentences, lacking = (
        [f"{name}: {instruction}" for name, instruction in unwritten],
        [name for name, _ in unwritten],
    )
    notes = [f"{name}: {WRITTEN}; {'; '.join(places)}" for name, places in tree.notes.items()]
    notes += _differences_in_files([fix for fix in first if fix.fix not in lacking])
    changed = {path: text for path, text in tree.texts.items() if text != tree.before[path]}
    diff = "".join(
        render_diff(path.relative_to(own.root).as_posix(), tree.before[path], text)
        for path, text in sorted(changed.items())
    )
    by_people = tuple(dict.fromkeys(sentences))
    return SourcePatch(diff, changed, by_people, own, tuple(dict.fromkeys(lacking)), tuple(notes))


def _differences_in_files(written: Sequence[KeptFix]) -> list[str]:
    edits = [(fix, edit.knob) for fix in written for edit in fix.edits if edit.value]
    differences = [(fix, patched_difference(knob)) for fix, knob in edits]
    return [f"{fix.fix}: {difference}" for fix, difference in differences if difference]


_ByFile = dict[str, dict[Path, dict[int, str]]]
"""knob -> file -> line that created what it sets -> why it was not set there"""


@dataclass(slots=True)
class _SourceTree:
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
        """Write a fix into the files; returns instructions for the edits that were not written."""
        instructions = [self._apply_edit(fix, edit, folder) for edit in _in_order(fix.edits)]
        return "; ".join(filter(None, instructions))

    def _apply_edit(self, fix: KeptFix, edit: Edit, folder: Path) -> str:
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
        other_values = {each.knob: each.value for each in fix.edits if each.value is not None}
        change = KnobChange(
            edit.knob,
            _edit_setting(edit),
            edit.was,
            (),
            self.own.options,
            insert,
            self.device,
            other_values,
        )
        for path in paths:
            for form in _forms_of_knob(edit.knob):
                before, now = self.before[path], self.texts[path]
                lines = _move_lines(_place_lines(fix.where, path, folder), before, now)
                made = self._making_lines(edit.knob, path)
                change = replace(change, lines=lines, made=made)
                rewrite = _rewrite_text(form, now, change, path)
                self.texts[path] = rewrite.text
                done |= rewrite.done
                name = path.relative_to(self.own.root)
                why += [f"{name}, {each}" for each in rewrite.why]
                notes += [f"{name}, {each}" for each in rewrite.notes]
        return done, why, notes

    def _making_lines(self, knob: str, path: Path) -> dict[int, str] | None:
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
    """Edits that change something, prerequisites first."""
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
    """Rewrite a text; if the result is not valid Python, keep the text and give the reason."""
    mark, body = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
    try:
        found = form.write(body, change)
        if found.text == body:
            return replace(found, text=text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the user's own lines
            compile(found.text, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        return Rewrite(text, why=(f"which cannot be edited automatically: {error}",))
    return replace(found, text=mark + found.text)


def _read_text(path: Path) -> str | None:
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
    """Map line numbers of the text ``before`` to the text ``now``."""
    if not lines or before == now:
        return lines
    matcher = SequenceMatcher(None, before.split("\n"), now.split("\n"), autojunk=False)
    moved = []
    for line in lines:
        for _, start, end, new, _ in matcher.get_opcodes():
            if start < line <= end:
                moved.append(new + line - start)
    return tuple(moved)
