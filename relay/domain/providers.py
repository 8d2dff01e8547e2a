"""CI providers: what the claims of their OIDC tokens mean, and which pipelines speak for which repository.

A provider is a row of data. GitHub Actions, Buildkite and GitLab are built in; a file (docs/providers.md) maps the
pipelines of those whose tokens name no GitHub repository, and may add a provider by its claims alone. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from relay.domain.fields import is_repo
from relay.domain.yaml_nodes import NodeReader, is_null
from relay.errors import DocumentError, ProvidersError

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_CLAIM = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline that speaks for ``repo``; ``required``: claim -> the values of which it must have one."""

    repo: str
    required: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Provider:
    """What a kind of CI puts into its tokens. Each field but the last names claims.

    ``repository``: the claim with owner/repo; None: ``identity`` names the claims that together, with slashes, are
    looked up in ``pipelines``. Those should be numbers that never change: names can be given up and taken by others.
    ``repository_id``: GitHub's number of it. ``run_id``, ``run_attempt``, ``check_run_id``: which run a token is of;
    ``ref``, ``workflow``: what was run. ``page``: the address below which a run's page is, with claims in braces.
    """

    name: str
    issuer: str = ""
    keys: str = "{iss}/.well-known/jwks"
    repository: str | None = None
    repository_id: str | None = None
    identity: tuple[str, ...] = ()
    run_id: str | None = None
    run_attempt: str | None = None
    check_run_id: str | None = None
    ref: str | None = None
    workflow: str | None = None
    page: str = ""
    pipelines: Mapping[str, Pipeline] = field(default_factory=dict)

    def keys_url(self, issuer: str) -> str:
        """Where ``issuer``, an issuer of this kind, has its keys."""
        return self.keys.replace("{iss}", issuer.rstrip("/"))

    def pipeline_of(self, claims: Mapping[str, Any]) -> tuple[str, Pipeline | None]:
        """What a token says it is of, and the pipeline that this is here."""
        key = "/".join(str(claims.get(claim, "")) for claim in self.identity)
        return key, self.pipelines.get(key.casefold())

    def page_of(self, claims: Mapping[str, Any], repository: str) -> str:
        """The address below which the token's run has its page; "" where the token does not say."""
        values = {**{k: v for k, v in claims.items() if isinstance(v, str | int)}, "repository": repository}
        try:
            return self.page.format_map(values)
        except (KeyError, ValueError, IndexError, AttributeError):
            return ""


@dataclass(frozen=True, slots=True)
class Providers:
    """The table, by name."""

    rows: Mapping[str, Provider]

    def get(self, name: str) -> Provider | None:
        return self.rows.get(name)


GITHUB = Provider(
    "github",
    issuer="https://token.actions.githubusercontent.com",
    repository="repository",
    repository_id="repository_id",
    run_id="run_id",
    run_attempt="run_attempt",
    check_run_id="check_run_id",
    ref="ref",
    workflow="job_workflow_ref",
    page="https://github.com/{repository}/",
)
BUILDKITE = Provider(
    "buildkite",
    issuer="https://agent.buildkite.com",
    identity=("organization_id", "pipeline_id"),
    run_id="build_id",
    check_run_id="job_id",
    ref="build_branch",
    page="https://buildkite.com/{organization_slug}/{pipeline_slug}/",
)
GITLAB = Provider(
    "gitlab",
    issuer="https://gitlab.com",
    keys="{iss}/oauth/discovery/keys",
    identity=("namespace_id", "project_id"),
    run_id="pipeline_id",
    check_run_id="job_id",
    ref="ref_path",
    workflow="ci_config_ref_uri",
    page="{iss}/{project_path}/",
)
BUILT_IN = Providers({row.name: row for row in (GITHUB, BUILDKITE, GITLAB)})

CLAIM_KEYS = ("repository", "repository_id", "run_id", "run_attempt", "check_run_id", "ref", "workflow")
KEYS = ("issuer", "keys_url", "identity", "page", "repo_map", *CLAIM_KEYS)


def parse(text: str, source: str = "providers") -> Providers:
    """Reads a table; rows that it does not name are the built-in ones. Raises ProvidersError."""
    return _Parser(source).parse(text)


