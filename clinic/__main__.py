"""``python -m clinic``."""

import signal
import sys

from clinic.app import main

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as by Ctrl-C
    sys.exit(main())
