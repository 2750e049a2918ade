//! seccomp: system calls that no job needs. They fail with EPERM, so that a program reads an error like any other.

use std::collections::BTreeMap;

use libc as c;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// Not for programs: the network, other processes, mounts, namespaces, users, the kernel itself, and whatever would
/// outlive a job or is not covered by its limits.
const REFUSED: &[i64] = &[
    // Network. Pairs of connected sockets are allowed: they reach nobody.
    c::SYS_socket,
    c::SYS_connect,
    c::SYS_bind,
    c::SYS_listen,
    c::SYS_accept,
    c::SYS_accept4,
    // Other processes.
    c::SYS_ptrace,
    c::SYS_process_vm_readv,
    c::SYS_process_vm_writev,
    c::SYS_process_madvise,
    c::SYS_pidfd_getfd,
    c::SYS_kcmp,
    c::SYS_process_mrelease,
    c::SYS_setpriority,
    c::SYS_ioprio_set,
    c::SYS_sched_setscheduler,
    c::SYS_sched_setparam,
    c::SYS_sched_setattr,
    c::SYS_migrate_pages,
    c::SYS_move_pages,
    // Mounts and roots.
    c::SYS_mount,
    c::SYS_umount2,
    c::SYS_pivot_root,
    c::SYS_chroot,
    c::SYS_open_tree,
    c::SYS_move_mount,
    c::SYS_fsopen,
    c::SYS_fsconfig,
    c::SYS_fsmount,
    c::SYS_fspick,
    c::SYS_mount_setattr,
    c::SYS_swapon,
    c::SYS_swapoff,
    c::SYS_quotactl,
    c::SYS_quotactl_fd,
    c::SYS_name_to_handle_at,
    c::SYS_open_by_handle_at,
    c::SYS_mknodat,
    c::SYS_fanotify_init,
    c::SYS_fanotify_mark,
    // Namespaces and users.
    c::SYS_unshare,
    c::SYS_setns,
    c::SYS_setuid,
    c::SYS_setgid,
    c::SYS_setreuid,
    c::SYS_setregid,
    c::SYS_setresuid,
    c::SYS_setresgid,
    c::SYS_setfsuid,
    c::SYS_setfsgid,
    c::SYS_setgroups,
    c::SYS_capset,
    // The kernel.
    c::SYS_bpf,
    c::SYS_perf_event_open,
    c::SYS_userfaultfd,
    c::SYS_io_uring_setup,
    c::SYS_io_uring_enter,
    c::SYS_io_uring_register,
    c::SYS_init_module,
    c::SYS_finit_module,
    c::SYS_delete_module,
    c::SYS_kexec_load,
    c::SYS_reboot,
    c::SYS_syslog,
    c::SYS_acct,
    c::SYS_personality,
    c::SYS_settimeofday,
    c::SYS_clock_settime,
    c::SYS_clock_adjtime,
    c::SYS_adjtimex,
    c::SYS_sethostname,
    c::SYS_setdomainname,
    c::SYS_vhangup,
    c::SYS_add_key,
    c::SYS_request_key,
    c::SYS_keyctl,
    // Memory that the limit on memory does not count, and what stays after its maker.
    c::SYS_memfd_create,
    c::SYS_memfd_secret,
    c::SYS_shmget,
    c::SYS_shmat,
    c::SYS_semget,
    c::SYS_msgget,
    c::SYS_mq_open,
];

/// More of them on this architecture.
#[cfg(target_arch = "x86_64")]
const OLD: &[i64] =
    &[c::SYS_mknod, c::SYS_ioperm, c::SYS_iopl, c::SYS_modify_ldt, c::SYS_kexec_file_load, c::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[i64] = &[];

/// Without namespaces a job is ended by its group, which it must then not leave, and signals could reach anybody.
const BARE: &[i64] = &[c::SYS_setsid, c::SYS_setpgid, c::SYS_kill, c::SYS_tkill, c::SYS_pidfd_send_signal];

/// `clone` with any of these makes a namespace.
const NAMESPACES: [i32; 8] = [
    c::CLONE_NEWNS,
    c::CLONE_NEWCGROUP,
    c::CLONE_NEWUTS,
    c::CLONE_NEWIPC,
    c::CLONE_NEWUSER,
    c::CLONE_NEWPID,
    c::CLONE_NEWNET,
    // Time.
    0x80,
];

/// The second calling convention of 64-bit x86 has the same calls with this bit.
#[cfg(target_arch = "x86_64")]
const SECOND: Option<i64> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const SECOND: Option<i64> = None;

/// Gives them up, for good. `is_apart`: in namespaces of its own.
///
/// # Errors
/// If the kernel does not have it, or nothing is known about this processor.
pub(super) fn restrict(is_apart: bool) -> Result<(), String> {
    let filter = || -> Result<(), String> {
        let bare: &[i64] = if is_apart { &[] } else { BARE };
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
            [REFUSED, OLD, bare].concat().into_iter().map(|call| (call, Vec::new())).collect();
        let namespaces: Result<Vec<SeccompRule>, String> =
            NAMESPACES.iter().map(|flag| has(0, *flag as u64)).collect();
        // The first argument on every architecture that is known here.
        rules.insert(c::SYS_clone, namespaces?);
        // Limits of others. Its own are those of process 0.
        rules.insert(c::SYS_prlimit64, vec![differs(0)?]);
        rules.insert(c::SYS_sched_setaffinity, vec![differs(0)?]);
        if let Some(bit) = SECOND {
            rules.extend(rules.clone().into_keys().map(|call| (call | bit, Vec::new())).collect::<Vec<_>>());
        }
        apply(rules, c::EPERM)?;
        // Its flags can't be looked at, and libraries fall back on the older call.
        apply(BTreeMap::from([(c::SYS_clone3, Vec::new())]), c::ENOSYS)
    };
    filter()
}

fn apply(rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> Result<(), String> {
    let here: TargetArch =
        std::env::consts::ARCH.try_into().map_err(|error: seccompiler::BackendError| error.to_string())?;
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, here).map_err(|error| error.to_string())?;
    let program: BpfProgram =
        filter.try_into().map_err(|error: seccompiler::BackendError| error.to_string())?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}

/// The argument has all bits of `flag`.
fn has(argument: u8, flag: u64) -> Result<SeccompRule, String> {
    rule(argument, SeccompCmpOp::MaskedEq(flag), flag)
}

/// The argument is not 0.
fn differs(argument: u8) -> Result<SeccompRule, String> {
    rule(argument, SeccompCmpOp::Ne, 0)
}

fn rule(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, String> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| error.to_string())
}
