"""What was refused, for the audit log: who tried what, and from where."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from schedulearn.api.http.problems import of_error
from schedulearn.core.domain.errors import NotAllowed, SchedulearnError
from schedulearn.service.common.auth import NotAuthenticated, NoToken, NotYours
from schedulearn.service.gateway.audit import Refusal
from schedulearn.service.gateway.gateway import Gateway

_PREFIX = "/api/v1"
# What is tried by calling a route, in the words that are used when it is done (store and service have those).
ACTIONS = {
    "POST /jobs": "job.submit",
    "PATCH /jobs/{job}": "job.update",
    "DELETE /jobs/{job}": "job.delete",
    "POST /jobs/{job}/cancel": "job.cancel",
    "POST /jobs/{job}/pause": "job.pause",
    "POST /jobs/{job}/resume": "job.resume",
    "POST /jobs/{job}/migrate": "job.migrate",
    "POST /jobs/{job}/exec": "job.exec",
    "GET /jobs/{job}/files": "job.pull",
    "PUT /snapshots/{sha256}": "snapshot.upload",
    "POST /nodes": "node.add",
    "PATCH /nodes/{name}": "node.change",
    "DELETE /nodes/{name}": "node.remove",
    "PUT /policy": "policy.set",
    "GET /users": "user.list",
    "POST /users": "user.add",
    "PATCH /users/{name}": "user.update",
    "DELETE /users/{name}": "user.remove",
    "POST /tokens": "token.create",
    "DELETE /tokens/{token}": "token.revoke",
    "POST /logins": "login.issue",
    "POST /logins/redeem": "login.redeem",
    "GET /notify": "notify.show",
    "PUT /notify": "notify.set",
    "POST /notify/secret": "notify.secret",
    "POST /notify/test": "notify.test",
    "POST /studies": "study.compare",
    "POST /studies/{name}/cancel": "study.cancel",
    "DELETE /studies/{name}": "study.delete",
    "GET /audit": "audit.read",
}
_OBJECTS = {"jobs": "job", "nodes": "node", "users": "user", "tokens": "token", "studies": "comparison",
            "snapshots": "snapshot", "attempts": "attempt"}  # fmt: skip


def install(app: FastAPI) -> None:
    app.add_exception_handler(NotAllowed, _refused)
    app.add_exception_handler(NotAuthenticated, _refused)


def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SchedulearnError)
    actor = getattr(request.state, "actor", None)
    if actor is not None and not isinstance(error, NoToken):  # without a token nothing was tried yet
        gateway: Gateway = request.app.state.gateway
        owner = error.owner if isinstance(error, NotYours) else ""
        gateway.audit.refused(actor, Refusal(_action(request), _object(request), owner, str(error)))
    return of_error(error)


def _action(request: Request) -> str:
    path = getattr(request.scope.get("route"), "path", "").removeprefix(_PREFIX)
    return ACTIONS.get(f"{request.method} {path}", f"{request.method} {path}")


def _object(request: Request) -> str:
    """`job 17`, where the path names something."""
    parameters: dict[str, Any] = request.path_params
    path = getattr(request.scope.get("route"), "path", "").removeprefix(_PREFIX)
    kind = _OBJECTS.get(path.split("/")[1] if "/" in path else "")
    named = next(iter(parameters.values()), None)
    return f"{kind} {named}"[:200] if kind and named is not None else ""
