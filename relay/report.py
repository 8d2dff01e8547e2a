"""Reports a CI job to the relay: ``python -m relay.report --status completed --conclusion …``, or this file alone.

It needs Python 3.8 and nothing else, and runs on GitHub Actions (as deploy/action), Buildkite, GitLab and anywhere that
can hand it an OIDC token. It tries again as the relay asks (Retry-After), always with the same token and body, which
the relay takes once. docs/callback.md has the wire and the exit codes.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

AUDIENCE = "pytorch-cross-repo-ci-relay"
OK, REFUSED, USAGE, NOT_RECORDED, UNREACHABLE, NO_TOKEN = 0, 1, 2, 3, 4, 5
CONCLUSIONS = ("success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required")
AGAIN = (408, 425, 429, 500, 502, 503, 504)
KEPT_LABELS = 100
ANSWER_MAX = 100_000


class Problem(Exception):
    """What keeps the report from being sent: an exit code, a sentence, what to do."""

    def __init__(self, code: int, said: str, hint: str) -> None:
        super().__init__(f"{said} ({hint})")
        self.code = code


class Stop(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the token to somebody else."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


# ----------------------------------------------------------------------------------------------------------- the token


def get_token(env: Mapping[str, str], given: argparse.Namespace, until: float) -> str:
    """The job's OIDC token, from wherever this CI has it. Problem NO_TOKEN."""
    if given.token_file:
        return _read(given.token_file, "--token-file").strip()
    if env.get("RELAY_OIDC_TOKEN"):
        return env["RELAY_OIDC_TOKEN"].strip()
    if env.get("ACTIONS_ID_TOKEN_REQUEST_URL"):
        return _retried(lambda: _github_token(env, given.audience), until, "GitHub gives no token")
    if env.get("BUILDKITE") == "true":
        return _retried(lambda: _buildkite_token(given.audience), until, "buildkite-agent gives no token")
    hint = "pass --token-file, or set RELAY_OIDC_TOKEN"
    if env.get("GITHUB_ACTIONS") == "true":
        hint = "give the job `permissions: id-token: write`"
    elif env.get("GITLAB_CI"):
        hint = f"give the job `id_tokens: RELAY_OIDC_TOKEN: aud: {given.audience}`"
    raise Problem(NO_TOKEN, "this job has no OIDC token", hint)


def _github_token(env: Mapping[str, str], audience: str) -> str:
    address = f"{env['ACTIONS_ID_TOKEN_REQUEST_URL']}&audience={urllib.parse.quote(audience)}"
    secret = env.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "")
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {secret}"})
    with urllib.request.build_opener(Stop).open(request, timeout=10) as answer:
        return str(json.loads(answer.read(ANSWER_MAX))["value"])


def _buildkite_token(audience: str) -> str:
    command = ["buildkite-agent", "oidc", "request-token", "--audience", audience, "--lifetime", "300"]
    done = subprocess.run(command, capture_output=True, timeout=30, check=True)
    return done.stdout.decode().strip()


def _retried(get: Callable[[], str], until: float, said: str) -> str:
    wait = 1.0
    while True:
        try:
            return get()
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as exc:
            if time.monotonic() + wait > until:
                raise Problem(NO_TOKEN, f"{said}: {exc}", "see the log of this step") from exc
            time.sleep(wait)
            wait = min(wait * 2, 10.0)


# ------------------------------------------------------------------------------------------------------------ the body


def make_body(env: Mapping[str, str], given: argparse.Namespace) -> dict[str, Any]:
    """The report. Problem USAGE for what cannot be one."""
    event, delivery, payload = _about(env, given)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: UP017
    done = given.status == "completed"
    own = _surroundings(env)
    workflow: dict[str, Any] = {
        "schema_version": "1",
        "status": given.status,
        "conclusion": given.conclusion if done else None,
        "name": given.workflow or own.get("name"),
        "url": given.url or own.get("url"),
        "run_id": given.run_id or own.get("run_id"),
        "run_attempt": given.run_attempt or own.get("run_attempt") or "1",
        "job_name": given.job_name or own.get("job_name"),
        "check_run_id": given.check_run_id or own.get("check_run_id"),
        "started_at": given.started_at or (None if done else now),
        "completed_at": now if done else None,
    }
    if event in ("nightly", "periodic") and not workflow["started_at"]:
        workflow["started_at"] = now
    for name, option in (("name", "--workflow"), ("run_id", "--run-id")):
        if not workflow[name]:
            raise Problem(USAGE, f"workflow.{name} is not known here", f"pass {option}")
    if given.test_results:
        workflow["test_results"] = _json(given.test_results, "--test-results")
    if given.artifact_url:
        workflow["artifact_url"] = given.artifact_url
    if given.triage_verdict:
        workflow["triage_verdict"] = _json(given.triage_verdict, "--triage-verdict")
    return {"event_type": event, "delivery_id": delivery, "payload": payload, "workflow": workflow}


