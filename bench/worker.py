"""The other end of the workers' protocol: starts a worker, asks it for units, and watches that it rests in between."""
import json
import os
import shlex
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Worker:
    """A process that does one unit of work for each line that it reads."""

    def __init__(self, command, log):
        self.name = shlex.join(command)
        self.log = log
        self.errors = open(log, "w")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, bufsize=1
        )
        self.ready = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            with open(self.log, errors="replace") as file:
                said = file.read()[-2000:]
            raise SystemExit(f"{self.name} ended with {self.process.returncode}; its last words ({self.log}):\n{said}")
        return json.loads(line)

    def ask(self, line=""):
        self.process.stdin.write(line + "\n")
        return self.answer()

    def cpu_seconds(self):
        """Processor time of the process and its threads so far."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def machine_cpu_seconds():
    """Processor time of all processes so far, and what the hypervisor gave to other machines."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _waiting, irq, softirq, stolen = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq) / TICKS_PER_SECOND, stolen / TICKS_PER_SECOND


def unit_while_other_rests(worker, other):
    """A unit of `worker`, and the processor time that `other` took meanwhile."""
    before = other.cpu_seconds()
    done = worker.ask()
    return done, other.cpu_seconds() - before
