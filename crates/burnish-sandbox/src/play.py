"""What a process that was forked for a job does."""

import errno
import json
import linecache
import os
import resource
import signal
import sys
import traceback
import types

RESULT = 3
ERROR_CHARS_MAX = 500


def plain(text):
    """Half of a pair of code units is no text that could be passed on."""
    return text.encode("utf-8", "replace").decode()[:ERROR_CHARS_MAX] if isinstance(text, str) else text


def kind_of(error):
    """Which limit an exception stands for, if any."""
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, OSError):
        if error.errno in (errno.EFBIG, errno.ENOSPC, errno.EDQUOT):
            return "file_size"
        if error.errno == errno.ENOMEM:
            return "memory"
        if error.errno == errno.EAGAIN and error.filename is None:
            return "processes"
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "processes"
    return None


def said(error):
    try:
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
    except BaseException:
        text = type(error).__name__
    return text[:ERROR_CHARS_MAX]


def show(error):
    """The traceback, without the frames of this file."""
    try:
        frames = error.__traceback__
        for _ in range(2):
            frames = frames and frames.tb_next
        traceback.print_exception(type(error), error, frames)
    except BaseException:
        pass


def play(job, nonce):
    """The forked process. Never returns."""

    def tell(**message):
        message["nonce"] = nonce
        os.write(RESULT, json.dumps(message).encode() + b"\n")

    limits = job["limits"]
    cpu = max(1, int(limits["cpu_seconds"] + 0.999))
    for which, soft, hard in (
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_AS, limits["memory_bytes"], limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"], limits["file_bytes"]),
        (resource.RLIMIT_NPROC, limits["processes"] + 1, limits["processes"] + 1),
    ):
        resource.setrlimit(which, (soft, hard))
    # Python ignores it; its default shows which limit was hit.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    sys.argv[:] = [""]
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    space = main
    if job["name"] != "__main__":
        space = types.ModuleType(job["name"])
        sys.modules[job["name"]] = space

    def run(title, source):
        linecache.cache[title] = (len(source), None, source.splitlines(True), title)
        exec(compile(source, title, "exec", dont_inherit=True), space.__dict__)

    end, detail, code = "done", None, 0
    try:
        for title, source in job["parts"]:
            run(title, source)
        if job.get("side") == "answer":
            Border(space.__dict__, False).serve()
        elif job.get("side") == "judge":
            sources = [source for _, source in job["setup"]] + job["checks"]
            Border(space.__dict__, True).fetch(sources, job["entry_point"])
            for title, source in job["setup"]:
                run(title, source)
        for index, source in enumerate(job["checks"]):
            try:
                run("<test %d>" % index, source)
            except Exception as error:
                if kind_of(error):
                    raise
                show(error)
                tell(check=index, passed=False, error=said(error))
            else:
                tell(check=index, passed=True)
    except SystemExit as error:
        end, code = "exited", error.code
        if code is None:
            code = 0
        elif not isinstance(code, int):
            detail, code = str(code)[:ERROR_CHARS_MAX], 1
    except BaseException as error:
        end = kind_of(error) or "raised"
        detail = said(error)
        show(error)
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except BaseException as error:
            end = kind_of(error) or end
    tell(end=end, detail=detail, code=code)
    os._exit(code & 255 if end in ("done", "exited") else 1)


