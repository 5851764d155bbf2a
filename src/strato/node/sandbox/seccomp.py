"""Seccomp filters as classic BPF: the default profile of containers, and profiles from OCI's JSON form.

The default profile has the effect of containerd's: system calls of ordinary programs are allowed, those that change the
machine require the capability that they belong to, and calls newer than the table of `syscalls` fail with ENOSYS, so
that programs fall back to older ones. 32-bit and x32 calls are refused as foreign. Standard library only.
"""

from __future__ import annotations

import errno
import functools
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strato.node.sandbox import capabilities, syscalls

ALLOW, KILL, LOG, _ERRNO, _TRAP = 0x7FFF0000, 0x80000000, 0x7FFC0000, 0x00050000, 0x00030000
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000
_LOAD, _AND, _RETURN, _JUMP = 0x20, 0x54, 0x06, 0x05
_EQUAL, _GREATER, _AT_LEAST = 0x15, 0x25, 0x35
_LONGEST_JUMP = 255
"""Longest jump of a comparison, in instructions: BPF has 8 bits for it."""
_NUMBER_OFFSET, _ARCH_OFFSET, _ARGS_OFFSET = 0, 4, 16
_NAMESPACE_FLAGS = 0x7E020000
"""Flags of ``clone`` for mount, UTS, IPC, user, PID, network and control group namespaces."""
_PERSONALITIES = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)
_AF_VSOCK = 40

_NEVER = frozenset(
    str.split(
        "_sysctl add_key afs_syscall create_module epoll_ctl_old epoll_wait_old get_kernel_syms getpmsg io_uring_enter "
        "io_uring_register io_uring_setup kexec_file_load kexec_load keyctl lsm_set_self_attr migrate_pages move_pages "
        "nfsservctl open_tree_attr pivot_root putpmsg request_key security swapoff swapon sysfs tuxcall uselib "
        "userfaultfd ustat vserver"
    )
)
"""Not part of the default profile, whatever the capabilities."""
_BY_CAPABILITY = {
    "SYS_ADMIN": "bpf clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie mount mount_setattr "
    "move_mount open_tree perf_event_open quotactl quotactl_fd setdomainname sethostname setns syslog umount2 unshare",
    "BPF": "bpf",
    "PERFMON": "perf_event_open",
    "SYSLOG": "syslog",
    "DAC_READ_SEARCH": "open_by_handle_at",
    "SYS_BOOT": "reboot",
    "SYS_CHROOT": "chroot",
    "SYS_MODULE": "delete_module finit_module init_module query_module",
    "SYS_PACCT": "acct",
    "SYS_PTRACE": "kcmp pidfd_getfd process_madvise",
    "SYS_RAWIO": "ioperm iopl",
    "SYS_TIME": "adjtimex clock_adjtime clock_settime settimeofday",
    "SYS_TTY_CONFIG": "vhangup",
    "SYS_NICE": "get_mempolicy mbind set_mempolicy set_mempolicy_home_node",
}
"""Capability → system calls that it allows; a call of two capabilities needs one of them."""
_ACTIONS = {
    "SCMP_ACT_ALLOW": ALLOW,
    "SCMP_ACT_LOG": LOG,
    "SCMP_ACT_KILL": 0x00000000,
    "SCMP_ACT_KILL_THREAD": 0x00000000,
    "SCMP_ACT_KILL_PROCESS": KILL,
    "SCMP_ACT_TRAP": _TRAP,
    "SCMP_ACT_ERRNO": _ERRNO,
}
_OPERATORS = ("EQ", "NE", "LT", "LE", "GT", "GE", "MASKED_EQ")


class ProfileProblem(ValueError):
    """A profile has unsupported content; the message says which."""


@dataclass(frozen=True, slots=True)
class ArgumentCondition:
    """A comparison with an argument of the call, by libseccomp's operator names."""

    index: int
    operator: str
    value: int
    mask: int = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class SeccompRule:
    """The action for a call whose arguments meet all conditions."""

    action: int
    conditions: tuple[ArgumentCondition, ...] = ()


def refuse(number: int = errno.EPERM) -> int:
    """Return the action that makes a call fail with an error number."""
    return _ERRNO | number


