"""Reports as documents of their own, which a page shows in a frame. Whatever stands in one, it can do nothing."""

import base64
import hashlib

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from schedulearn.client import ApiError, ServiceUnreachable
from schedulearn.dashboard.access.session import KEY, Session
from schedulearn.lab.report.page import SCRIPT


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


# Nothing is loaded, nothing of the page can be reached, and of all scripts only that of our own legends runs.
_HEADERS = {
    "Content-Security-Policy": (
        f"sandbox allow-scripts; default-src 'none'; script-src 'sha256-{_hash(SCRIPT)}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Frame-Options": "SAMEORIGIN",
    "Cache-Control": "no-store",
}


def report_routes() -> APIRouter:
    router = APIRouter()

    @router.get("/results/{name}/report")
    async def report(request: Request, name: str) -> Response:
        session: Session = request.scope[KEY]
        try:
            content = await session.ask(lambda client: client.report(name))
        except ApiError as problem:
            return Response(str(problem), problem.status, media_type="text/plain")
        except ServiceUnreachable as problem:
            return Response(str(problem), 503, media_type="text/plain")
        return HTMLResponse(content, headers=_HEADERS)

    return router
