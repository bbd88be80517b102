"""Snapshots of project folders, by their content hash."""

from typing import Annotated

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from fastapi import Path, Request, Response
from starlette.concurrency import run_in_threadpool

from schedulearn.api.body.fields import SHA256
from schedulearn.api.common.deps import Gate, Person
from schedulearn.api.common.router import Router
from schedulearn.core.domain.errors import NotFound

_BINARY = {"type": "string", "format": "binary"}
router = Router(tags=["snapshots"])
CHECKS = 2  # archives that are checked at the same time; the others wait
_limiter = RunVar[CapacityLimiter]("snapshot checks")  # one for each event loop
Hash = Annotated[str, Path(description="SHA-256 of the archive, in hexadecimal digits"), SHA256]


@router.head("/snapshots/{sha256}", response_class=Response)
def has(sha256: Hash, caller: Person, gateway: Gate) -> Response:
    """200 if the caller has uploaded it, and it is still here; else 404, whoever else may have it."""
    if not gateway.uploads.has(caller, sha256):
        raise NotFound("there is no such snapshot")
    return Response()


@router.put(
    "/snapshots/{sha256}",
    status_code=201,
    response_class=Response,
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": _BINARY}}}},
)
async def put(sha256: Hash, caller: Person, gateway: Gate, request: Request) -> Response:
    """The archive (tar.gz) as the body. It is kept if its hash is right and all its members stay inside.

    It is the caller's then: only those who have uploaded it may submit jobs with it. 429 if the caller has too many.
    """
    announced = request.headers.get("content-length", "")
    size = int(announced[:18]) if announced.isascii() and announced.isdigit() else 0
    upload = await run_in_threadpool(gateway.uploads.begin, caller, sha256, size)
    try:
        async for chunk in request.stream():
            await run_in_threadpool(upload.write, chunk)
        # In threads of their own: however many archives are being checked, all other requests find one.
        await to_thread.run_sync(upload.finish, limiter=_checks())
    finally:
        await run_in_threadpool(upload.close)
    return Response(status_code=201)


def _checks() -> CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        _limiter.set(CapacityLimiter(CHECKS))
        return _limiter.get()
