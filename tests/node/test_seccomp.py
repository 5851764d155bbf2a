"""The seccomp programs, call by call: on an interpreter for both architectures, and in a real process for this one."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import Any

import pytest

from strato.node.sandbox import capabilities, linux, seccomp, syscalls

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
EPERM, ENOSYS = seccomp.refuse(errno.EPERM), seccomp.refuse(errno.ENOSYS)
EMPTY: frozenset[str] = frozenset()


def verdict(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """Interpret a classic BPF program as the kernel does."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *(*arguments, *[0] * (6 - len(arguments))))
    accumulator = at = 0
    for _ in range(len(program) // 8):
        code, yes, no, value = struct.unpack_from("<HBBI", program, 8 * at)
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == 0x54:
            accumulator &= value
        elif code == 0x05:
            at += value
        elif code == 0x06:
            return int(value)
        else:
            met = {0x15: accumulator == value, 0x25: accumulator > value, 0x35: accumulator >= value}[code]
            at += yes if met else no
    raise AssertionError("the program does not return")


def decide(machine: str, name: str, *arguments: int, granted: frozenset[str] = capabilities.DEFAULT) -> int:
    number = syscalls.numbers(machine)[name]
    return verdict(seccomp.default_filter(granted, machine), ARCHITECTURES[machine], number, *arguments)


WITHHELD = """
    _sysctl acct add_key adjtimex afs_syscall bpf clock_adjtime clock_settime create_module delete_module epoll_ctl_old
    epoll_wait_old fanotify_init finit_module fsconfig fsmount fsopen fspick get_kernel_syms get_mempolicy getpmsg
    init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl
    lookup_dcookie lsm_set_self_attr mbind migrate_pages mount mount_setattr move_mount move_pages nfsservctl
    open_by_handle_at open_tree open_tree_attr perf_event_open pidfd_getfd pivot_root process_madvise putpmsg
    query_module quotactl quotactl_fd reboot request_key security set_mempolicy set_mempolicy_home_node setdomainname
    sethostname setns settimeofday swapoff swapon sysfs syslog tuxcall umount2 unshare uselib userfaultfd ustat vhangup
    vserver
"""
"""What a container with the default capabilities cannot call, whatever the arguments."""


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_each_call_is_allowed_or_refused_by_name(machine: str) -> None:
    withheld = set(WITHHELD.split())
    found = {name for name in syscalls.numbers(machine) if decide(machine, name) == EPERM}
    assert found == withheld & set(syscalls.numbers(machine))
    allowed = {name for name in syscalls.numbers(machine) if decide(machine, name) == seccomp.ALLOW}
    assert allowed | found | {"clone3"} == set(syscalls.numbers(machine))


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize(
    ("name", "arguments", "want"),
    [
        ("clone", (0x01200011,), seccomp.ALLOW),
        *(("clone", (1 << bit,), EPERM) for bit in (17, 25, 26, 27, 28, 29, 30)),
        ("clone", (1 << 40 | 17,), seccomp.ALLOW),
        ("clone3", (), ENOSYS),
        ("personality", (0,), seccomp.ALLOW),
        ("personality", (0xFFFFFFFF,), seccomp.ALLOW),
        ("personality", (0x0040000,), EPERM),
        ("personality", (1 << 32,), EPERM),
        ("socket", (2, 1, 0), seccomp.ALLOW),
        ("socket", (16, 3, 0), seccomp.ALLOW),
        ("socket", (40, 1, 0), EPERM),
    ],
)
def test_arguments_count(machine: str, name: str, arguments: tuple[int, ...], want: int) -> None:
    assert decide(machine, name, *arguments) == want


@pytest.mark.parametrize(
    ("capability", "opened"),
    [
        ("SYS_ADMIN", {"mount", "umount2", "setns", "unshare", "bpf", "clone3", "perf_event_open", "fsopen", "syslog"}),
        ("BPF", {"bpf"}),
        ("PERFMON", {"perf_event_open"}),
        ("SYSLOG", {"syslog"}),
        ("DAC_READ_SEARCH", {"open_by_handle_at"}),
        ("SYS_BOOT", {"reboot"}),
        ("SYS_CHROOT", {"chroot"}),
        ("SYS_MODULE", {"init_module", "finit_module", "delete_module"}),
        ("SYS_PACCT", {"acct"}),
        ("SYS_PTRACE", {"kcmp", "pidfd_getfd", "process_madvise"}),
        ("SYS_RAWIO", {"iopl", "ioperm"}),
        ("SYS_TIME", {"settimeofday", "adjtimex", "clock_settime", "clock_adjtime"}),
        ("SYS_TTY_CONFIG", {"vhangup"}),
        ("SYS_NICE", {"mbind", "get_mempolicy", "set_mempolicy"}),
    ],
)
def test_a_capability_opens_what_belongs_to_it(capability: str, opened: set[str]) -> None:
    table = syscalls.numbers("x86_64")
    for name in opened:
        assert decide("x86_64", name, granted=EMPTY) in (EPERM, ENOSYS)
        assert decide("x86_64", name, granted=frozenset({capability})) == seccomp.ALLOW
    if capability != "SYS_ADMIN":
        more = {n for n in table if decide("x86_64", n, granted=frozenset({capability})) == seccomp.ALLOW}
        assert {n for n in more if decide("x86_64", n, granted=EMPTY) != seccomp.ALLOW} <= opened | {
            "query_module",
            "set_mempolicy_home_node",
        }


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_other_abis_and_newer_calls_get_nowhere(machine: str) -> None:
    program = seccomp.default_filter(capabilities.DEFAULT, machine)
    read = syscalls.numbers(machine)["read"]
    assert verdict(program, 0x40000003, read) == seccomp.KILL  # 32-bit x86
    for number in (max(syscalls.numbers(machine).values()) + 1, 5000, 0x7FFFFFFF):
        assert verdict(program, ARCHITECTURES[machine], number) == ENOSYS
    assert verdict(program, ARCHITECTURES["x86_64"], 0x40000000 | read) in (ENOSYS, seccomp.KILL)


PROFILE = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "defaultErrnoRet": 38,
    "syscalls": [
        {"names": ["read", "no_such_call"], "action": "SCMP_ACT_ALLOW"},
        {"names": ["lseek"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 1, "value": 5, "op": "SCMP_CMP_LT"}]},
        {"names": ["dup3"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 5, "op": "SCMP_CMP_GE"}]},
        {"names": ["kill"], "action": "SCMP_ACT_KILL_PROCESS"},
        {
            "names": ["mmap"],
            "action": "SCMP_ACT_ALLOW",
            "args": [
                {"index": 2, "value": 4, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"},
                {"index": 4, "value": 1 << 33, "op": "SCMP_CMP_GT"},
            ],
        },
    ],
}