@functools.cache
def default_filter(granted: frozenset[str], machine: str = "") -> bytes:
    """Return the default profile's program for a container that holds capabilities (names without ``CAP_``)."""
    table = syscalls.numbers(machine or os.uname().machine)
    withheld = set(_NEVER)
    for calls in _BY_CAPABILITY.values():
        withheld |= set(calls.split())
    for capability in granted:
        withheld -= set(_BY_CAPABILITY.get(capability, "").split())
    rules = {number: [SeccompRule(ALLOW)] for name, number in table.items() if name not in withheld}
    rules[table["personality"]] = [SeccompRule(ALLOW, (ArgumentCondition(0, "EQ", value),)) for value in _PERSONALITIES]
    rules[table["socket"]] = [SeccompRule(ALLOW, (ArgumentCondition(0, "NE", _AF_VSOCK),))]
    if "SYS_ADMIN" not in granted:
        rules[table["clone"]] = [SeccompRule(ALLOW, (ArgumentCondition(0, "MASKED_EQ", 0, _NAMESPACE_FLAGS),))]
        # A filter cannot read the flags of clone3, which are in memory; on ENOSYS the C library uses clone.
        rules[table["clone3"]] = [SeccompRule(refuse(errno.ENOSYS))]
    return assemble(rules, refuse(), machine)


def from_profile(profile: Mapping[str, Any], machine: str = "") -> bytes:
    """Return the program of a profile in the JSON form of the OCI runtime specification.

    Raises:
        ProfileProblem: The profile has unsupported content.
    """
    table = syscalls.numbers(machine or os.uname().machine)
    rules: dict[int, list[SeccompRule]] = {}
    default = _action(profile, "defaultAction", "defaultErrnoRet")
    entries = profile.get("syscalls") or []
    if not isinstance(entries, list):
        raise ProfileProblem("syscalls is no list")
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("names"), list):
            raise ProfileProblem(f"syscalls has an entry without names: {entry!r:.100}")
        if entry.get("includes") or entry.get("excludes"):
            raise ProfileProblem("includes and excludes are Docker's own and not understood here")
        args = entry.get("args") or []
        if not isinstance(args, list) or not all(isinstance(name, str) for name in entry["names"]):
            raise ProfileProblem(f"syscalls has an entry whose names or args are no lists of them: {entry!r:.100}")
        rule = SeccompRule(_action(entry, "action", "errnoRet"), tuple(map(_condition, args)))
        for name in entry["names"]:
            if name in table:  # profiles also name calls of other architectures
                rules.setdefault(table[name], []).append(rule)
    return assemble(rules, default, machine)


def _action(entry: Mapping[str, Any], key: str, number_key: str) -> int:
    action = _ACTIONS.get(str(entry.get(key)))
    if action is None:
        raise ProfileProblem(f"{key} {entry.get(key)!r} is not one of {', '.join(_ACTIONS)}")
    number = entry.get(number_key)
    if action == _ERRNO:
        if number is not None and not (isinstance(number, int) and 0 <= number <= 4095):
            raise ProfileProblem(f"{number_key} {number!r} is no error number")
        return refuse(errno.EPERM if number is None else number)
    return action


def _condition(arg: Mapping[str, Any]) -> ArgumentCondition:
    try:
        index, value, second = int(arg["index"]), int(arg["value"]), int(arg.get("valueTwo", 0))
        operator = str(arg["op"]).removeprefix("SCMP_CMP_")
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ProfileProblem(f"args has an entry that is not understood: {arg!r:.100}") from None
    if operator not in _OPERATORS or not 0 <= index <= 5 or not all(0 <= v < 1 << 64 for v in (value, second)):
        raise ProfileProblem(f"args has an entry that is not understood: {arg!r:.100}")
    if operator == "MASKED_EQ":
        return ArgumentCondition(index, operator, second, mask=value)
    return ArgumentCondition(index, operator, value)


# The assembler

_Step = tuple[int, int, str, str]
"""Code, constant, and the labels to jump to if true and if false; an empty label is the next instruction."""


def assemble(rules: Mapping[int, Sequence[SeccompRule]], default: int, machine: str = "") -> bytes:
    """Return a filter program.

    Args:
        rules: Number of a call → its rules; the first whose conditions are met decides.
        default: Action for calls of which no rule is met.
        machine: Architecture; empty for this machine's.
    """
    machine = machine or os.uname().machine
    last = max(syscalls.numbers(machine).values())
    program = [
        _code(_LOAD, _ARCH_OFFSET),
        _code(_EQUAL, _ARCHITECTURES[machine], 1, 0),
        _code(_RETURN, KILL),
        _code(_LOAD, _NUMBER_OFFSET),
    ]
    if machine == "x86_64":
        program += [_code(_AT_LEAST, _X32_BIT, 0, 1), _code(_RETURN, refuse(errno.ENOSYS))]
    newer = default if default in (ALLOW, LOG) else refuse(errno.ENOSYS)
    program += [_code(_GREATER, last, 0, 1), _code(_RETURN, newer)]
    intervals = _intervals(rules)
    program += _search(intervals, default) if intervals else [_code(_RETURN, default)]
    return b"".join(program)


