"""Reaching a model's endpoint: the settings, the HTTP client and the key. What may be said is selector's."""
