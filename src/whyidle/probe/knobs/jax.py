"""Sets switches of JAX and ignores the script's own settings of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

from . import NO_FORM, KnobSession

FLAGS = {
    "jax.check_tracer_leaks": "jax_check_tracer_leaks",
    "jax.debug_nans": "jax_debug_nans",
    "jax.disable_jit": "jax_disable_jit",
    "jax.x64": "jax_enable_x64",
}
CONTEXTS = {
    "jax.check_tracer_leaks": "checking_leaks",
    "jax.debug_nans": "debug_nans",
    "jax.disable_jit": "disable_jit",
}
"""knob -> the context manager of the package that sets it for a while"""
CACHE, FOLDER = "jax.compilation_cache", "jax_compilation_cache_dir"
KEEP_ALL = {
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Set each switch once JAX is there, and keep it."""
    session.decline_knobs([knob for knob in edits if knob not in (*FLAGS, CACHE)], NO_FORM)
    flags = {FLAGS[knob]: (knob, value) for knob, value in edits.items() if knob in FLAGS}
    if CACHE in edits:
        folder = os.path.expanduser(edits[CACHE])
        session.after_import([CACHE], "jax", "jit", lambda jax: _keep_code(session, jax, folder))
    if flags:
        _set_flags(session, flags)


def _set_flags(session: KnobSession, flags: dict[str, tuple[str, Any]]) -> None:
    def set_flags(jax: Any) -> None:
        for flag, (knob, value) in flags.items():
            if getattr(jax.config, flag) != value:
                jax.config.update(flag, value)
                session.record_applied(knob)
            if not value and knob in CONTEXTS:
                session.replace_function(jax, CONTEXTS[knob], _ignore_context(session, knob))
        session.replace_function(jax.config, "update", keep_flags)

    def keep_flags(original: Callable[..., Any]) -> Callable[..., Any]:
        def update(name: str, value: Any, *args: Any, **named: Any) -> Any:
            if name not in flags:
                return original(name, value, *args, **named)
            knob, kept = flags[name]
            if value != kept:
                session.run_contained([knob], session.record_applied, knob)
            return None

        return update

    knobs = [knob for knob, _ in flags.values()]
    session.after_import(knobs, "jax", "jit", set_flags)
    session.wait_for(knobs, "the job does not set it otherwise")


def _keep_code(session: KnobSession, jax: Any, folder: str) -> None:
    """Keep all that is compiled, unless the job itself keeps some of it in a folder."""
    if known := getattr(jax.config, FOLDER):
        session.decline_knobs([CACHE], f"the job keeps compiled code in {known} already")
        return

    def yield_to_job(original: Callable[..., Any]) -> Callable[..., Any]:
        def update(name: str, value: Any, *args: Any, **named: Any) -> Any:
            if name == FOLDER and value:
                why = f"the job keeps compiled code in {value}"
                session.run_contained([CACHE], session.release_knob, CACHE, why)
            return original(name, value, *args, **named)

        return update

    for name, value in {FOLDER: folder, **KEEP_ALL}.items():
        jax.config.update(name, value)
    session.record_applied(CACHE)
    session.replace_function(jax.config, "update", yield_to_job)


def _ignore_context(session: KnobSession, knob: str) -> Callable[..., Any]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def stay_off(*args: Any, **named: Any) -> Any:
            session.run_contained([knob], session.record_applied, knob)
            return contextlib.nullcontext()

        return stay_off

    return make
