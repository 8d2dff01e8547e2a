"""Settings of every process: a TOML file (``relay.toml``), overridden by ``RELAY_*`` environment variables.

Built once by the entry point and handed on; nothing reads the environment at import. docs/settings.md lists every key
(a test keeps it complete).
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as NotJson

from relay.agents.settings import AgentSettings
from relay.domain.access import ONCALLS, Policy
from relay.domain.access import problem_of as principal_problem
from relay.errors import SettingsError


class Issuer(BaseModel):
    """An OIDC token issuer whose tokens downstreams may present.

    ``provider`` names the kind of CI whose claims its tokens carry (docs/providers.md): github, buildkite, gitlab.
    ``repository_claim``, where given, names the claim with ``owner/repo``; ``jwks_url`` is where its keys are,
    default: where that provider has them.
    """

    model_config = ConfigDict(extra="forbid")

    issuer: str
    provider: str = "github"
    jwks_url: str = ""
    repository_claim: str = ""


GITHUB_ISSUER = "https://token.actions.githubusercontent.com"
BUILDKITE_ISSUER = "https://agent.buildkite.com"
GITHUB_PAGES = "https://github.com"
ENTERPRISE_API = "/api/v3"
ALIKE = 0.9
"""How much a variable of the environment must look like a setting's to be taken for one misspelt, 0..1."""


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="RELAY_", env_nested_delimiter="__", extra="forbid")

    data_dir: Path = Field(Path(".relay"), description="Folder of everything the relay keeps: database, mirrors, logs.")
    database_url: str = Field("", description="SQLAlchemy URL; empty: SQLite in data_dir.")
    broker_url: str = Field("", description="Celery broker URL; empty: `relay up` starts an embedded Valkey.")
    host: str = Field("127.0.0.1", description="Address the web process listens on.")
    port: int = Field(8460, ge=0, le=65535, description="Port of the web process.")
    public_url: str = Field("", description="URL people and workers reach the web process at; empty: http://host:port.")

    upstream_repo: str = Field("pytorch/pytorch", description="owner/name of the repository whose events are taken.")
    upstream_url: str = Field("", description="Git URL or folder of upstream; empty: <github_url>/<upstream_repo>.")
    upstream_partial: bool | None = Field(
        None,
        description="Mirror upstream without its whole history and file contents; unset: for https and ssh only.",
    )
    allowlist: str = Field(
        "", description="Path of the allowlist YAML, or its page on GitHub (https://github.com/o/r/blob/ref/path)."
    )
    providers: str = Field(
        "", description="Path or GitHub page of the YAML that maps pipelines of other CI providers to repositories."
    )
    push_refs: list[str] = Field(
        default_factory=list,
        description="Globs of upstream refs whose pushes are told; empty: trunk, releases, v and ciflow tags.",
    )
    device: str = Field("spyre", description="Device that this relay's own workers emulate; names their queue.")
    configs_dir: Path = Field(
        Path("test_configs/spyre"), description="Folder with capability.yaml and the reuse configs of the device."
    )
    measured_links: Path | None = Field(
        None,
        description="JSON of which test files were measured to run which sources; a weak hint for selecting.",
    )
    trace: Path | None = Field(
        None, description="Table of relay trace: which functions and operators of torch each test was seen to run."
    )
    trace_seconds: float = Field(
        0.0,
        ge=0,
        description="Seconds of trunk's tests a day that are run followed, for a table of the relay's own; 0: none.",
    )
    test_times: Path | None = Field(
        None,
        description="JSON of what test files take elsewhere, as upstream publishes; for files without a history here.",
    )
    replay_reports: Path | None = Field(
        None, description="JSON of what replay says of rankers, rules and models on trial (docs/plan.md)."
    )

    ranker: Path | None = Field(
        None, description="JSON of weights that relay learn wrote: a ranker on trial beside the one in force."
    )

    webhook_secrets: list[SecretStr] = Field(
        default_factory=list, description="Webhook secrets; two during a rotation. Any of them may sign."
    )
    webhook_secrets_file: str = Field(
        "", description="File with one more secret a line, read again when it changes: rotation without a restart."
    )
    secrets_dir: Path | None = Field(
        None, description="Folder with a file a secret, named as the setting; read again when it changes."
    )
    max_body_bytes: int = Field(25 * 1024 * 1024, description="Largest webhook body that is read, in bytes.")
    worker_key: SecretStr = Field(SecretStr(""), description="Key by which emulator workers enrol and take leases.")

    github_api_url: str = Field("https://api.github.com", description="Base URL of GitHub's REST API.")
    github_app_id: str = Field("", description="Id of the GitHub App.")
    github_private_key: SecretStr = Field(SecretStr(""), description="PEM private key of the GitHub App.")
    github_budget: int = Field(
        150, ge=1, description="Effects a minute on one installation of the App; GitHub allows 180 writes."
    )
    debounce_s: float = Field(
        8.0, ge=0, description="Seconds that a push to a pull request waits for the next, when the last was so recent."
    )
    oncall_comments: bool = Field(
        True, description="Comment on a pull request that breaks a downstream, naming the oncalls of the allowlist."
    )
    hud_url: str = Field("", description="URL the HUD rows are posted to; empty: no HUD.")
    hud_bot_key: SecretStr = Field(SecretStr(""), description="Value of the x-hud-internal-bot header.")
    oidc_audience: str = Field("pytorch-cross-repo-ci-relay", description="Audience that callback tokens must name.")
    oidc_issuers: list[Issuer] = Field(
        default_factory=lambda: [
            Issuer(issuer=GITHUB_ISSUER),
            Issuer(issuer=BUILDKITE_ISSUER, provider="buildkite"),
        ],
        description="Issuers of callback tokens.",
    )
    callbacks_per_minute: float = Field(
        600.0, gt=0, description="Reports a downstream may send a minute, over time; what is refused is not counted."
    )
    callbacks_burst: int = Field(300, ge=1, description="Reports a downstream may send at once.")
    self_report_refs: list[str] = Field(
        default_factory=lambda: ["main", "nightly"],
        description="Upstream branches that must hold the commit of a nightly or periodic self-report.",
    )

    nightly_ref: str = Field(
        "", description="Upstream branch whose nights are compared and run: main, nightly; empty: none."
    )
    nightly_look_s: float = Field(600.0, gt=0, description="Seconds between two looks at that branch.")

    github_url: str = Field(
        "", description="GitHub's address for browsers, where people sign in too; empty: the one of github_api_url."
    )
    oauth_client_id: str = Field("", description="Client id of the GitHub App, by which people sign in; empty: nobody.")
    oauth_client_secret: SecretStr = Field(SecretStr(""), description="Its client secret; it signs the sessions too.")
    session_hours: float = Field(12.0, gt=0, le=720, description="Hours after which somebody has to sign in again.")
    pages_private: bool = Field(False, description="Whether pages are shown only to those who may read them.")
    readers: list[str] = Field(
        default_factory=list,
        description="Who may read private pages, beside those who may act: logins, org/team, oncalls, or *.",
    )
    actors: list[str] = Field(
        default_factory=lambda: [ONCALLS],
        description="Who may run again and quarantine: logins, org/team, oncalls (of their own downstream), or *.",
    )
    operators: list[str] = Field(
        default_factory=list, description="Who may do everything, the outbox's effects too: logins, org/team."
    )
    link_hosts: list[str] = Field(
        default_factory=list,
        description="Hosts that pages may link to, with their subdomains, beside GitHub and the CI providers'.",
    )
    reads_per_minute: float = Field(
        1200.0, gt=0, description="Pages and JSON that one address may ask for a minute, over time."
    )
    reads_burst: int = Field(600, ge=1, description="Pages and JSON that one address may ask for at once.")

    document_s: float = Field(
        180.0, gt=0, description="Seconds between two looks at an allowlist or provider table on GitHub."
    )
    reconcile_s: float = Field(
        300.0, gt=0, description="Seconds between two looks at GitHub's list of deliveries for what never arrived."
    )
    artifacts_url: str = Field(
        "", description="Where logs are kept: a folder, or a URL that fsspec knows (s3://…); empty: data_dir/artifacts."
    )
    keep_logs_days: float = Field(14.0, gt=0, description="Days that what tests printed is kept.")
    keep_bodies_days: float = Field(14.0, gt=0, description="Days that bodies of routed webhooks are kept.")
    keep_ignored_days: float = Field(
        5.0, ge=4, description="Days that ignored webhooks are remembered; GitHub can send one again for 3."
    )
    keep_details_days: float = Field(
        45.0, ge=1, description="Days that plans, decisions, shards and results of runs are kept (retention)."
    )
    keep_runs_days: float = Field(
        180.0, ge=15, description="Days that runs with their jobs and effects, and what else is old, are kept."
    )
    keep_hud_days: float = Field(180.0, ge=1, description="Days that the rows of the relay's own dashboard are kept.")
    heartbeat_s: float = Field(
        3.0, gt=0, description="Seconds between a worker's heartbeats; three missed end a lease."
    )
    requeue_s: float = Field(5.0, gt=0, description="Seconds after which the pump sends due work to the broker again.")
    poll_s: float = Field(0.1, gt=0, description="Seconds between two looks of the pump at the database.")
    worker_wait_s: float = Field(120.0, gt=0, description="Seconds a run waits for a worker to be there at all.")
    budget_minutes: float = Field(10.0, gt=0, description="Minutes of run time a plan may cost, over all its workers.")
    explore_share: float = Field(
        0.05, ge=0, le=1, description="Share of the runs that also run tests which nothing selected (docs/plan.md)."
    )
    explore_seconds: float = Field(30.0, ge=0, description="Seconds of each worker that such a run spends on them.")
    shard_seconds: float = Field(20.0, gt=0, description="Estimated seconds a shard should take.")
    variant_timeout_s: float = Field(60.0, gt=0, description="Wall clock of one variant, in seconds.")
    shard_timeout_s: float = Field(900.0, gt=0, description="Wall clock of one shard, in seconds.")
    memory_mb: int = Field(8192, gt=0, description="Memory limit of one forked test process, in MiB.")
    agents: AgentSettings = Field(
        default_factory=lambda: AgentSettings.model_validate({}),
        description="The model that is asked where rules are unsure; the table `[agents]` below.",
    )

    @field_validator("readers", "actors", "operators")
    @classmethod
    def _principals(cls, value: list[str]) -> list[str]:
        for one in value:
            if problem := principal_problem(one):
                raise ValueError(problem)
        return value

    @field_validator(
        "webhook_secrets", "worker_key", "github_private_key", "hud_bot_key", "oauth_client_secret", mode="before"
    )
    @classmethod
    def _strip(cls, value: Any) -> Any:
        # a secret pasted with a newline at its end signs nothing right
        if isinstance(value, str):
            return value.strip()
        if isinstance(value, list):
            return [item.strip() if isinstance(item, str) else item for item in value]
        return value

    @model_validator(mode="after")
    def _pages(self) -> Settings:
        self.github_url = (self.github_url or pages_of(self.github_api_url) or GITHUB_PAGES).rstrip("/")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # the environment wins over the file, whose values come in as init arguments
        return env_settings, init_settings

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{(self.data_dir / 'relay.sqlite3').absolute()}"

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (self.public_url or f"http://{host}:{self.port}").rstrip("/")

    @property
    def signing_in(self) -> bool:
        """Whether people can sign in at all."""
        return bool(self.oauth_client_id and self.oauth_client_secret.get_secret_value())

    @property
    def access(self) -> Policy:
        return Policy(tuple(self.readers), tuple(self.actors), tuple(self.operators))

    @property
    def lease_s(self) -> float:
        """Seconds after the last heartbeat at which a lease is lost: three beats, and a little for a slow network."""
        return self.heartbeat_s * 3 + 0.5


