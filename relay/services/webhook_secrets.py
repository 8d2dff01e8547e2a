"""The webhook's secrets in force (relay.services.secret_files)."""

from __future__ import annotations

from relay.services.secret_files import MAX_SECRETS
from relay.services.secret_files import webhook_secrets as secrets_of

__all__ = ["MAX_SECRETS", "secrets_of"]
