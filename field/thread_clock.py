"""Runs a script whose clock is the processor time of its main thread.

On a machine that does other work wall time tells nothing. A job on the CPU that neither sleeps nor
waits for others keeps its main thread working all the time: it does its share of every parallel
operator. Its seconds are those that the job would take alone.
"""

import runpy
import sys
import time

time.perf_counter = time.thread_time
sys.argv = sys.argv[1:]
sys.path[0] = ""
runpy.run_path(sys.argv[0], run_name="__main__")
