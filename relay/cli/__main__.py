"""``python -m relay.cli``."""

from relay.cli import main

main()
