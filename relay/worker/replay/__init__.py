"""The process of a replay that has torch imported: it breaks code and runs tests. relay.replay starts it."""
