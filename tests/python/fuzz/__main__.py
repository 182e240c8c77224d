"""python tests/python/fuzz [--seed S] [--count N] [--seconds T]: a case a seed, in a process that is watched."""
import argparse
import mmap
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from calls import check  # noqa: E402

LONGEST = 120  # seconds; a case that takes longer hangs

parser = argparse.ArgumentParser(prog="tests/python/fuzz")
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--count", type=int, default=1 << 62)
parser.add_argument("--seconds", type=float, default=60)
arguments = parser.parse_args()
done = memoryview(mmap.mmap(-1, 8)).cast("Q")  # shared with the process that works
begin = time.monotonic()

process = os.fork()
if process == 0:
    while done[0] < arguments.count and time.monotonic() - begin < arguments.seconds:
        if wrong := check(arguments.seed + done[0]):
            print(wrong, flush=True)
            os._exit(1)
        done[0] += 1
    os._exit(0)
seen, changed, status = 0, begin, None
while status is None:
    ended, code = os.waitpid(process, os.WNOHANG)
    if ended:
        status = os.waitstatus_to_exitcode(code)
    elif done[0] != seen:
        seen, changed = done[0], time.monotonic()
    elif time.monotonic() - changed > LONGEST:
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
