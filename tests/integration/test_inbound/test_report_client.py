"""The callback client, as a downstream runs it: the file alone, another environment, the running relay."""

from __future__ import annotations

import http.server
import json
import secrets
import sys
import threading
from contextlib import contextmanager

import pytest
from inbound_service import ROOT, report, run_client

from relay.report import main

L4 = "example-org/backend-ci"


def options(service, tmp_path, token, *more):
    (tmp_path / "token").write_text(token + "\n")
    return (f"{service.url}/github/callback", "--token-file", str(tmp_path / "token"), *more)


def event_file(tmp_path, delivery):
    payload = {"pull_request": {"number": 5, "body": "x" * 200_000, "head": {"sha": "a" * 40}, "labels": []}}
    path = tmp_path / "event.json"
    path.write_text(
        json.dumps({"client_payload": {"event_type": "pull_request", "delivery_id": delivery, "payload": payload}})
    )
    return {"GITHUB_EVENT_PATH": str(path), "GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": L4, "GITHUB_RUN_ID": "9001",
            "GITHUB_RUN_ATTEMPT": "2", "GITHUB_WORKFLOW": "CI", "GITHUB_JOB": "smoke"}  # fmt: skip


def test_a_job_reports_its_start_and_its_end_from_the_events_file(service, tmp_path):
    delivery = service.dispatched(L4)
    env = event_file(tmp_path, delivery)
    for status, more in (("in_progress", ()), ("completed", ("--conclusion", "failure"))):
        token = service.token(L4, "9001", "2")
        done = run_client(*options(service, tmp_path, token, "--status", status, *more), **env)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["recorded"] is True
    rows = service.rows("select workflow, name, attempt, conclusion from job where run_id = '9001'")
    assert rows == [("CI", "smoke", 2, "failure")]


def test_what_the_relay_refuses_and_what_it_does_not_record_have_exit_codes(service, tmp_path):
    env = event_file(tmp_path, "never-sent")
    done = ("--status", "completed", "--conclusion", "success")
    refused = run_client(*options(service, tmp_path, service.token(L4, "9001", "2"), *done), **env)
    assert refused.returncode == 1
    assert "404 dispatch-unknown" in refused.stderr
    one = service.token("example-org/one", "9001", "2")
    assert run_client(*options(service, tmp_path, one, *done), **env).returncode == 0
    one = service.token("example-org/one", "9001", "2")
    strict = run_client(*options(service, tmp_path, one, *done, "--strict"), **env)
    assert strict.returncode == 3
    assert "L1" in strict.stderr


def test_a_nightly_reports_from_anywhere(service, tmp_path):
    sha = secrets.token_hex(20)
    service.world.hub.contained["pytorch/pytorch", "main"].add(sha)
    token = service.token("torch-spyre/torch-spyre", "build-7")
    more = ("--status=completed", "--conclusion=success", "--event-type=nightly", f"--delivery-id={sha}")
    told = ("--workflow=nightly", "--run-id=build-7", "--job-name=all", "--started-at=2026-08-19T08:00:00Z")
    done = run_client(*options(service, tmp_path, token, *more, *told))
    assert (done.returncode, done.stderr) == (0, "")
    (body,) = service.wait(lambda: service.hud(sha))
    assert body["untrusted"]["callback_payload"]["workflow"]["started_at"] == "2026-08-19T08:00:00Z"


