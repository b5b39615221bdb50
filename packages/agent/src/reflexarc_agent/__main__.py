import sys

from reflexarc_agent.main import main

sys.exit(main())
