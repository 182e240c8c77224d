"""python tests/python/fuzz [--seed S] [--count N] [--seconds T]: a case a seed, in a process that is watched.

Seconds are of processor time, as tests/fuzz/driver.cpp has them: a busy machine makes a run longer, never smaller.
"""
import argparse
import mmap
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from calls import check  # noqa: E402

LONGEST = 120  # seconds; a case that takes more hangs, and one that takes none for ten times as long

parser = argparse.ArgumentParser(prog="tests/python/fuzz")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--count", type=int, default=1 << 62)
parser.add_argument("--seconds", type=float, default=60)
arguments = parser.parse_args()
done = memoryview(mmap.mmap(-1, 8)).cast("Q")  # shared with the process that works
begin = time.monotonic()

process = os.fork()
if process == 0:
    while done[0] < arguments.count and time.process_time() < arguments.seconds:
        if wrong := check(arguments.seed + done[0]):
            print(wrong, flush=True)
            os._exit(1)
        done[0] += 1
    os._exit(0)


def spent():
    """The processor time of the process that works."""
    user, system = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


case = began = last = 0  # the case that was last seen, and the processor time when it was first seen, and now
moved, status = begin, None
while status is None:
    ended, code = os.waitpid(process, os.WNOHANG)
    if ended:
        status = os.waitstatus_to_exitcode(code)
        break
    now = spent()
    if done[0] != case:
        case, began = done[0], now
    if now != last:
        last, moved = now, time.monotonic()
    if now - began > LONGEST or time.monotonic() - moved > 10 * LONGEST:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        status = "none: it hangs"
    else:
        time.sleep(0.02)
if status:
    print(f"tests/python/fuzz: seed {arguments.seed + done[0]} ends with exit code {status}\n"
          f"repeat: python tests/python/fuzz --seed {arguments.seed + done[0]} --count 1")
print(f"tests/python/fuzz: {done[0]} cases from seed {arguments.seed} in {time.monotonic() - begin:.1f} s, "
      f"{'1 failure' if status else 'no failures'}")
sys.exit(1 if status else 0)
