"""The workers' protocol: one line when ready, then one unit of work and one JSON line for each line that is read."""
import json
import os
import sys

# Libraries print to stdout too; the answers go where it was, and the rest to stderr.
_answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(**fields):
    _answers.write(json.dumps(fields) + "\n")
    _answers.flush()


def resident_bytes(field="VmRSS:"):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


def ready(worker):
    """Says so, and gives the bytes that are resident then; the peak of memory begins again there."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    loaded = resident_bytes()
    say(ready=True, worker=worker, loaded_bytes=loaded)
    return loaded


def asked():
    """Waits for the next unit; False at the end."""
    return sys.stdin.readline() != ""


def serve(worker, unit):
    """Answers until the end. `unit()` gives `seconds` and `tokens`."""
    loaded = ready(worker)
    while asked():
        done = unit()
        say(**done, memory_bytes=resident_bytes("VmHWM:") - loaded)
