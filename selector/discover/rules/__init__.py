"""One rule a module: from a changed path to the tests it reaches, with the evidence. See docs/discover.md."""
