"""Drops a process's rights before it loads an untrusted model.

Afterwards it computes and replies on its open connections: it opens no file for writing and no socket, starts no
process, affects no other one, changes no name, owner or mode of a file, locks none, and its memory is bounded. Its
processor time is bounded, too; if it resists, its parent kills it. It can still read files and report to its parent.
All of its threads are bound by the same rules.

``child.py`` runs this file as a script: it imports only the standard library. System calls are refused by a filter
(seccomp) that Linux has on x86-64, the only machine that TensorFlow Lite Micro's wheel supports; elsewhere, and where
the kernel refuses the filter, only limits apply, and ``confine`` reports it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import struct
import sys

MEMORY = 3 << 30
"""Bytes a runtime may use beyond its own code: the largest arena, the largest file three times, and a margin."""
LOG = 1 << 24
"""Most bytes of a file it may write: its log."""

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP, _SET_MODE_FILTER, _OF_ALL_THREADS = 317, 1, 1
_X86_64 = 0xC000003E
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16
_FOREIGN_NUMBERS = 0x40000000

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CLONE_THREAD = 0x10000

# Numbers of system calls on x86-64, a fact of its kernel interface.
_REFUSED = (
    *(41, 42, 43, 49, 50, 53, 288),  # socket connect accept bind listen socketpair accept4
    *(57, 58, 59, 322, 101, 310, 311, 312, 434, 256, 279),  # fork … execveat ptrace process_vm_* kcmp move_pages
    *(129, 200, 297, 424),  # signals: rt_sigqueueinfo tkill rt_tgsigqueueinfo pidfd_send_signal
    *(109, 112, 141, 142, 144, 203, 251, 314),  # setpgid setsid setpriority sched_set* ioprio_set
    *(82, 83, 84, 85, 86, 87, 88, 133, 258, 259, 263, 264, 265, 266, 316),  # rename mkdir … creat link unlink …at
    *(76, 90, 91, 92, 93, 94, 132, 235, 260, 261, 268, 280),  # truncate chmod chown utime, and the like
    *(188, 189, 190, 197, 198, 199),  # attributes of files
    *(103, 153, 155, 159, 161, *range(163, 174), 175, 176, 179, 227, 246, 272),  # the system: mount reboot modules …
    *(298, 304, 305, 308, 313, 320, 321, 323, *range(428, 434)),  # the same, newer
    *(105, 106, 113, 114, 116, 117, 119, 122, 123, 126),  # setuid … setgroups capset
    *(73, 300, 301),  # flock fanotify_*: other processes would wait
    *(134, 135, 154, 156, 174, 180),  # uselib personality modify_ldt _sysctl create_module nfsservctl
    *(29, 30, 31, 64, 65, 66, 68, 69, 70, 71, 220, 240, 241, 248, 249, 250),  # shm* sem* msg* mq_* keys
    319,  # memfd_create: its pages are in no limit
)
_UNKNOWN = (425, 426, 427, 435)  # io_uring_* clone3: missing as on an older kernel, so libraries do without
_NEWER_THAN_KNOWN = 437  # openat2 and all later calls: likewise
_OPEN, _OPENAT, _CLONE, _KILL_CALL, _TGKILL, _FCNTL, _IOCTL = 2, 257, 56, 62, 234, 72, 16
_PRCTL, _SET_LIMIT, _LIMITS = 157, 160, 302
_NAMING = (15, 16, 0x53564D41)  # PR_SET_NAME PR_GET_NAME PR_SET_VMA: used by libraries
_SET_OWNER = (8, 10, 15, 1024, 1026)  # F_SETOWN F_SETSIG F_SETOWN_EX F_SETLEASE F_NOTIFY: files that send signals
_SET_LOCK = (6, 7, 37, 38)  # F_SETLK F_SETLKW F_OFD_SETLK F_OFD_SETLKW
_CPU_SECONDS = 0  # RLIMIT_CPU
_QUERIES = (0x5401, 0x5413, 0x541B, 0x5450, 0x5451)  # TCGETS TIOCGWINSZ FIONREAD FIONCLEX FIOCLEX


def confine() -> str:
    """Drop all rights that this process no longer needs, for good.

    Returns:
        The protections that are missing on this machine, in words; empty if there are none.
    """
    _limit_resources()
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"there is no filter of system calls for {platform.machine()} with {platform.system()}"
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return f"the kernel refuses to drop rights ({os.strerror(ctypes.get_errno())})"
    code = _filter()
    program = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(program))
    # All threads: one that a library started before would keep all rights.
    done = library.syscall(*map(ctypes.c_long, (_SECCOMP, _SET_MODE_FILTER, _OF_ALL_THREADS)), described)
    if done != 0:
        reason = os.strerror(ctypes.get_errno()) if done < 0 else f"thread {done} has another one"
        return f"the kernel takes no filter of system calls ({reason})"
    return ""


def _limit_resources() -> None:
    if sys.platform == "win32":  # no process is confined there, see ``worker.py``
        return

    import resource

    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: LOG, resource.RLIMIT_NOFILE: 256}
    # AddressSanitizer reserves terabytes of addresses, and only Linux reports a process's count.
    if sys.platform == "linux" and "ASAN_OPTIONS" not in os.environ:
        limits[resource.RLIMIT_AS] = _address_space() + MEMORY
    for what, most in limits.items():
        resource.setrlimit(what, (most, most))


def _address_space() -> int:
    with open("/proc/self/statm") as sizes:  # noqa: PTH123 (no more imports than needed)
        return int(sizes.read().split()[0]) * mmap.PAGESIZE


def allow_seconds(seconds: float) -> None:
    """End this process after so many more seconds of processor time."""
    if sys.platform == "win32":  # no process is confined there, see ``worker.py``
        return

    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime + seconds) + 2, most))


def _filter() -> bytes:
    """Return classic BPF, eight bytes an instruction; the first rule that fits a call decides."""
    refuse, unknown = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
    code = [
        _instruction(_LOAD, _MACHINE_AT),
        _instruction(_EQUAL, _X86_64, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER_AT),
        _instruction(_AT_LEAST, _FOREIGN_NUMBERS, 0, 1),
        _instruction(_RETURN, refuse),
        _instruction(_AT_LEAST, _NEWER_THAN_KNOWN, 0, 1),
        _instruction(_RETURN, unknown),
    ]
    for number in _REFUSED:
        code += [_instruction(_EQUAL, number, 0, 1), _instruction(_RETURN, refuse)]
    for number in _UNKNOWN:
        code += [_instruction(_EQUAL, number, 0, 1), _instruction(_RETURN, unknown)]
    not_written, of_a_thread = _instruction(_ANY_BIT, _WRITING, 1, 0), _instruction(_ANY_BIT, _CLONE_THREAD, 0, 1)
    for number, argument in ((_OPEN, 1), (_OPENAT, 2)):
        code += _only(number, argument, [not_written], refuse)
    code += _only(_CLONE, 0, [of_a_thread], refuse)
    for number in (_KILL_CALL, _TGKILL):  # abort() is a signal to oneself
        code += _only(number, 0, [_instruction(_EQUAL, os.getpid(), 0, 1)], refuse)
    code += _only(_SET_LIMIT, 0, [_instruction(_EQUAL, _CPU_SECONDS, 0, 1)], refuse)
    code += _limits(refuse)
    code += _only(_PRCTL, 0, [_instruction(_EQUAL, request, 0, 1) for request in _NAMING], refuse)
    code += _only(_IOCTL, 1, [_instruction(_EQUAL, request, 0, 1) for request in _QUERIES], refuse)
    code += _never(_FCNTL, 1, (*_SET_OWNER, *_SET_LOCK), refuse)
    return b"".join([*code, _instruction(_RETURN, _ALLOW)])


def _only(number: int, argument: int, tests: list[bytes], refused: int) -> list[bytes]:
    """Return rules for one call: allowed if one of the tests on the low half of an argument holds, else refused."""
    answers = [line for test in tests for line in (test, _instruction(_RETURN, _ALLOW))]
    return _of_call(number, argument, [*answers, _instruction(_RETURN, refused)])


def _never(number: int, argument: int, values: tuple[int, ...], refused: int) -> list[bytes]:
    """Return rules for one call: refused if the low half of an argument has one of these values."""
    answers = [line for value in values for line in (_instruction(_EQUAL, value, 0, 1), _instruction(_RETURN, refused))]
    return _of_call(number, argument, [*answers, _instruction(_RETURN, _ALLOW)])


def _limits(refused: int) -> list[bytes]:
    """Return rules that allow prlimit64 to read this process's limits and to set that of processor time."""

    def argument(at: int, high: bool = False) -> bytes:
        return _instruction(_LOAD, _ARGUMENTS_AT + 8 * at + 4 * high)

    answers = [
        _instruction(_EQUAL, 0, 0, 7),
        argument(1),
        _instruction(_EQUAL, _CPU_SECONDS, 4, 0),
        argument(2),
        _instruction(_EQUAL, 0, 0, 3),
        argument(2, high=True),
        _instruction(_EQUAL, 0, 0, 1),
        _instruction(_RETURN, _ALLOW),
        _instruction(_RETURN, refused),
    ]
    return _of_call(_LIMITS, 0, answers)


def _of_call(number: int, argument: int, answers: list[bytes]) -> list[bytes]:
    load = _instruction(_LOAD, _ARGUMENTS_AT + 8 * argument)
    return [_instruction(_EQUAL, number, 0, 1 + len(answers)), load, *answers]


def _instruction(code: int, value: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, jump_true, jump_false, value)