def _search(intervals: Sequence[tuple[int, int, Sequence[SeccompRule]]], default: int) -> list[bytes]:
    """Return a binary search for the call's number: on installation, the kernel runs the program for every number."""
    if len(intervals) > 1:
        middle = len(intervals) // 2
        left, right = _search(intervals[:middle], default), _search(intervals[middle:], default)
        number = intervals[middle][0]
        if len(left) <= _LONGEST_JUMP:
            return [_code(_AT_LEAST, number, len(left), 0), *left, *right]
        return [_code(_AT_LEAST, number, 0, 1), _code(_JUMP, len(left)), *left, *right]
    first, end, rules = intervals[0]
    if len(rules) == 1 and not rules[0].conditions:
        return [
            _code(_GREATER, end, 1, 0),
            _code(_AT_LEAST, first, 1, 0),
            _code(_RETURN, default),
            _code(_RETURN, rules[0].action),
        ]
    return [_code(_EQUAL, first, 1, 0), _code(_RETURN, default), *_decide(rules, default)]


def _intervals(rules: Mapping[int, Sequence[SeccompRule]]) -> list[tuple[int, int, Sequence[SeccompRule]]]:
    """Return intervals of consecutive numbers with the same unconditional rule; other numbers are intervals of one."""
    found: list[tuple[int, int, Sequence[SeccompRule]]] = []
    for number in sorted(rules):
        rule = list(rules[number])
        if found and found[-1][1] == number - 1 and list(found[-1][2]) == rule and not rule[0].conditions:
            found[-1] = (found[-1][0], number, rule)
        else:
            found.append((number, number, rule))
    return found


def _decide(rules: Sequence[SeccompRule], default: int) -> list[bytes]:
    """Return instructions that compare the arguments and return."""
    body: list[bytes] = []
    for rule in rules:
        steps: list[_Step | str] = []
        for position, condition in enumerate(rule.conditions):
            steps += [*_compare(condition, f"next{position}"), f"next{position}"]
        body += [*_resolve(steps), _code(_RETURN, rule.action)]
    return [*body, _code(_RETURN, default)]


def _compare(condition: ArgumentCondition, met: str) -> list[_Step | str]:
    """Return steps that jump to ``met``, or to ``fail``, which is behind the rule's return."""
    low = _ARGS_OFFSET + 8 * condition.index
    high_value, low_value = condition.value >> 32, condition.value & 0xFFFFFFFF
    operator = condition.operator
    if operator in ("EQ", "NE", "MASKED_EQ"):
        yes, no = ("fail", met) if operator == "NE" else (met, "fail")
        steps: list[_Step | str] = []
        for offset, value, mask, equal in (
            (low + 4, high_value, condition.mask >> 32, ""),
            (low, low_value, condition.mask & 0xFFFFFFFF, yes),
        ):
            steps.append((_LOAD, offset, "", ""))
            if mask != 0xFFFFFFFF:
                steps.append((_AND, mask, "", ""))
            steps.append((_EQUAL, value, equal, no))
        return steps
    strict = operator in ("GT", "LE")
    above, below = (met, "fail") if operator in ("GT", "GE") else ("fail", met)
    return [
        (_LOAD, low + 4, "", ""),
        (_GREATER, high_value, above, ""),
        (_EQUAL, high_value, "", below),
        (_LOAD, low, "", ""),
        (_GREATER if strict else _AT_LEAST, low_value, above, below),
    ]


def _resolve(steps: Sequence[_Step | str]) -> list[bytes]:
    """Return the code with labels replaced by distances; ``fail`` is behind the instruction that follows the steps."""
    places: dict[str, int] = {}
    code: list[_Step] = []
    for step in steps:
        if isinstance(step, str):
            places[step] = len(code)
        else:
            code.append(step)
    places["fail"] = len(code) + 1
    return [
        _code(operation, value, *(places[label] - here - 1 if label else 0 for label in (yes, no)))
        for here, (operation, value, yes, no) in enumerate(code)
    ]


def _code(operation: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", operation, yes, no, value)


def warm_up() -> None:
    """Assemble the filter of most containers, so that processes forked from this one have it in their cache."""
    default_filter(capabilities.DEFAULT)
    default_filter(frozenset())
