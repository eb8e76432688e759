"""`python -m cometmq` is the `cometmq` command."""

import sys

from cometmq.cli import main

sys.exit(main())