def pages_of(api_url: str) -> str:
    """Where the pages are of the GitHub whose REST API this is: of an Enterprise Server on the same host, else beside
    ``api.``; "" where nobody knows."""
    api = urlsplit(api_url)
    host = api.netloc.casefold()
    if api.path.rstrip("/") == ENTERPRISE_API:
        return f"{api.scheme}://{host}"
    if host == "api.github.com" or (host.startswith("api.") and host.endswith(".ghe.com")):
        return f"{api.scheme}://{host.removeprefix('api.')}"
    return ""


def load(path: str | os.PathLike[str] | None = None) -> Settings:
    """Reads the TOML file (``path``, else ``$RELAY_CONFIG``, else none) and the environment.

    Raises SettingsError that names the file and the key.
    """
    path = path or os.environ.get("RELAY_CONFIG") or None
    values: dict[str, Any] = {}
    if path:
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as exc:
            raise SettingsError(f"{path}: {exc.strerror or exc}", "give the path of a readable TOML file") from exc
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
            raise SettingsError(f"{path}: not valid TOML: {exc}", "docs/settings.md shows a complete file") from exc
    _misspelt(os.environ)
    try:
        return Settings(**values)
    except NotJson as exc:
        # its message names the field, and never what was given, which may be a secret
        hint = """lists and tables are JSON in the environment: RELAY_WEBHOOK_SECRETS='["new", "old"]'"""
        raise SettingsError(f"environment: not JSON: {exc}", hint) from None
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(str(p) for p in first["loc"])
        if first["type"] == "extra_forbidden":
            *table, key = first["loc"]
            near = get_close_matches(str(key), _keys(table), n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            hint += "docs/settings.md lists every key"
            raise SettingsError(f"{path or 'environment'}: there is no setting {where}", hint) from exc
        hint = "docs/settings.md lists every key"
        raise SettingsError(f"{path or 'environment'}: setting {where}: {first['msg']}", hint) from exc


def _keys(table: Iterable[Any]) -> Iterable[str]:
    """The keys that may stand in a table of the file."""
    models: dict[Any, type[BaseModel]] = {"agents": AgentSettings, "oidc_issuers": Issuer}
    return next((models[name].model_fields for name in table if name in models), Settings.model_fields)


def _misspelt(environment: Mapping[str, str]) -> None:
    """A variable that is all but the name of a setting, such as RELAY_WEBHOOK_SECRET, would go unheard. SettingsError.

    Others that begin with RELAY_ are a worker's, or a cluster's, which makes some of the names of its services.
    """
    known = {f"RELAY_{name}".upper() for name in Settings.model_fields}
    known |= {f"RELAY_AGENTS__{name}".upper() for name in AgentSettings.model_fields}
    for name in environment:
        asked = name.upper()
        if not asked.startswith("RELAY_") or asked in known:
            continue
        near = get_close_matches(
            asked.removeprefix("RELAY_"), [word.removeprefix("RELAY_") for word in known], 1, ALIKE
        )
        if near:
            raise SettingsError(f"environment: {name} is no setting", f"did you mean RELAY_{near[0]}?")
