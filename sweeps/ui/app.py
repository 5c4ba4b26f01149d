"""Server of the explorer: its page and its answers, on this machine alone and for that page alone."""

import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from hwspaces.files.extras import installing
from sweeps.answers.to_json import json_text
from sweeps.ui.answer import curve, record
from sweeps.ui.controls import controls
from sweeps.ui.offer import Offer
from sweeps.ui.state import State
from sweeps.ui.url import state_of

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
except ImportError:
    raise ValueError(f"the explorer needs Starlette and uvicorn: {installing('ui')}") from None

ADDRESS = "127.0.0.1"
"""The only address that is listened on."""

FILES = Path(__file__).with_name("page")

HEADERS = {
    # The page loads nothing from elsewhere, and no other page shows it inside of itself.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def listening(port: int) -> socket.socket:
    """A socket that listens on `port` of this machine alone; 0 takes a free one.

    Raises:
      ValueError: one line, where the port is not to be had.
    """
    # With the protocol named, asyncio sends small packets at once; else every answer would wait 40 ms for an ACK.
    own = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # A port whose last server has just ended may be taken again.
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind((ADDRESS, port))
        own.listen()
    except OSError as error:
        own.close()
        raise ValueError(f"port {port}: {error.strerror}; --port N takes another one, --port 0 a free one") from None
    return own


def serve(own: socket.socket, offer: Offer) -> None:
    """Answer on a socket until the process is told to end."""
    app = application(own.getsockname()[1], offer)
    config = uvicorn.Config(app, loop="asyncio", http="h11", ws="none", lifespan="off", log_level="warning")
    uvicorn.Server(config).run(sockets=[own])


def application(port: int, offer: Offer) -> Starlette:
    """The pages and answers of the explorer at `port`, about what it offers."""
    routes = [
        Route("/", _page(offer)),
        Route("/answer", _answering(record, offer)),
        Route("/curve", _answering(curve, offer)),
        Mount("/page", StaticFiles(directory=FILES)),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, port=port)])


def _page(offer: Offer) -> Callable[[Request], Response]:
    """A route of the page, whose controls have what is offered."""

    def page(request: Request) -> Response:
        text = (FILES / "index.html").read_text(encoding="utf-8")
        return HTMLResponse(text.replace("<!-- controls -->", controls(offer)))

    return page


def _answering(function: Callable[[State], dict[str, Any]], offer: Offer) -> Callable[[Request], Response]:
    """A route that answers for the state of the URL's query; one line where it is none."""

    # Starlette runs a plain function in a thread of its own.
    def answered(request: Request) -> Response:
        try:
            body, status = function(state_of(request.url.query, offer)), 200
        except ValueError as error:
            body, status = {"error": " ".join(str(error).split())}, 422
        return Response(json_text(body, None), status, media_type="application/json")

    return answered


def refusal(path: str, headers: Mapping[str, str], port: int) -> str | None:
    """Why a request is not answered; None where it is of the explorer's own page, or of a person who opens it.

    Other web pages may send requests to this machine too. A foreign name that leads here has itself in `Host`, and a
    page of another origin says so in `Origin` or `Sec-Fetch-Site`.

    Args:
      headers: of the request, keys in lower case.
    """
    places = {f"{name}:{port}" for name in (ADDRESS, "localhost")}
    if headers.get("host", "") not in places:
        return f"this server answers at {ADDRESS}:{port} alone"
    if headers.get("origin") not in (None, *(f"http://{place}" for place in places)):
        return "this server answers its own page alone"
    # A link to the page may stand anywhere; all else is asked by the page itself.
    if path != "/" and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return "this server answers its own page alone"
    return None


class Guard:
    """Refuses requests that are not of the explorer's own page, and adds `HEADERS` to every response."""

    def __init__(self, app: Any, port: int):
        self.app, self.port = app, port

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        """Answer one request."""
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        words = refusal(scope["path"], headers, self.port)

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(key.lower().encode(), value.encode()) for key, value in HEADERS.items()]
                message = message | {"headers": [*message["headers"], *own]}
            await send(message)

        await (self.app if words is None else PlainTextResponse(words, 403))(scope, receive, sent)
