"""Snapshots of project folders, by their content hash."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from schedulearn.api.deps import Gate, Person
from schedulearn.domain.errors import NotFound

router = APIRouter(tags=["snapshots"])
Hash = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="SHA-256 of the archive, in hexadecimal digits")]


@router.head("/snapshots/{sha256}")
def has(sha256: Hash, gateway: Gate) -> Response:
    """200 if it is here, else 404."""
    if not gateway.has_snapshot(sha256):
        raise NotFound("there is no such snapshot")
    return Response()


@router.put("/snapshots/{sha256}", status_code=201)
async def put(sha256: Hash, caller: Person, gateway: Gate, request: Request) -> Response:
    """The archive (tar.gz) as the body. It is kept if its hash is right and all its members stay inside."""
    upload = await run_in_threadpool(gateway.upload_snapshot, caller, sha256)
    try:
        async for chunk in request.stream():
            await run_in_threadpool(upload.write, chunk)
        await run_in_threadpool(upload.finish)
    finally:
        await run_in_threadpool(upload.close)
    return Response(status_code=201)
