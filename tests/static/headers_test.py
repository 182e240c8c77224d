"""Every public header compiles alone and without a warning: headers_test.py COMPILER INCLUDE_FOLDER"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

compiler, include = sys.argv[1], pathlib.Path(sys.argv[2])
FLAGS = "-std=c++20 -fsyntax-only -Wall -Wextra -Wconversion -Wpedantic -Werror".split()


def compile_alone(header):
    # Twice: a header that is included again adds nothing.
    text = f'#include "{header}"\n' * 2
    return subprocess.run([compiler, *FLAGS, "-I", include, "-x", "c++", "-"], input=text, capture_output=True, text=True)


headers = sorted(str(path.relative_to(include)) for path in include.rglob("*.h"))
assert len(headers) >= 10, headers
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = dict(zip(headers, pool.map(compile_alone, headers)))
bad = {header: result.stderr for header, result in results.items() if result.returncode != 0}
for header, messages in bad.items():
    print(f"{header} does not compile alone with {compiler}:\n{messages}")
print(f"{len(headers) - len(bad)} of {len(headers)} headers compile alone")
sys.exit(bool(bad))
