"""The web process on PostgreSQL, whose server goes away and comes back: nothing is promised that is not stored."""

from __future__ import annotations

import json
import secrets
import sys

import httpx2
import pytest
from factories import make_delivery, make_run
from inbound_service import report
from outbound_servers import local_github
from private_postgres import private_cluster

from relay.demo.children import start
from relay.demo.play import free_port, toml
from relay.demo.webhook import sign
from relay.store.db import open_engine

REPO = "Ascend/pytorch"


@pytest.mark.usefixtures("postgres")
def test_while_the_database_is_away_everybody_is_asked_to_come_again(tmp_path, shared):
    (tmp_path / "github").mkdir()
    (tmp_path / "allowlist.yml").write_text(f"L2: [{REPO}]\n")
    body = (shared / "data/relay/webhook/pull_request_opened.json").read_bytes()
    with private_cluster() as cluster, local_github(tmp_path / "github") as world:
        url = cluster.new_database()
        engine = open_engine(url)
        delivery = make_delivery(engine)
        make_run(engine, delivery_id=delivery, downstream=REPO, downstream_key=REPO.casefold(), executor="github")
        engine.dispose()
        values = {
            "data_dir": str(tmp_path), "database_url": url, "port": free_port(8495),
            "allowlist": str(tmp_path / "allowlist.yml"),
            "oidc_issuers": [{"issuer": world.url}], "upstream_repo": "codertocat/hello-world",
        }  # fmt: skip
        (tmp_path / "relay.toml").write_text(toml(values))
        env = {"RELAY_CONFIG": str(tmp_path / "relay.toml"), "RELAY_WEBHOOK_SECRETS": json.dumps(["s"])}
        web = start("web", [sys.executable, "-m", "relay.web"], env, tmp_path / "logs")
        base = f"http://127.0.0.1:{values['port']}"
        with httpx2.Client(trust_env=False, timeout=60) as http:
            try:
                _until_ready(http, base)
                claims = {"aud": "pytorch-cross-repo-ci-relay", "repository": REPO, "run_id": "55", "run_attempt": "1"}
                token = world.hub.ledger.mint(claims)

                def callback():
                    headers = {"authorization": f"Bearer {token}"}
                    return http.post(f"{base}/github/callback", json=report(delivery), headers=headers)

                def webhook(number):
                    headers = {
                        "X-GitHub-Event": "pull_request", "X-GitHub-Delivery": f"d-{number}",
                        "X-Hub-Signature-256": sign("s", body),
                    }  # fmt: skip
                    return http.post(f"{base}/github/webhook", content=body, headers=headers)

                assert webhook(secrets.token_hex(4)).status_code == 202
                cluster.pause()
                for answer in (callback(), webhook("away")):
                    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
                    assert int(answer.headers["retry-after"]) >= 1
                cluster.resume()
                assert webhook("away").json() == {"accepted": True, "delivery": "d-away"}
                assert callback().json()["recorded"] is True
                assert callback().json()["recorded"] is True
            finally:
                web.stop(10)


def _until_ready(http, base):
    import time

    deadline = time.monotonic() + 120
    while True:
        try:
            if http.get(f"{base}/readyz").status_code == 200:
                return
        except httpx2.HTTPError:
            pass
        if time.monotonic() > deadline:
            pytest.fail("the web process does not become ready")
        time.sleep(0.1)
