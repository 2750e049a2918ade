//! Programs that try to get out. Each must fail with an error that says that it was held back; one that runs to its end
//! has escaped.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use burnish_sandbox::{Isolation, Job, Outcome, Part, Sandbox, Settings};

use crate::{Tests, run, tight};

pub(crate) const TESTS: Tests = &[
    ("every_attempt_to_get_out_is_held_back", every_attempt),
    ("every_attempt_is_held_back_if_a_user_without_rights_starts_it", every_attempt_of_a_user),
    ("without_namespaces_the_rest_still_holds", without_namespaces),
    ("a_job_finds_no_trace_of_the_one_before", no_trace),
    ("descriptors_and_environment_are_not_inherited", nothing_inherited),
    ("where_a_part_is_missing_nothing_is_run_unless_told_otherwise", refusals),
    ("a_program_can_not_claim_that_it_passed", no_false_claims),
];

/// What programs need to try: any system call, by its number here.
fn prelude() -> String {
    let calls = [
        ("add_key", libc::SYS_add_key),
        ("bpf", libc::SYS_bpf),
        ("clone", libc::SYS_clone),
        ("clone3", libc::SYS_clone3),
        ("fsopen", libc::SYS_fsopen),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("keyctl", libc::SYS_keyctl),
        ("kexec_load", libc::SYS_kexec_load),
        ("memfd_create", libc::SYS_memfd_create),
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
        ("open_tree", libc::SYS_open_tree),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("pidfd_getfd", libc::SYS_pidfd_getfd),
        ("process_vm_readv", libc::SYS_process_vm_readv),
        ("setns", libc::SYS_setns),
        ("shmget", libc::SYS_shmget),
        ("socket", libc::SYS_socket),
        ("unshare", libc::SYS_unshare),
        ("userfaultfd", libc::SYS_userfaultfd),
    ];
    let numbers: Vec<String> = calls.iter().map(|(name, number)| format!("{name:?}: {number}")).collect();
    format!(
        r#"
import ctypes, os, socket, signal, resource, sys
libc = ctypes.CDLL(None, use_errno=True)
CALLS = {{{}}}
def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def call(name, *arguments, add=0):
    return checked(libc.syscall(CALLS[name] + add, *arguments))
def fn(name, *arguments):
    return checked(getattr(libc, name)(*arguments))
"#,
        numbers.join(", ")
    )
}

/// Errors that hold a program back.
const HELD: [&str; 7] = [
    "PermissionError",
    "FileNotFoundError",
    "ProcessLookupError",
    "OSError: [Errno 18]",
    "OSError: [Errno 30]",
    "OSError: [Errno 38]",
    "ValueError: not allowed to raise maximum limit",
];

/// What a program tries to reach, on this machine.
struct Outside {
    folder: tempfile::TempDir,
    tcp: TcpListener,
    _unix: UnixListener,
    _named: UnixListener,
}

/// A name in the namespace of sockets that have no file.
fn abstract_name() -> String {
    format!("burnish-sandbox-test-{}", std::process::id())
}

impl Outside {
    fn new() -> Self {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "secret").unwrap();
        for path in [folder.path(), &file] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let unix = UnixListener::bind(folder.path().join("socket")).unwrap();
        let address = std::os::unix::net::SocketAddr::from_abstract_name(abstract_name()).unwrap();
        let named = UnixListener::bind_addr(&address).unwrap();
        Outside { folder, tcp: TcpListener::bind("127.0.0.1:0").unwrap(), _unix: unix, _named: named }
    }

    /// A program with the paths and numbers of what is outside.
    fn program(&self, attempt: &str) -> String {
        format!(
            "FOLDER = {:?}\nPORT = {}\nNAME = {:?}\nHOST = {}\n{attempt}",
            self.folder.path().display().to_string(),
            self.tcp.local_addr().unwrap().port(),
            abstract_name(),
            std::process::id(),
        )
    }

    /// Is everything as it was, and has nobody knocked?
    fn is_untouched(&self) -> bool {
        self.tcp.set_nonblocking(true).unwrap();
        std::fs::read_to_string(self.folder.path().join("secret")).unwrap() == "secret"
            && std::fs::read_dir(self.folder.path()).unwrap().count() == 2
            && self.tcp.accept().is_err()
    }
}