@contextmanager
def server(answers):
    """Answers each POST with the next of ``answers``: (status, headers, body), None: no answer at all."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            seen.append((self.headers["authorization"], body))
            answer = answers[min(len(seen), len(answers)) - 1]
            if answer is None:
                self.connection.close()
                return
            status, headers, text = answer
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}/github/callback", seen
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


DONE = ("--status=completed", "--conclusion=success", "--delivery-id=d", "--workflow=ci", "--run-id=1")
OK = (200, {}, '{"ok": true, "recorded": true}')


def test_it_comes_again_as_asked_with_the_same_token_and_body():
    answers = [(429, {"Retry-After": "1"}, "{}"), None, (503, {}, "not even JSON"), OK]
    with server(answers) as (url, seen):
        done = run_client(url, *DONE, RELAY_OIDC_TOKEN="t")
    assert done.returncode == 0
    assert len(seen) == 4
    assert len(set(seen)) == 1
    assert "429" in done.stderr


@pytest.mark.parametrize(
    ("answer", "more", "code"),
    [
        ((400, {}, '{"code": "bad-request", "detail": "workflow.name: x"}'), (), 1),
        ((302, {"Location": "https://evil.example/"}, ""), (), 1),
        ((500, {}, "{}"), ("--max-time=2",), 4),
        ((429, {"Retry-After": "900"}, "{}"), ("--max-time=5",), 4),
    ],
)
def test_it_gives_up_where_there_is_no_hope(answer, more, code):
    with server([answer]) as (url, seen):
        assert run_client(url, *DONE, *more, RELAY_OIDC_TOKEN="t").returncode == code
    assert len(seen) >= 1


def test_usage_and_missing_tokens_say_what_to_do(capsys, tmp_path):
    base = ["--callback-url", "http://127.0.0.1:9/x"]
    for argv, env, code, says in (
        (["--status=completed"], {}, 2, "--conclusion"),
        (["--status=in_progress"], {}, 2, "client_payload"),
        (["--status=in_progress", "--event-type=nightly"], {}, 2, "completed"),
        (["--status=in_progress", "--delivery-id=d", "--workflow=w"], {}, 2, "--run-id"),
        ([*DONE, "--test-results={"], {}, 2, "--test-results is not JSON"),
        ([*DONE, f"--token-file={tmp_path}/none"], {}, 2, "cannot be read"),
        (list(DONE), {}, 5, "--token-file"),
        (list(DONE), {"GITHUB_ACTIONS": "true"}, 5, "id-token: write"),
        (list(DONE), {"GITLAB_CI": "true"}, 5, "id_tokens"),
        ([*DONE, "--max-time=3"], {"RELAY_OIDC_TOKEN": "t"}, 4, "after"),
    ):
        assert main([*base, *argv], env) == code, argv
        assert says in capsys.readouterr().err


def test_it_asks_each_ci_for_its_own_token_and_facts(tmp_path):
    agent = tmp_path / "buildkite-agent"
    agent.write_text("#!/bin/sh\necho token-of-$1-$2-$4\n")
    agent.chmod(0o755)
    env = {
        "PATH": f"{tmp_path}:/usr/bin:/bin", "BUILDKITE": "true", "BUILDKITE_BUILD_ID": "018c-d930",
        "BUILDKITE_PIPELINE_SLUG": "ci", "BUILDKITE_LABEL": ":docker: Build", "BUILDKITE_RETRY_COUNT": "1",
        "BUILDKITE_BUILD_URL": "https://buildkite.com/vllm/ci/builds/1", "BUILDKITE_JOB_ID": "job-1",
    }  # fmt: skip
    with server([OK]) as (url, seen):
        done = run_client(url, "--status=completed", "--conclusion=success", "--delivery-id=d", **env)
    assert done.returncode == 0
    ((header, body),) = seen
    flow = json.loads(body)["workflow"]
    assert header == "Bearer token-of-oidc-request-token-pytorch-cross-repo-ci-relay"
    assert (flow["run_id"], flow["run_attempt"], flow["job_name"]) == ("018c-d930", "2", ":docker: Build")
    assert flow["url"] == env["BUILDKITE_BUILD_URL"]


def test_it_is_one_file_of_the_standard_library():
    import ast

    tree = ast.parse((ROOT / "relay" / "report.py").read_text(), feature_version=(3, 8))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_the_action_hands_its_inputs_on_and_nothing_of_them_is_a_command(tmp_path):
    import subprocess

    import yaml

    folder = ROOT / "deploy" / "action"
    action = yaml.safe_load((folder / "action.yml").read_text())
    public = {"status", "conclusion", "delivery-id", "event-type", "test-results", "callback-url", "artifact-url",
              "max-time", "job-name"}  # fmt: skip
    assert public <= set(action["inputs"])
    (step,) = action["runs"]["steps"]
    assert "${{" not in step["run"]
    env = dict.fromkeys(step["env"], "")
    env |= {"IN_STATUS": "completed", "IN_CONCLUSION": "success", "IN_DELIVERY_ID": "d", "IN_MAX_TIME": "20",
            "IN_JOB_NAME": "$(touch evil) `x` \"'", "IN_STRICT": "false", "ACTION_PATH": str(folder),
            "GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "5", "GITHUB_WORKFLOW": "CI",
            "GITHUB_OUTPUT": str(tmp_path / "out"), "RELAY_OIDC_TOKEN": "t", "PATH": "/usr/bin:/bin"}  # fmt: skip
    with server([OK]) as (url, seen):
        done = subprocess.run(["bash", str(folder / "report.sh")], env={**env, "IN_CALLBACK_URL": url}, cwd=tmp_path,
                              capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(seen[0][1])["workflow"]["job_name"] == env["IN_JOB_NAME"]
    assert (tmp_path / "out").read_text().startswith("answer={")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]


def test_the_bodies_of_the_reference_are_still_understood(service):
    delivery = service.dispatched(L4)
    body = {**report(delivery), "payload": {"pull_request": {"number": 5}}}
    assert service.callback(L4, body).status_code == 200
