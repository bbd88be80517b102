"""The application: routes, limits and errors put together around a gateway."""

from typing import Any

from fastapi import APIRouter, Depends, FastAPI

from schedulearn import __version__
from schedulearn.api import auditing
from schedulearn.api.body.wellformed import well_formed
from schedulearn.api.common.deps import person_of
from schedulearn.api.description import describe
from schedulearn.api.http import problems
from schedulearn.api.http.concurrency import ConcurrencyLimits
from schedulearn.api.http.connections import Limits
from schedulearn.api.http.limits import BodyLimits
from schedulearn.api.routes import (
    audit,
    events,
    health,
    jobs,
    logins,
    logs,
    nodes,
    notify,
    overview,
    policy,
    prometheus,
    snapshots,
    studies,
    users,
    workers,
)
from schedulearn.service.gateway.gateway import Gateway

PREFIX = "/api/v1"
_OPEN = (health, logins)  # what answers without a token; to make a code takes one all the same
_FOR_JOBS = (workers,)  # what a job's own token is good for
_FOR_USERS = (jobs, logs, events, overview, nodes, policy, users, notify, snapshots, studies, audit)


def create_app(gateway: Gateway, connections: int = Limits().total) -> FastAPI:
    """`connections` is how many clients may have altogether; each of them gets a part."""
    # FastAPI's own pages are left out: they load scripts from elsewhere, and answer without a token.
    app = FastAPI(
        title="Schedulearn",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.gateway = gateway
    for topic in (*_OPEN, *_FOR_JOBS):
        app.include_router(topic.router, prefix=PREFIX, dependencies=[Depends(well_formed)])
    users_alone = [Depends(person_of), Depends(well_formed)]
    for topic in _FOR_USERS:
        app.include_router(topic.router, prefix=PREFIX, dependencies=users_alone)
    app.include_router(_schema(app), prefix=PREFIX, dependencies=users_alone)
    app.include_router(prometheus.router, dependencies=users_alone)
    app.add_middleware(
        BodyLimits,
        snapshot_limit=lambda: app.state.gateway.uploads.limit,
        authenticate=lambda token: app.state.gateway.auth.authenticate(token),
    )
    app.add_middleware(ConcurrencyLimits, requests=max(8, connections // 8), streams=max(4, connections // 16))
    problems.install(app)
    auditing.install(app)
    describe(app)
    return app


def _schema(app: FastAPI) -> APIRouter:
    router = APIRouter(tags=["service"])

    @router.get("/openapi.json")
    def openapi() -> dict[str, Any]:
        """This API, as OpenAPI."""
        return app.openapi()

    return router
