"""``python -m relay.web``: the web process."""

from __future__ import annotations

import gc
import os
import signal
import sys

import uvicorn

from relay import tracing
from relay.logs import setup as setup_logs
from relay.reload import follow
from relay.settings import load
from relay.web.app import create_app


def main() -> None:
    setup_logs("web")
    tracing.setup("web")
    # a thread that has its commit gets the interpreter back at once, not after five milliseconds at each step
    sys.setswitchinterval(0.0005)
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn ends in order and then raises the signal again, which by default would end us in the middle
        signal.signal(number, lambda *_: sys.exit(0))
    settings = load()
    follow(settings)
    app = create_app(settings)
    # what the process begins with stays: walked at each full collection, it holds up whatever page is being made then
    gc.collect()
    gc.freeze()
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        # who asks is whoever connects, unless the operator names the proxies that may say otherwise (uvicorn's own
        # default believes everybody on this machine, and limits go by address)
        proxy_headers=bool(os.environ.get("FORWARDED_ALLOW_IPS")),
        # an open event stream must not keep the process from ending
        timeout_graceful_shutdown=2,
    )


if __name__ == "__main__":
    main()
