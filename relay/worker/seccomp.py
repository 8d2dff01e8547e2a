"""A filter of system calls for processes that run upstream's code: what only attacks need answers EPERM.

A classic BPF program, set by ``prctl``; it is inherited, cannot be taken off, and needs no rights once no_new_privs is
set. Numbers are the kernel's, one table an architecture.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _ARG0 = 0, 4, 16
_NEW_NAMESPACES = 0x7E020000  # user, pid, net, ipc, uts, cgroup, mount

# name: (x86_64, aarch64)
REFUSED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # memory that is no process's: in no resident size, and with System V's left behind
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "syslog": (103, 116),
}
# of this process alone, which is 0: a test's parent is of the same user, and the next tests inherit what it has
OWN = {
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
}
_MACHINES = {"x86_64": (0, 0xC000003E, 56, 435), "aarch64": (1, 0xC00000B7, 220, 435)}
"""Column of the table, audit architecture, ``clone``, ``clone3``."""


def program(machine: str) -> bytes | None:
    """The filter as BPF instructions; None for a machine that is not known."""
    if machine not in _MACHINES:
        return None
    column, arch, clone, clone3 = _MACHINES[machine]
    deny, allow = _ERRNO | errno.EPERM, _ALLOW

    def op(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
        return struct.pack("=HBBI", code, true, false, value)

    code = [op(_LOAD, _ARCH), op(_EQUAL, arch, 1, 0), op(_RETURN, deny), op(_LOAD, _NUMBER)]
    if machine == "x86_64":  # calls of the x32 kind have the same architecture and numbers of their own
        code += [op(_AT_LEAST, 0x40000000, 0, 1), op(_RETURN, deny)]
    for number in sorted(numbers[column] for numbers in REFUSED.values()):
        code += [op(_EQUAL, number, 0, 1), op(_RETURN, deny)]
    for number in sorted(numbers[column] for numbers in OWN.values()):
        code += [op(_EQUAL, number, 0, 4), op(_LOAD, _ARG0), op(_EQUAL, 0, 0, 1), op(_RETURN, allow), op(_RETURN, deny)]
    # its flags lie in memory, which a filter cannot read: the C library then takes clone
    code += [op(_EQUAL, clone3, 0, 1), op(_RETURN, _ERRNO | errno.ENOSYS)]
    code += [op(_EQUAL, clone, 0, 3), op(_LOAD, _ARG0), op(_ANY_BIT, _NEW_NAMESPACES, 0, 1), op(_RETURN, deny)]
    code.append(op(_RETURN, allow))
    return b"".join(code)


def install() -> bool:
    """Puts the filter on this process and all it starts. Needs no_new_privs. False where it cannot be."""
    code = program(platform.machine())
    if code is None:
        return False
    held = ctypes.create_string_buffer(code, len(code))
    count = len(code) // 8
    argument = ctypes.create_string_buffer(struct.pack("@HxxxxxxP", count, ctypes.addressof(held)))
    return bool(_libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, argument, 0, 0) == 0)
