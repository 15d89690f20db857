"""``python -m field``."""

import signal
import sys

from field.app import main

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as by Ctrl-C
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ``| head`` is no error
    sys.exit(main())
