"""`python -m reflexarc`: the same as the command."""

from reflexarc.cli.main import main

main()
