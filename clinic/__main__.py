"""``python -m clinic``."""

import sys

from clinic.app import main

if __name__ == "__main__":
    sys.exit(main())
