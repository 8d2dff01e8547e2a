"""One running relay for the scenarios of what comes in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from inbound_service import Service, running

ALLOWLIST = """\
L1:
  - example-org/one
  - example-org/leaving
L2:
  - torch-spyre/torch-spyre
  - Ascend/pytorch
  - example-org/careful:
      refs: [main]
      workflows: [.github/workflows/ci.yml]
  - example-org/queue-only: {events: [merge_group]}
  - vllm-project/vllm
L3:
  npu:
    example-org/labelled: [bob]
L4:
  - example-org/backend-ci: [alice]
"""
PROVIDERS = """\
providers:
  buildkite:
    repo_map:
      018b5ec5/018cdabc: {repo: vllm-project/vllm, required_claims: {build_branch: [main]}}
  gitlab:
    repo_map:
      12/345: Ascend/pytorch
"""


@pytest.fixture(scope="package")
def service(tmp_path_factory, shared) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("inbound")
    (folder / "providers.yml").write_text(PROVIDERS)
    settings = {"callbacks_burst": 40, "providers": str(folder / "providers.yml")}
    with running(folder, shared, ALLOWLIST, **settings) as service:
        yield service
        service.http.close()
