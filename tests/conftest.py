"""What all tests share."""

from __future__ import annotations

import signal
import threading

# A shell without job control starts background jobs with Ctrl-C ignored, and their children inherit that. The tests
# that interrupt a command start it from here, so that it can be interrupted wherever the suite runs.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