def _about(env: Mapping[str, str], given: argparse.Namespace) -> tuple[str, str, dict[str, Any]]:
    """(event type, delivery id, payload) of what is reported on."""
    if given.event_type in ("nightly", "periodic"):
        if given.status != "completed":
            raise Problem(USAGE, f"a {given.event_type} report has status completed", "leave the start out")
        if not given.delivery_id:
            raise Problem(USAGE, f"a {given.event_type} report names a commit", "pass it as --delivery-id")
        named = {"repository": {"full_name": given.upstream}, "head_sha": given.delivery_id}
        return given.event_type, given.delivery_id, named
    sent = _client_payload(env, given)
    delivery = given.delivery_id or sent.get("delivery_id")
    if not isinstance(delivery, str) or not delivery:
        hint = "run it in the workflow that repository_dispatch starts, or pass --delivery-id"
        raise Problem(USAGE, "there is no client_payload with a delivery_id here", hint)
    event = given.event_type or str(sent.get("event_type") or "pull_request")
    return event, delivery, _short(sent.get("payload"))


def _client_payload(env: Mapping[str, str], given: argparse.Namespace) -> dict[str, Any]:
    # from a file: an environment variable of this size does not fit everywhere
    name = given.payload_file or env.get("GITHUB_EVENT_PATH")
    if not name:
        return {}
    event = _json(_read(name, "the event"), name)
    found = event.get("client_payload") if isinstance(event, dict) and "client_payload" in event else event
    return found if isinstance(found, dict) and "delivery_id" in found else {}


def _short(payload: Any) -> dict[str, Any]:
    """What other readers of the report look at: which repository, pull request, commit and labels."""
    if not isinstance(payload, dict):
        return {}
    out: dict[str, Any] = {key: payload[key] for key in ("action", "ref", "after") if isinstance(payload.get(key), str)}
    repository, pull = payload.get("repository"), payload.get("pull_request")
    if isinstance(repository, dict):
        out["repository"] = {"full_name": repository.get("full_name")}
    if isinstance(pull, dict):
        head, labels = pull.get("head"), pull.get("labels")
        out["pull_request"] = {
            "number": pull.get("number"),
            "head": {"sha": head.get("sha") if isinstance(head, dict) else None},
            "labels": [
                {"name": label.get("name")}
                for label in (labels if isinstance(labels, list) else [])[:KEPT_LABELS]
                if isinstance(label, dict)
            ],
        }
    return out


def _surroundings(env: Mapping[str, str]) -> dict[str, str | None]:
    """What this CI says about the job."""
    if env.get("GITHUB_ACTIONS") == "true":
        run = f"{env.get('GITHUB_SERVER_URL', 'https://github.com')}/{env.get('GITHUB_REPOSITORY')}/actions/runs/"
        return {
            "name": env.get("GITHUB_WORKFLOW"),
            "url": run + env.get("GITHUB_RUN_ID", ""),
            "run_id": env.get("GITHUB_RUN_ID"),
            "run_attempt": env.get("GITHUB_RUN_ATTEMPT"),
            "job_name": env.get("GITHUB_JOB"),
            "check_run_id": env.get("RELAY_CHECK_RUN_ID"),
        }
    if env.get("BUILDKITE") == "true":
        return {
            "name": env.get("BUILDKITE_PIPELINE_NAME") or env.get("BUILDKITE_PIPELINE_SLUG"),
            "url": env.get("BUILDKITE_BUILD_URL"),
            "run_id": env.get("BUILDKITE_BUILD_ID"),
            "run_attempt": str(int(env.get("BUILDKITE_RETRY_COUNT") or 0) + 1),
            "job_name": env.get("BUILDKITE_LABEL") or env.get("BUILDKITE_STEP_KEY"),
            "check_run_id": env.get("BUILDKITE_JOB_ID"),
        }
    if env.get("GITLAB_CI"):
        return {
            "name": env.get("CI_PIPELINE_NAME") or env.get("CI_PROJECT_NAME"),
            "url": env.get("CI_JOB_URL"),
            "run_id": env.get("CI_PIPELINE_ID"),
            "job_name": env.get("CI_JOB_NAME"),
            "check_run_id": env.get("CI_JOB_ID"),
        }
    return {}