/// Name and program. `FOLDER`, `PORT`, `NAME`, `HOST` are outside.
const ATTEMPTS: &[(&str, &str)] = &[
    // Files.
    ("reads a file outside", "open(FOLDER + '/secret').read()"),
    ("writes a file outside", "open(FOLDER + '/secret', 'w').write('mine')"),
    ("makes a file outside", "open(FOLDER + '/new', 'w')"),
    ("lists a folder outside", "os.listdir(FOLDER)"),
    ("lists homes", "os.listdir('/home')"),
    ("lists root's home", "os.listdir('/root/.ssh')"),
    ("reads the users", "open('/etc/passwd').read()"),
    ("follows a link out", "os.symlink(FOLDER, '/tmp/link'); open('/tmp/link/secret').read()"),
    ("climbs out", "os.chdir('/tmp'); open('../' * 40 + FOLDER.lstrip('/') + '/secret').read()"),
    ("makes a hard link", "os.link(os.__file__, '/tmp/linked'); open('/tmp/linked', 'a')"),
    ("writes to the interpreter's library", "open(os.__file__, 'a').write('#')"),
    ("deletes from the library", "os.unlink(os.__file__)"),
    ("renames in the library", "os.rename(os.__file__, os.__file__ + 'x')"),
    ("makes the library writable", "os.chmod(os.__file__, 0o777)"),
    ("leaves a module in the library", "open(os.path.dirname(os.__file__) + '/evil.py', 'w')"),
    ("writes to the interpreter", "open(sys.executable, 'ab')"),
    ("makes a file in the root", "open('/new', 'w')"),
    ("reads its environment in /proc", "open('/proc/self/environ').read()"),
    ("reads memory in /proc", "open('/proc/1/mem', 'rb').read(1)"),
    ("goes through another's root", "os.listdir('/proc/1/root')"),
    ("reads a descriptor in /proc", "open('/proc/1/fd/0').read()"),
    ("reads devices", "open('/dev/kmsg').read(1)"),
    ("makes a device", "os.mknod('/tmp/disk', 0o60600, os.makedev(8, 0))"),
    ("opens a file by its handle", "call('open_by_handle_at', 0, None, 0)"),
    ("opens a tree", "call('open_tree', -100, b'/', 1)"),
    // Programs.
    ("executes a shell", "os.execv('/bin/sh', ['sh', '-c', 'true'])"),
    (
        "executes its own program",
        "open('/tmp/own', 'w').write('#!' + sys.executable); os.chmod('/tmp/own', 0o755); os.execv('/tmp/own', ['own'])",
    ),
    // Network.
    ("connects to a port", "socket.create_connection(('127.0.0.1', PORT), timeout=1)"),
    ("opens IPv4", "socket.socket(socket.AF_INET, socket.SOCK_STREAM)"),
    ("opens IPv6", "socket.socket(socket.AF_INET6, socket.SOCK_STREAM)"),
    (
        "sends a datagram",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))",
    ),
    ("opens a raw socket", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"),
    ("opens netlink", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"),
    ("opens packets", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"),
    ("connects to a socket's file", "socket.socket(socket.AF_UNIX).connect(FOLDER + '/socket')"),
    ("connects to a socket without file", "socket.socket(socket.AF_UNIX).connect('\\0' + NAME)"),
    ("leaves a socket without file", "socket.socket(socket.AF_UNIX).bind('\\0left')"),
    ("connects a pair elsewhere", "socket.socketpair()[0].connect('\\0' + NAME)"),
    ("opens a socket by its number", "call('socket', 2, 1, 0)"),
    ("opens a socket by the second number", "call('socket', 2, 1, 0, add=0x40000000)"),
    // Other processes.
    ("signals burnish", "os.kill(HOST, signal.SIGTERM)"),
    ("signals burnish by a handle", "os.pidfd_open(HOST)"),
    ("traces the first process", "fn('ptrace', 16, 1, 0, 0)"),
    ("lets itself be traced", "fn('ptrace', 0, 0, 0, 0)"),
    ("reads another's memory", "call('process_vm_readv', 1, None, 0, None, 0, 0)"),
    ("takes another's descriptor", "call('pidfd_getfd', os.pidfd_open(1), 0, 0)"),
    ("limits the first process", "resource.prlimit(1, resource.RLIMIT_CPU, (1, 1))"),
    ("slows the first process down", "os.setpriority(os.PRIO_PROCESS, 1, 19)"),
    ("moves the first process", "os.sched_setaffinity(1, {0})"),
    ("raises its own limits", "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))"),
    // Rights.
    ("becomes root", "os.setuid(0)"),
    ("becomes somebody else", "os.setresuid(1, 1, 1)"),
    ("joins groups", "os.setgroups([0])"),
    ("mounts", "fn('mount', b'none', b'/tmp', b'tmpfs', 0, None)"),
    (
        "mounts over the library",
        "fn('mount', b'/tmp', os.path.dirname(os.__file__).encode(), None, 4096, None)",
    ),
    ("unmounts", "fn('umount2', b'/tmp', 2)"),
    ("makes a mount in the new way", "call('fsopen', b'tmpfs', 0)"),
    ("changes the root", "os.chroot('/tmp')"),
    (
        "pivots the root",
        "checked(libc.pivot_root(b'/tmp', b'/tmp') if hasattr(libc, 'pivot_root') else os.chroot('/'))",
    ),
    ("unshares", "call('unshare', 0x10000000)"),
    ("clones into namespaces", "call('clone', 0x10000000 | 17, 0, 0, 0, 0)"),
    ("clones in the new way", "call('clone3', None, 0)"),
    ("joins a namespace", "call('setns', os.pidfd_open(1), 0x20000)"),
    // The kernel.
    ("loads a program into the kernel", "call('bpf', 0, None, 0)"),
    ("asks for a ring", "call('io_uring_setup', 1, None)"),
    ("watches the processor", "call('perf_event_open', None, 0, -1, -1, 0)"),
    ("handles faults", "call('userfaultfd', 0)"),
    ("keeps a key", "call('add_key', b'user', b'a', b'b', 1, -3)"),
    ("asks for keys", "call('keyctl', 0, -3, 0)"),
    ("loads a kernel", "call('kexec_load', 0, 0, None, 0)"),
    ("sets the clock", "import time; time.clock_settime(time.CLOCK_REALTIME, 0)"),
    ("renames the machine", "socket.sethostname('mine')"),
    // Memory that is counted nowhere, or stays.
    ("keeps shared memory", "call('shmget', 1, 4096, 0o1600)"),
    ("makes a file in memory", "call('memfd_create', b'x', 0)"),
];

/// Those that nothing but namespaces stops, or that they stop in another way.
const NEED_NAMESPACES: [&str; 3] = ["executes its own program", "follows a link out", "makes a hard link"];

fn try_all(sandbox: &Sandbox, left_out: &[&str]) {
    let prelude = prelude();
    let outside = Outside::new();
    let mut escaped = Vec::new();
    for (name, attempt) in ATTEMPTS.iter().filter(|(name, _)| !left_out.contains(name)) {
        let program = outside.program(attempt);
        let parts = vec![Part("<prelude>", &prelude), Part("<attempt>", &program)];
        let execution =
            sandbox.run(&Job { parts, name: "__main__", limits: tight(), ..Job::default() }).unwrap();
        match &execution.outcome {
            Outcome::Raised(error) if error.contains("No module named '_ctypes'") => {
                println!("skipped: the interpreter python3 has no ctypes");
                return;
            }
            Outcome::Raised(error) if HELD.iter().any(|held| error.starts_with(held)) => {}
            other => escaped.push(format!("{name}: {other:?}")),
        }
    }
    assert!(escaped.is_empty(), "{escaped:#?}");
    assert!(outside.is_untouched());
}

fn every_attempt(sandbox: &Sandbox) {
    assert!(ATTEMPTS.len() >= 30);
    try_all(sandbox, &[]);
    // It was all the same guard, unharmed.
    assert_eq!(run(sandbox, "print(1 + 1)", tight()).stdout, "2\n");
}

/// Root makes its namespaces in another way than everybody else does.
fn every_attempt_of_a_user(_: &Sandbox) {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Its file may be in a folder that only root enters.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = folder.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let output = std::process::Command::new(program)
        .arg("every_attempt_to")
        .uid(65534)
        .gid(65534)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match said.lines().find(|line| line.starts_with("skipped: ")) {
        Some(skipped) => println!("{skipped}"),
        None => assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn without_namespaces(_: &Sandbox) {
    let settings = Settings { isolation: Isolation::BestEffort, workers: Some(1), ..Settings::default() };
    let sandbox = Sandbox::without(settings, &["namespaces"]);
    let report = sandbox.report().unwrap();
    assert!(!report.namespaces && report.missing.len() == 1, "{report:?}");
    assert_eq!(run(&sandbox, "print(1 + 1)", tight()).stdout, "2\n");
    let prelude = prelude();
    let outside = Outside::new();
    for name in [
        "reads a file outside",
        "writes a file outside",
        "reads the users",
        "writes to the interpreter's library",
        "executes a shell",
        "connects to a port",
        "connects to a socket without file",
        "signals burnish",
        "lets itself be traced",
        "mounts",
        "unshares",
    ] {
        assert!(!NEED_NAMESPACES.contains(&name));
        let (_, attempt) = ATTEMPTS.iter().find(|(known, _)| *known == name).unwrap();
        let program = outside.program(attempt);
        let parts = vec![Part("<prelude>", &prelude), Part("<attempt>", &program)];
        let execution =
            sandbox.run(&Job { parts, name: "__main__", limits: tight(), ..Job::default() }).unwrap();
        let Outcome::Raised(error) = &execution.outcome else { panic!("{name}: {execution:?}") };
        assert!(HELD.iter().any(|held| error.starts_with(held)), "{name}: {error}");
    }
    assert!(outside.is_untouched());
    // It can't leave the group by which it is ended.
    let leaves = run(&sandbox, "import os; os.setsid()", tight());
    assert!(leaves.stderr.contains("PermissionError"), "{leaves:?}");
}

fn no_trace(_: &Sandbox) {
    let sandbox = Sandbox::new(Settings { workers: Some(1), ..Settings::default() });
    let messy = r#"
import builtins, os, sys
builtins.sum = None
sys.modules["math"] = None
os.environ["LEFT"] = "1"
os.makedirs("/tmp/a/b/c/d")
open("/tmp/a/b/c/d/file", "w").write("left")
os.symlink("/tmp/a", "/tmp/link")
os.chmod("/tmp/a/b", 0)
deep = "/tmp"
for at in range(300):
    deep += "/" + "x" * 10
    os.mkdir(deep)
os.chdir("/tmp/a")
# Daemons: forked twice, in a session of their own.
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 100)
            while True:
                os.kill(1, 0)
        os._exit(0)
"#;
    assert_eq!(run(&sandbox, messy, tight()).outcome, Outcome::Done);
    let look = r#"
import math, os
others = []
for pid in range(2, 2000):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        continue
    if pid != os.getpid():
        others.append(pid)
print(sum([1, 2]), math.pi > 3, os.environ.get("LEFT"), os.listdir("/tmp"), os.getcwd(), others)
"#;
    let clean = run(&sandbox, look, tight());
    assert_eq!(clean.stdout, "3 True None [] /tmp []\n", "{clean:?}");
    // What it said is not in the frames of the process that the next one is a copy of.
    let said = run(&sandbox, "raise ValueError('left ' + 'behind')", tight());
    assert!(matches!(said.outcome, Outcome::Raised(why) if why.contains("left behind")));
    let look = "import sys\nframe = sys._getframe()\nwhile frame:\n    \
        assert 'left ' + 'behind' not in repr(frame.f_locals)\n    frame = frame.f_back";
    assert_eq!(run(&sandbox, look, tight()).outcome, Outcome::Done);
}

fn nothing_inherited(_: &Sandbox) {
    let mut secret = tempfile::tempfile().unwrap();
    secret.write_all(b"secret").unwrap();
    // As a shell hands them down: `burnish 7< secret`.
    rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
    let sandbox = Sandbox::new(Settings { workers: Some(1), ..Settings::default() });
    let look = r#"
import os
found = []
for number in range(4, 1024):
    try:
        found.append((number, os.read(number, 10)))
    except OSError:
        pass
print(found, sorted(os.environ))
"#;
    let expected = "[] ['HOME', 'LANG', 'PATH', 'PYTHONHASHSEED', 'PYTHONUTF8', 'TMPDIR', 'TZ']\n";
    let execution = run(&sandbox, look, tight());
    assert_eq!(execution.stdout.replace("'LC_CTYPE', ", ""), expected, "{execution:?}");
    // What it gets as stdin is what the job says.
    let reads = Job {
        parts: vec![Part("<program>", "print(repr(input()), repr(open(0).read()))")],
        stdin: "one\ntwo",
        name: "__main__",
        limits: tight(),
        ..Job::default()
    };
    assert_eq!(sandbox.run(&reads).unwrap().stdout, "'one' ''\n");
}

fn refusals(_: &Sandbox) {
    for (part, named) in [("namespaces", "namespaces"), ("landlock", "Landlock"), ("seccomp", "seccomp")] {
        let strict = Sandbox::without(Settings::default(), &[part]);
        let job =
            Job { parts: vec![Part("<program>", "")], name: "__main__", limits: tight(), ..Job::default() };
        let error = strict.run(&job).unwrap_err().to_string();
        assert!(error.contains(named) && error.contains("isolation = \"best_effort\""), "{error}");
        let settings = Settings { isolation: Isolation::BestEffort, ..Settings::default() };
        let told = Sandbox::without(settings, &[part]);
        let report = told.report().unwrap();
        assert!(report.missing[0].contains(named), "{report:?}");
        assert_eq!(told.run(&job).unwrap().outcome, Outcome::Done);
    }
    let absent = Sandbox::new(Settings { python: "no-such-python".into(), ..Settings::default() });
    assert!(absent.report().unwrap_err().to_string().contains("no-such-python"));
}

fn no_false_claims(sandbox: &Sandbox) {
    for program in [
        "import sys; sys.exit()",
        "import os; os._exit(0)",
        "raise SystemExit(0)",
        "import os; os.write(3, b'{\"end\": \"done\", \"detail\": null, \"code\": 0}\\n'); os._exit(0)",
        "import os\nfor nonce in ('', None, 0): os.write(3, ('{\"check\": 0, \"passed\": true, \"nonce\": \"%s\"}\\n' % nonce).encode())",
        "import atexit, os; atexit.register(os._exit, 0); 1 / 0",
        "import os; os.close(3)",
        "import threading, os; threading.Thread(target=lambda: os._exit(0)).start(); import time; time.sleep(1)",
    ] {
        let job = Job {
            parts: vec![Part("<program>", program)],
            checks: vec!["assert False"],
            name: "solution",
            limits: tight(),
            ..Job::default()
        };
        let execution = sandbox.run(&job).unwrap();
        assert!(!execution.is_passed() && execution.passed() == 0, "{program}: {execution:?}");
    }
}
