"""The tables, a module a subject; ``relay.store.schema`` names them all."""