def _read(name: str, what: str) -> str:
    try:
        with open(name, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as exc:
        raise Problem(USAGE, f"{what}: {name} cannot be read: {exc}", "give the path of a readable file") from exc


def _json(text: str, what: str) -> Any:
    if text.startswith("@"):
        text = _read(text[1:], what)
    try:
        return json.loads(text)
    except ValueError as exc:
        raise Problem(USAGE, f"{what} is not JSON: {exc}", "give JSON, or @file") from exc


# ----------------------------------------------------------------------------------------------------------- the call


def send(url: str, token: str, body: bytes, until: float, attempt_s: float) -> tuple[int, Any]:
    """(status, answer) of the relay, asked again until ``until`` as long as it says so. Problem UNREACHABLE."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "User-Agent": "crcr-report"}
    opener = urllib.request.build_opener(Stop)
    tries = 0
    while True:
        tries += 1
        asked: float | None = None
        try:
            request = urllib.request.Request(url, data=body, headers=headers, method="POST")
            timeout = max(1.0, min(attempt_s, until - time.monotonic()))
            with opener.open(request, timeout=timeout) as answer:
                return answer.status, _answer(answer.read(ANSWER_MAX))
        except urllib.error.HTTPError as exc:
            with exc:
                text = exc.read(ANSWER_MAX)
            if exc.code not in AGAIN:
                return exc.code, _answer(text)
            said = f"{exc.code} {_sentence(_answer(text))}"
            after = exc.headers.get("Retry-After", "")
            asked = float(after) if after.isdigit() else None
        except (OSError, ValueError) as exc:
            said = f"{type(exc).__name__}: {exc}"
        # never sooner than asked; spread, so that jobs that were refused together do not come back together
        wait = max(asked or 0.0, min(30.0, 2.0 ** (tries - 1)))
        wait += random.uniform(0, wait / 2)
        if time.monotonic() + wait > until:
            raise Problem(UNREACHABLE, f"{url}: {said}, after {tries} tries", "raise --max-time, or report again later")
        print(f"the relay: {said}; again in {wait:.1f} s", file=sys.stderr, flush=True)  # noqa: T201
        time.sleep(wait)


def _answer(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode("utf-8", "replace")[:500]


def _sentence(answer: Any) -> str:
    if not isinstance(answer, dict):
        return str(answer)
    parts = [str(answer[key]) for key in ("code", "detail", "reason", "hint") if answer.get(key)]
    return ": ".join(parts) or json.dumps(answer)[:500]


def main(argv: list[str] | None = None, env: Mapping[str, str] = os.environ) -> int:
    """Sends one report. 0: the relay has it (or the repository is at L1, which keeps none); 1: refused; 2: usage;
    3: not recorded, with --strict; 4: the relay cannot be reached; 5: no token."""
    given = _parser().parse_args(argv)
    given.conclusion = given.conclusion or None
    try:
        if given.status == "completed" and given.conclusion is None:
            raise Problem(USAGE, "a completed job has a conclusion", f"--conclusion {' | '.join(CONCLUSIONS)}")
        until = time.monotonic() + given.max_time
        body = json.dumps(make_body(env, given)).encode()
        if given.dry_run:
            print(json.dumps(json.loads(body), indent=2))  # noqa: T201
            return OK
        status, answer = send(given.callback_url, get_token(env, given, until), body, until, given.attempt_time)
    except Problem as exc:
        print(f"not reported: {exc}", file=sys.stderr)  # noqa: T201
        return exc.code
    if not 200 <= status < 300:
        print(f"refused: {status} {_sentence(answer)}", file=sys.stderr)  # noqa: T201
        return REFUSED
    print(json.dumps(answer))  # noqa: T201
    if isinstance(answer, dict) and answer.get("recorded") is False:
        print(f"not recorded: {_sentence(answer)}", file=sys.stderr)  # noqa: T201
        return NOT_RECORDED if given.strict else OK
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="relay.report", description="Reports a CI job to the relay.")
    add = parser.add_argument
    add("--callback-url", required=True, help="https://<relay>/github/callback")
    add("--status", required=True, choices=("in_progress", "completed"))
    add("--conclusion", default="", help=" | ".join(CONCLUSIONS))
    add("--event-type", default="", help="nightly or periodic for a self-report; else from the client_payload")
    add("--delivery-id", default="", help="of a self-report: the upstream commit that was tested")
    add("--upstream", default="pytorch/pytorch", help="owner/name, for self-reports")
    add("--payload-file", default="", help="the event's JSON; default $GITHUB_EVENT_PATH")
    add("--workflow", default="")
    add("--job-name", default="", help="one for each leg of a matrix")
    add("--url", default="", help="of the run")
    add("--run-id", default="")
    add("--run-attempt", default="")
    add("--check-run-id", default="")
    add("--started-at", default="", help="ISO 8601")
    add("--test-results", default="", help='{"passed": 1, "failed": 0, "skipped": 0} or @file')
    add("--artifact-url", default="")
    add("--triage-verdict", default="", help="JSON or @file")
    add("--audience", default=AUDIENCE)
    add("--token-file", default="", help="file with the OIDC token")
    add("--max-time", type=float, default=120.0, help="seconds for everything")
    add("--attempt-time", type=float, default=20.0, help="seconds for one try")
    add("--strict", action="store_true", help="exit 3 when the relay does not record the report")
    add("--dry-run", action="store_true", help="print the body and send nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
