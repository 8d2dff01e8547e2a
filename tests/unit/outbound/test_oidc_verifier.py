"""Tokens are believed for good reasons only, and a flood of bad ones costs the issuer one request a minute."""

from __future__ import annotations

from dataclasses import replace

import httpx2
import jwt
import pytest

from relay.demo.ledger import Key
from relay.domain.providers import BUILDKITE, GITHUB, Pipeline
from relay.errors import Forbidden, RepositoryUnknown, Unauthorized, Unavailable
from relay.github.oidc import Verifier

ISSUER = "https://issuer.example"
AUDIENCE = "pytorch-cross-repo-ci-relay"
NOW = 1_790_000_000.0


@pytest.fixture(scope="module")
def key():
    return Key.make()


@pytest.fixture(scope="module")
def other_key():
    return Key.make()


class Service:
    """The issuer's key endpoint: answers with ``keys`` or fails with ``error``; counts."""

    def __init__(self, *keys):
        self.keys = [key.jwk for key in keys]
        self.error = None
        self.asked = 0

    def __call__(self, url):
        assert url == f"{ISSUER}/.well-known/jwks"
        self.asked += 1
        if self.error is not None:
            raise self.error
        return {"keys": self.keys}


class Bench:
    def __init__(self, service, **issuer):
        self.now = NOW
        row = replace(issuer.pop("row", GITHUB), issuer=ISSUER, **issuer)
        self.verifier = Verifier(lambda: {ISSUER: row}, AUDIENCE, get=service, clock=lambda: self.now)

    def verify(self, token):
        return self.verifier.verify(token)


def claims(**over):
    values = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": NOW - 10,
        "exp": NOW + 300,
        "jti": "token-1",
        "repository": "Ascend/pytorch",
        "run_id": "5",
        **over,
    }
    return {name: value for name, value in values.items() if value is not None}


def sign(key, payload=None, *, headers=None, **over):
    return jwt.encode(payload or claims(**over), key.private, algorithm="RS256", headers=headers or {"kid": key.kid})


def test_a_good_token_names_its_repository(key):
    identity = Bench(Service(key)).verify(sign(key))
    assert (identity.repository, identity.token_id) == ("Ascend/pytorch", f"{ISSUER}#token-1")
    assert identity.expires_at == NOW + 360
    assert identity.claims["run_id"] == "5"


@pytest.mark.parametrize(
    ("over", "says"),
    [
        ({"aud": "another"}, "not meant for"),
        ({"aud": None}, "not valid"),
        ({"exp": None}, "not valid"),
        ({"iat": None}, "not valid"),
        ({"exp": NOW - 61}, "expired"),
        ({"iat": NOW + 61}, "not valid yet"),
        ({"nbf": NOW + 61}, "not valid yet"),
        ({"exp": "soon"}, "not a time"),
        ({"exp": True}, "not a time"),
        ({"exp": 1e300}, "not a time"),
        ({"iss": "https://evil.example"}, "issuer is not known"),
        ({"iss": ["x"]}, "not "),
        ({"repository": None}, "names no repository"),
        ({"repository": "a/b/c"}, "names no repository"),
        ({"repository": ["a/b"]}, "names no repository"),
    ],
)
def test_a_token_with_a_wrong_claim_is_refused(key, over, says):
    with pytest.raises(Unauthorized, match=says):
        Bench(Service(key)).verify(_encode(key, claims(**over)))


def _encode(key, payload):
    # PyJWT refuses to make some tokens that an attacker can make
    import json

    return jwt.api_jws.encode(json.dumps(payload).encode(), key.private, algorithm="RS256", headers={"kid": key.kid})


@pytest.mark.parametrize("over", [{"exp": NOW - 59}, {"iat": NOW + 59}, {"nbf": NOW + 59}])
def test_a_minute_of_clock_skew_is_forgiven(key, over):
    assert Bench(Service(key)).verify(sign(key, **over)).repository == "Ascend/pytorch"


def test_only_rs256_is_taken_and_nothing_is_fetched_for_less(key):
    service = Service(key)
    bench = Bench(service)
    secret = key.private.public_key().public_bytes(*_pem())
    forged = jwt.encode(claims(), "x" * 64, algorithm="HS256", headers={"kid": key.kid})
    unsigned = jwt.encode(claims(), None, algorithm="none", headers={"kid": key.kid})
    longer = jwt.encode(claims(), key.private, algorithm="RS512", headers={"kid": key.kid})
    for token in (
        forged,
        unsigned,
        longer,
        "",
        "a.b.c",
        "x" * 20_000,
        "é",
        sign(key, headers={"kid": ""}),
        "..",
        "a.b",
    ):
        with pytest.raises(Unauthorized):
            bench.verify(token)
    assert secret
    assert service.asked == 0


