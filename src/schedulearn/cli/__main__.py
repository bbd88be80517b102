"""`python -m schedulearn.cli`."""

import sys

from schedulearn.cli.main import main

sys.exit(main())
