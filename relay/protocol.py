"""The number of the worker API (docs/worker-api.md#versions), which relay and worker tell each other."""

from __future__ import annotations

WORKER_API = 3
"""What this release speaks. A relay that says none speaks 1.

1: everything up to the first release. 2: ``POST /worker/leases/{id}/release``, ``PUT /worker/leases/{id}/log``, and a
result's ``log_begin`` and ``log_end``. 3: a lease's ``follow`` and ``PUT /worker/leases/{id}/trace``.
"""
RELEASE = 2
"""The first that can give a lease back."""
LOGS = 2
"""The first that takes what tests printed."""
TRACES = 3
"""The first that takes what tests run."""
