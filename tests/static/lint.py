"""Compiles everything with clang, or reads it with clang-tidy: lint.py BUILD_FOLDER [--tidy]

The folder is configured, not built. Nothing is written: clang only looks, with the project's own
warnings as errors; clang-tidy has them too, and the checks of .clang-tidy.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

folder, tidy = pathlib.Path(sys.argv[1]), "--tidy" in sys.argv
entries = [e for e in json.loads((folder / "compile_commands.json").read_text()) if pathlib.Path(e["file"]).exists()]


def look(entry):
    if tidy:
        command = ["clang-tidy", "--quiet", "--warnings-as-errors=*", "-p", folder, entry["file"]]
    else:
        words = shlex.split(entry["command"])
        words = words[next(i for i, word in enumerate(words) if "clang" in word):]  # without a launcher
        at = words.index("-o")
        command = words[:at] + words[at + 2:] + ["-fsyntax-only", "-Werror"]
    result = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


assert len(entries) >= 20, "this folder has not been configured with CMAKE_EXPORT_COMPILE_COMMANDS"
bad = 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for entry, (code, messages) in zip(entries, pool.map(look, entries)):
        if code != 0:  # told at once: a run takes minutes
            bad += 1
            print(f"--- {entry['file']}\n{messages}", flush=True)
print(f"{bad} of {len(entries)} sources have findings of {'clang-tidy' if tidy else 'clang'}")
sys.exit(bool(bad))
