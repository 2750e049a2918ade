"""Runs inside the sandbox: forks a fresh process for each job and says what became of it.

Jobs and answers are lines of JSON. The process forks before anything of a job runs, so a job finds the interpreter as
it was started. As the first process of its namespace it ends whatever a job leaves behind; `warm` says that it is.
"""

import gc
import json
import os
import resource
import select
import signal
import sys
import time

CONFIG = json.loads(sys.argv[1])
SCRATCH = "/tmp"
RESULT_BYTES_MAX = 1 << 20
CHUNK = 1 << 16
# Begins a line that crosses the border.
RELAYED = ">"


def preload():
    """What programs import most, once instead of per job."""
    for name in (
        "abc array bisect cmath collections contextlib copy dataclasses datetime decimal enum fractions functools "
        "hashlib heapq io itertools math numbers operator queue random re statistics string struct textwrap "
        "threading typing unicodedata"
    ).split():
        try:
            __import__(name)
        except ImportError:
            pass


def is_full(processes):
    """Whether there are as many processes as allowed."""
    resource.setrlimit(resource.RLIMIT_NPROC, (processes + 1, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
    try:
        pid = os.fork()
    except OSError:
        return True
    if pid == 0:
        os._exit(0)
    return False


def end_all(pid):
    """Ends the job's processes; the wait status of the first."""
    status = None
    if not CONFIG["warm"]:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
        return os.waitpid(pid, 0)[1]
    while True:
        try:
            # Everybody but this process, which is the first.
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            gone, how = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if gone == pid:
            status = how


def clear():
    """Empties the scratch folder, however deep it is: what lies in folders is moved up first."""
    number, prefix = 0, os.urandom(8).hex()
    while True:
        names = os.listdir(SCRATCH)
        if not names:
            return
        for name in names:
            path = os.path.join(SCRATCH, name)
            if os.path.islink(path) or not os.path.isdir(path):
                os.unlink(path)
                continue
            os.chmod(path, 0o700)
            for inner in os.listdir(path):
                place = os.path.join(path, inner)
                if not os.path.islink(place) and os.path.isdir(place):
                    os.chmod(place, 0o700)
                os.rename(place, os.path.join(SCRATCH, "%s%d" % (prefix, number)))
                number += 1
            os.rmdir(path)


def outcome(job, over, full, status, cpu, last):
    """What became of a job, as (outcome, detail)."""
    killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    if over == "output":
        return "output", None
    if full:
        return "processes", None
    if cpu > job["limits"]["cpu_seconds"] or killed_by == signal.SIGXCPU:
        return "cpu", None
    if over:
        return over, None
    if killed_by == signal.SIGXFSZ:
        return "file_size", None
    if killed_by is not None:
        return "killed", killed_by
    if last:
        return last["end"], last["code"] if last["end"] == "exited" else last["detail"]
    return "exited", os.WEXITSTATUS(status)


def execute(job, control, answers):
    limits = job["limits"]
    is_linked = "side" in job
    nonce = os.urandom(16).hex()
    given_r, given_w = os.pipe()
    out_r, out_w = os.pipe()
    err_r, err_w = os.pipe()
    res_r, res_w = os.pipe()
    link_in_r, link_in_w = os.pipe()
    link_out_r, link_out_w = os.pipe()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            for place, fd in enumerate((given_r, out_w, err_w)):
                os.dup2(fd, place)
            # The numbers of the pipes are above: 0 to 2 and the lines to burnish were taken.
            os.dup2(res_w, RESULT)
            if is_linked:
                os.dup2(link_in_r, LINK_IN)
                os.dup2(link_out_w, LINK_OUT)
            os.closerange((LINK_OUT if is_linked else RESULT) + 1, 1 << 12)
            os.chdir(SCRATCH if CONFIG["warm"] else "/")
            play(job, nonce)
        finally:
            os._exit(70)
    for fd in (given_r, out_w, err_w, res_w, link_in_r, link_out_w):
        os.close(fd)
    for fd in (given_w, out_r, err_r, res_r, link_in_w, link_out_r):
        os.set_blocking(fd, False)
    # What is to be written to stdin, and to the border.
    given = {given_w: memoryview(job["stdin"].encode("utf-8", "surrogatepass")), link_in_w: memoryview(b"")}
    said = bytearray()
    read = {out_r: bytearray(), err_r: bytearray(), res_r: bytearray()}
    over, status = None, None

    def take(fd):
        """Reads what is there; False at the end."""
        nonlocal over
        try:
            chunk = os.read(fd, CHUNK)
        except BlockingIOError:
            return True
        read[fd] += chunk
        room = RESULT_BYTES_MAX if fd == res_r else limits["output_bytes"]
        held = len(read[fd]) if fd == res_r else len(read[out_r]) + len(read[err_r])
        if held > room:
            over = "output"
        return bool(chunk)

    poll = select.poll()
    for fd in read:
        poll.register(fd, select.POLLIN)
    poll.register(control.fd, select.POLLIN if is_linked else 0)
    # Each side of the border speaks when it has heard a line; the judge begins.
    if job.get("side") == "judge":
        poll.register(link_out_r, select.POLLIN)
    poll.register(given_w, select.POLLOUT)
    # Older interpreters look every few milliseconds instead.
    watched = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    if watched is not None:
        poll.register(watched, select.POLLIN)
    is_over = False
    while not is_over and not over:
        left = limits["wall_seconds"] - (time.monotonic() - start)
        if left <= 0:
            over = "wall"
            break
        line = control.line() if is_linked else None
        if line is not None:
            given[link_in_w] = memoryview(line[1:] + b"\n")
            poll.register(link_in_w, select.POLLOUT)
            poll.register(link_out_r, select.POLLIN)
        for fd, event in poll.poll(left * 1000 + 1 if watched is not None else 5):
            if fd == control.fd:
                if not event & select.POLLIN or not control.take():
                    # burnish is gone; as the first process this one takes all others with it.
                    os._exit(0)
            elif fd == watched:
                is_over = True
            elif fd in given:
                try:
                    given[fd] = given[fd][os.write(fd, given[fd][:CHUNK]):]
                except OSError:
                    given[fd] = given[fd][:0]
                if not given[fd]:
                    poll.unregister(fd)
                    if fd == given_w:
                        os.close(fd)
                        given_w = None
            elif fd == link_out_r:
                chunk = os.read(fd, CHUNK)
                said += chunk
                if len(said) > LINE_BYTES_MAX + 1:
                    over = "output"
                if not chunk or chunk.endswith(b"\n"):
                    poll.unregister(fd)
                    line = said.decode("utf-8", "replace").strip().replace("\n", " ")
                    said.clear()
                    if chunk:
                        write(answers, (RELAYED + line).encode())
            elif not take(fd):
                poll.unregister(fd)
        if watched is None:
            is_over = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    wall = time.monotonic() - start
    # What it has written before it ended.
    for fd in read:
        while not over and select.select([fd], [], [], 0)[0] and take(fd):
            pass
    full = (not is_over or over is not None) and is_full(limits["processes"])
    status = end_all(pid)
    for fd in [*read, link_in_w, link_out_r, *(fd for fd in (given_w, watched) if fd is not None)]:
        os.close(fd)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    last, checks = None, [None] * len(job["checks"])
    for line in bytes(read[res_r]).split(b"\n"):
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if not isinstance(message, dict) or message.pop("nonce", None) != nonce:
            continue
        # Whatever walks the frames can write here too; the interpreter must survive it.
        if message.get("check") in range(len(checks)):
            checks[message["check"]] = {"passed": message.get("passed") is True, "error": plain(message.get("error"))}
        elif message.keys() >= {"end", "detail", "code"}:
            last = message
    end, detail = outcome(job, over, full, status, cpu, last)
    room = limits["output_bytes"]
    return {
        "outcome": end,
        "detail": plain(detail),
        "stdout": bytes(read[out_r][:room]).decode("utf-8", "replace"),
        "stderr": bytes(read[err_r][:room]).decode("utf-8", "replace"),
        "checks": checks,
        "wall_seconds": wall,
        "cpu_seconds": cpu,
    }


class Lines:
    """Lines from burnish: jobs, and what crosses the border meanwhile."""

    def __init__(self, fd):
        self.fd, self.held = fd, b""

    def take(self):
        """Reads what is there, or waits for it; False at the end."""
        chunk = os.read(self.fd, CHUNK)
        self.held += chunk
        return bool(chunk)

    def line(self):
        """The next line, if all of it has been read."""
        line, end, rest = self.held.partition(b"\n")
        if not end:
            return None
        self.held = rest
        return line


def write(fd, line):
    data = memoryview(line + b"\n")
    while data:
        data = data[os.write(fd, data):]


def main():
    # Above the descriptors that a job has.
    control = os.dup(0)
    while control <= LINK_OUT:
        control = os.dup(0)
    answers = os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.closerange(answers + 1, 1 << 12)
    sys.path[:] = CONFIG["sys_path"]
    preload()
    gc.collect()
    gc.freeze()
    write(answers, json.dumps({"python": "%d.%d.%d" % sys.version_info[:3]}).encode())
    control = Lines(control)
    while True:
        line = control.line()
        if line is None:
            if not control.take():
                return
            continue
        # A line for a job that is over.
        if line.startswith(RELAYED.encode()):
            continue
        answer = execute(json.loads(line), control, answers)
        if CONFIG["warm"]:
            clear()
        write(answers, json.dumps(answer).encode())
        # The next job is a copy of this process, and must not find in its frames what this one said.
        del answer, line


main()
