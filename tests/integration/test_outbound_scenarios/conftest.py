from __future__ import annotations

import pytest
from outbound_relay import running

ALLOWLIST = """\
L1:
  - org/one
L2:
  - org/two
L3:
  spyre:
    org/three: [carol]
L4:
  - org/four:
      oncalls: [dave, "@org/team"]
      deadlines: {start: 30m, run: 24h}
"""


@pytest.fixture
def relay(tmp_path, request):
    if getattr(request, "param", "sqlite") != "postgresql":
        with running(tmp_path, ALLOWLIST) as relay:
            yield relay
        return
    cluster = request.getfixturevalue("postgres")
    url = cluster.new_database()
    with running(tmp_path, ALLOWLIST, url) as relay:
        yield relay
    cluster.drop_database(url)