class _Parser(NodeReader):
    error: type[DocumentError] = ProvidersError
    page = "docs/providers.md"

    def parse(self, text: str) -> Providers:
        root, _ = self._compose(text)
        rows = dict(BUILT_IN.rows)
        if root is None or is_null(root):
            return Providers(rows)
        older: list[tuple[yaml.ScalarNode, yaml.Node]] = []
        for key, value in self._pairs(root, "the file", "begin with `providers:`"):
            if key.value == "providers":
                if not is_null(value):
                    for name, content in self._pairs(value, "providers", "name a provider below it"):
                        rows[str(name.value)] = self._row(name, content, rows)
            elif key.value in BUILT_IN.rows:
                older.append((key, value))
            else:
                raise self._unknown(key, "key", ("providers", *BUILT_IN.rows))
        for key, value in older:  # this form is read where the newer one maps nothing
            row = rows[str(key.value)]
            if not is_null(value) and not row.pipelines:
                rows[row.name] = replace(row, pipelines=self._pipelines(row, value))
        return Providers(rows)

    def _row(self, name: yaml.ScalarNode, node: yaml.Node, rows: Mapping[str, Provider]) -> Provider:
        if not _NAME.fullmatch(name.value):
            raise self._error(name, f"{name.value!r} is not a provider's name", "lower case letters, digits, - and _")
        row = rows.get(name.value, Provider(name.value))
        if is_null(node):
            return row
        pairs = self._pairs(node, name.value, "give it a `repo_map:`")
        for key, value in pairs:
            if key.value not in KEYS:
                raise self._unknown(key, "key", KEYS)
            if key.value in ("issuer", "keys_url"):
                url = self._https(value)
                row = replace(row, issuer=url) if key.value == "issuer" else replace(row, keys=url)
            elif key.value == "page":
                row = replace(row, page=self._https(value))
            elif key.value == "identity":
                row = replace(row, identity=tuple(self._claim(item) for item in self._list(value, "identity")))
            elif key.value in CLAIM_KEYS:
                claims: dict[str, Any] = {key.value: self._claim(value)}
                row = replace(row, **claims)
        if row.repository is None and not row.identity:
            hint = "name the claims of a pipeline under `identity:`, or the one with owner/repo under `repository:`"
            raise self._error(name, f"{name.value}: nothing says whose token it is", hint)
        for key, value in pairs:
            if key.value == "repo_map" and not is_null(value):
                row = replace(row, pipelines=self._pipelines(row, value))
        return row

    def _pipelines(self, row: Provider, node: yaml.Node) -> dict[str, Pipeline]:
        found: dict[str, Pipeline] = {}
        parts = len(row.identity)
        shape = "/".join(f"<{claim}>" for claim in row.identity)
        for key, value in self._pairs(node, f"the map of {row.name}", f"write {shape}: owner/repo"):
            text = key.value.strip()
            if not parts or text.count("/") != parts - 1 or not all(text.split("/")):
                raise self._error(key, f"{text!r} is not {shape}", "take both from the claims of a token")
            if text.casefold() in found:
                raise self._error(key, f"{text} stands twice")
            found[text.casefold()] = self._pipeline(value)
        return found

    def _pipeline(self, node: yaml.Node) -> Pipeline:
        if not isinstance(node, yaml.MappingNode):
            return Pipeline(self._repo(node))
        repo: str | None = None
        required: dict[str, tuple[str, ...]] = {}
        for key, value in self._pairs(node, "a pipeline", ""):
            if key.value == "repo":
                repo = self._repo(value)
            elif key.value == "required_claims":
                for claim, allowed in self._pairs(value, "required_claims", "write claim: [value, value]"):
                    values = tuple(self._scalar(item, "a value") for item in self._list(allowed, claim.value))
                    if not values:
                        # nobody could fulfil it, or everybody, depending on who reads it
                        raise self._error(claim, f"required_claims: {claim.value} allows nothing", "name a value")
                    required[self._claim(claim)] = values
            else:
                raise self._unknown(key, "key", ("repo", "required_claims"))
        if repo is None:
            raise self._error(node, "the pipeline has no `repo`", "write repo: owner/repo")
        return Pipeline(repo, required)

    def _repo(self, node: yaml.Node) -> str:
        text = self._scalar(node, "a repository")
        if not is_repo(text):
            raise self._error(node, f"{text!r} is not a repository", "write owner/repo, as on GitHub")
        return text

    def _claim(self, node: yaml.Node) -> str:
        text = self._scalar(node, "the name of a claim")
        if not _CLAIM.fullmatch(text):
            raise self._error(node, f"{text!r} is not the name of a claim")
        return text

    def _https(self, node: yaml.Node) -> str:
        text = self._scalar(node, "an https URL")
        if not re.fullmatch(r"https://[^\s/]+\S*", text):
            raise self._error(node, f"{text!r} is not an https URL")
        return text.rstrip("/") if not text.endswith("}/") else text
