"""``python -m strato``: the command line, where the script is not on the path."""

import sys

from strato.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
