"""A compiler's launcher: python3 taken.py BUILD WORK LAUNCHER COMPILER ARGUMENTS...

An object that BUILD has from the same command is taken from there; whatever is compiled differently, or for the first time,
is compiled. WORK is where the command runs; what `ninja -t compdb` says of BUILD lies beside it, in WORK.json.
"""
import json
import os
import pathlib
import shlex
import shutil
import sys

build, work, launcher, *command = sys.argv[1:]


def essence(words, folder):
    """A command without its compiler, with BUILD for the folder that it runs in, and without the names of what it writes."""
    kept, words = [], iter(words)
    for word in words:
        if word in ("-o", "-MT", "-MF"):
            next(words)
        else:
            kept.append(word.replace(folder, build))
    return kept


wanted = essence(command[1:], work + "/postlude")
for entry in json.loads(pathlib.Path(work + ".json").read_text()):
    words = shlex.split(entry["command"])
    if "-c" in words and wanted[-1] == words[-1]:
        words = words[words.index(command[0]) + 1:] if command[0] in words else []
        if essence(words, build) == wanted:
            shutil.copy(pathlib.Path(build, words[words.index("-o") + 1]), command[command.index("-o") + 1])
            sys.exit(0)
print("compiled:", wanted[-1], flush=True)
command = [launcher, *command] if launcher else command
os.execvp(command[0], command)