@pytest.mark.parametrize(
    ("name", "arguments", "want"),
    [
        ("read", (), seccomp.ALLOW),
        ("write", (), ENOSYS),
        ("kill", (), seccomp.KILL),
        ("lseek", (0, 4), seccomp.ALLOW),
        ("lseek", (0, 5), ENOSYS),
        ("lseek", (0, 1 << 32), ENOSYS),
        ("dup3", (4,), ENOSYS),
        ("dup3", (5,), seccomp.ALLOW),
        ("dup3", (1 << 40,), seccomp.ALLOW),
        ("mmap", (0, 0, 3, 0, (1 << 33) + 1), seccomp.ALLOW),
        ("mmap", (0, 0, 7, 0, (1 << 33) + 1), ENOSYS),
        ("mmap", (0, 0, 3, 0, 1 << 33), ENOSYS),
        ("mmap", (0, 0, 3, 0, 9), ENOSYS),
    ],
)
def test_a_profile_in_ocis_form_means_what_it_says(name: str, arguments: tuple[int, ...], want: int) -> None:
    program = seccomp.from_profile(PROFILE, "x86_64")
    assert verdict(program, ARCHITECTURES["x86_64"], syscalls.numbers("x86_64")[name], *arguments) == want


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({}, "defaultAction None"),
        ({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": 3}, "no list"),
        ({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"action": "SCMP_ACT_ALLOW"}]}, "without names"),
        ({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 99999}, "no error number"),
        (
            {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": [{}], "action": "SCMP_ACT_LOG"}]},
            "names or args are no lists",
        ),
        (
            {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": [], "action": "SCMP_ACT_LOG", "args": 5}]},
            "names or args are no lists",
        ),
        (
            {
                "defaultAction": "SCMP_ACT_ALLOW",
                "syscalls": [
                    {"names": ["read"], "action": "SCMP_ACT_LOG", "args": [{"index": 9, "value": 0, "op": "EQ"}]}
                ],
            },
            "not understood",
        ),
        (
            {
                "defaultAction": "SCMP_ACT_ALLOW",
                "syscalls": [{"names": ["read"], "action": "SCMP_ACT_LOG", "includes": {"caps": ["CAP_X"]}}],
            },
            "includes and excludes",
        ),
    ],
)
def test_a_profile_that_is_not_understood_is_refused(profile: dict[str, Any], message: str) -> None:
    with pytest.raises(seccomp.ProfileProblem, match=message):
        seccomp.from_profile(profile)


def test_the_kernel_refuses_each_withheld_call_in_a_real_process() -> None:
    """With arguments that would do nothing, should a call get through."""
    table = syscalls.numbers(os.uname().machine)
    names = sorted(set(WITHHELD.split()) & set(table)) + ["clone3"]
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            linux.set_no_new_privileges()
            linux.set_filter(seccomp.default_filter(capabilities.DEFAULT))
            for name in names:
                ctypes.set_errno(0)
                result = libc.syscall(ctypes.c_long(table[name]), -1, -1, -1, -1, -1, -1)
                os.write(writing, f"{name} {result} {ctypes.get_errno()}\n".encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    with open(reading) as file:
        found = {line.split()[0]: line.split()[1:] for line in file}
    assert found == {name: ["-1", str(errno.ENOSYS if name == "clone3" else errno.EPERM)] for name in names}
