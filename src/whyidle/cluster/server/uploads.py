"""Takes diagnoses of other machines: ``PUT /api/runs/ID``, a document, compressed or not.

An upload is limited in size before and after decompression, and decoded by its type, so that a
small body cannot become a large structure. A run is stored whole or not at all.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import defaultdict
from datetime import datetime
from typing import Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from whyidle.cluster.server.access import Credential
from whyidle.cluster.server.answers import answer_json
from whyidle.cluster.server.pages.run import read_audience
from whyidle.cluster.server.site import RUN_ID, RefusedError, Site
from whyidle.errors import StoreError
from whyidle.model.diagnosis import Diagnosis
from whyidle.store.decode_errors import describe_error
from whyidle.store.entry import Visibility
from whyidle.store.run_store import RUN_ID as ID_FORM
from whyidle.store.run_store import Store

MOST_BYTES: Final = 16 << 20
"""of a document: ten times that of a job with 256 ranks"""
MOST_S: Final = 60.0
AT_ONCE: Final = 4
"""uploads that are checked and written at the same time; others wait"""
READ_AT_ONCE: Final = 16
"""uploads of one credential that are read at the same time; a slow sender delays only its own"""


def list_routes(site: Site) -> list[Route]:
    """The route of uploads."""
    turns = asyncio.Semaphore(AT_ONCE)
    reading = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(READ_AT_ONCE))

    async def take_run(request: Request) -> Response:
        run_id = request.path_params["run"]
        _check_id(run_id)
        store = _choose_store(site, request.query_params.get("store"))
        word = request.query_params.get("visible")
        visible = None if word is None else read_audience(word)
        viewer = request.state.viewer
        async with reading[viewer.name]:
            try:
                body = await asyncio.wait_for(read_body(request), MOST_S)
            except (TimeoutError, asyncio.TimeoutError) as error:
                why = f"It took more than {MOST_S:.0f} s."
                raise RefusedError("The upload is too slow.", why=why, status=408) from error
        async with turns:
            status = await run_in_threadpool(store_upload, store, run_id, body, viewer, visible)
        await run_in_threadpool(site.index.refresh, force=True)
        return answer_json({"id": run_id, "page": f"/runs/{run_id}"}, status)

    return [Route("/api/runs/{run}", take_run, methods=["PUT"])]


async def read_body(request: Request) -> bytes:
    """The body, decompressed.

    Raises:
        RefusedError: it is larger than ``MOST_BYTES``, or is not what its header says.
    """
    form = request.headers.get("content-encoding", "identity").lower()
    if form not in ("identity", "gzip"):
        raise RefusedError(f"The encoding {form[:20]!r} is not known.", status=415)
    inflate = zlib.decompressobj(31) if form == "gzip" else None
    parts, size = [], 0
    async for chunk in request.stream():
        if inflate is not None:
            try:
                chunk = inflate.decompress(chunk, MOST_BYTES + 1 - size)  # noqa: PLW2901
            except zlib.error as error:
                raise RefusedError("The upload is not gzip.", why=f"{error}.") from error
        size += len(chunk)
        if size > MOST_BYTES or (inflate is not None and inflate.unconsumed_tail):
            why = f"A diagnosis has at most {MOST_BYTES >> 20} MB."
            raise RefusedError("The upload is too large.", why=why, status=413)
        parts.append(chunk)
    if inflate is not None and not inflate.eof:
        raise RefusedError("The upload is not gzip.", why="It is incomplete.")
    return b"".join(parts)


def store_upload(
    store: Store, run_id: str, body: bytes, sender: Credential, visible: Visibility | None
) -> int:
    """Check and store a diagnosis; return the HTTP status.

    Raises:
        RefusedError: it is not a diagnosis, or another run has this id.
        StoreError: the store cannot be written.
    """
    try:
        diagnosis = msgspec.json.decode(body, type=Diagnosis)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(
            "The upload is not a diagnosis that this version can read.",
            why=f"{describe_error(error)[:300]}.",
            hint="Use the same version of whyidle on both machines.",
            status=422,
        ) from error
    diagnosis = diagnosis.with_id(run_id).without_secrets()
    try:
        store.import_run(run_id, diagnosis, sender.name, visible=visible, groups=sender.groups)
    except StoreError as error:
        folder = store.folder / run_id
        if not folder.is_dir():
            raise
        try:
            if store.read_diagnosis(store.find_run(run_id)) == diagnosis:
                return 200  # sent again
        except StoreError:
            pass  # it is being written, or broken
        raise RefusedError(error.what, why=error.why, status=409) from error
    return 201


def _check_id(run_id: str) -> None:
    try:
        if RUN_ID.fullmatch(run_id):
            datetime.strptime(run_id, ID_FORM)  # only whether it is a time
            return
    except ValueError:
        pass
    raise RefusedError(
        f"{run_id[:40]!r} is not the id of a run.", why="An id is YYYYMMDD-HHMMSS-microseconds."
    )


def _choose_store(site: Site, name: str | None) -> Store:
    if name is None:
        return next(iter(site.stores.values()))
    if name not in site.stores:
        raise RefusedError(f"There is no store {name[:40]!r}.", why=f"{', '.join(site.stores)}.")
    return site.stores[name]