def _pem():
    from cryptography.hazmat.primitives import serialization

    return serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo


def test_another_key_with_a_known_id_is_refused(key, other_key):
    with pytest.raises(Unauthorized, match="not valid"):
        Bench(Service(key)).verify(sign(other_key, headers={"kid": key.kid}))


def test_unknown_key_ids_ask_the_issuer_once_a_minute(key, other_key):
    service = Service(key)
    bench = Bench(service)
    bench.verify(sign(key))
    for _ in range(20):
        bench.now += 1
        with pytest.raises(Unauthorized, match="no such key"):
            bench.verify(sign(other_key))
    assert service.asked == 1
    service.keys.append(other_key.jwk)
    bench.now = NOW + 61
    assert bench.verify(sign(other_key)).repository == "Ascend/pytorch"
    assert service.asked == 2


@pytest.mark.parametrize("error", [httpx2.ConnectError("down"), ValueError("no JSON"), "empty", "no keys", "a list"])
def test_keys_outlive_an_outage_and_are_never_replaced_by_nothing(key, error):
    service = Service(key)
    bench = Bench(service)
    bench.verify(sign(key))
    if isinstance(error, Exception):
        service.error = error
    else:
        service.keys = {"empty": [], "no keys": [{"kty": "EC", "kid": "x"}, 5, {"kty": "RSA"}], "a list": "x"}[error]
    bench.now = NOW + 4000  # older than an hour: it asks again
    assert bench.verify(sign(key, exp=NOW + 9000)).repository == "Ascend/pytorch"
    assert service.asked == 2


def test_an_issuer_that_never_answered_is_our_trouble_not_the_tokens(key):
    service = Service(key)
    service.error = httpx2.ReadTimeout("slow")
    bench = Bench(service)
    for _ in range(5):
        with pytest.raises(Unavailable) as caught:
            bench.verify(sign(key))
        assert caught.value.extra["retry_after"] == 5
    assert service.asked == 1
    service.error = None
    bench.now += 6
    assert bench.verify(sign(key)).repository == "Ascend/pytorch"


def test_a_token_without_an_id_is_known_by_itself(key):
    bench = Bench(Service(key))
    one, again = (bench.verify(sign(key, jti=None)).token_id for _ in range(2))
    other = bench.verify(sign(key, jti=None, run_id="6")).token_id
    assert one == again != other
    long = bench.verify(sign(key, jti="x" * 5000)).token_id
    assert len(long) < 255


def test_the_repository_claim_is_the_providers(key):
    bench = Bench(Service(key), repository="project_path")
    assert bench.verify(sign(key, project_path="group/project")).repository == "group/project"


@pytest.mark.parametrize(
    ("said", "number"), [("74", 74), (74, 74), (None, None), ("x", ...), ("9" * 25, ...), (True, ...), ("-1", ...)]
)
def test_the_repositorys_number_is_read_or_the_token_refused(key, said, number):
    token = _encode(key, claims(repository_id=said))
    if number is ...:
        with pytest.raises(Unauthorized, match="no number of a repository"):
            Bench(Service(key)).verify(token)
    else:
        assert Bench(Service(key)).verify(token).repository_id == number


def test_a_pipeline_speaks_for_the_repository_it_is_mapped_to(key):
    vllm = Pipeline("vllm-project/vllm", {"build_branch": ("main", "release")})
    bench = Bench(Service(key), row=BUILDKITE, pipelines={"org-1/pipe-1": vllm})

    def verify(**over):
        return bench.verify(sign(key, organization_id="ORG-1", pipeline_id="pipe-1", repository=None, **over))

    assert verify(build_branch="main").repository == "vllm-project/vllm"
    for branch in ("pull/7/head", None, "mainly"):
        with pytest.raises(Forbidden, match="build_branch"):
            verify(build_branch=branch)
    with pytest.raises(RepositoryUnknown, match="org-1/other"):
        bench.verify(sign(key, organization_id="org-1", pipeline_id="other", repository="vllm-project/vllm"))
