"""Root opens the door and leaves: the process becomes an ordinary user before it opens anything."""

from __future__ import annotations

import logging
import os
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..listen_address import SettingsError
from ..settings import Settings

try:
    import grp
    import pwd
except ImportError:  # not on Windows
    grp = pwd = None  # type: ignore[assignment]

LOW_PORT_MAX = 1023
"""Number of the highest port that only root, or a process with the capability below, can open."""

_NET_BIND_SERVICE = 10
"""CAP_NET_BIND_SERVICE, to open low ports: a worker that is restarted, and a node that is undrained, do so again."""

_KEEP_CAPABILITIES, _NO_NEW_PRIVILEGES = 8, 38  # PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS
_CAPABILITIES_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3

log = logging.getLogger("fastpath.server")


def drop(settings: Settings) -> None:
    """Become ``settings.user`` for good, if one is named; raises SettingsError.

    The folders that the sidecar writes are made and given to that user before.
    """
    if not settings.user:
        return
    if pwd is None:
        raise SettingsError("FASTPATH_USER: this system has no users to become; leave it empty")
    if os.geteuid() != 0:
        if pwd.getpwuid(os.geteuid()).pw_name == settings.user:
            return
        raise SettingsError(f"FASTPATH_USER: only root can become {settings.user}; leave it empty")
    try:
        entry = pwd.getpwnam(settings.user)
    except KeyError:
        raise SettingsError(f"FASTPATH_USER: there is no user {settings.user}") from None
    if entry.pw_uid == 0:
        raise SettingsError("FASTPATH_USER: root is no ordinary user")
    low = sys.platform == "linux" and any(0 < one.port <= LOW_PORT_MAX for one in settings.listeners)
    kernel = _Kernel()
    try:
        journal = settings.data if settings.journal != "off" else ""
        for folder in filter(None, (journal, _audit_folder(settings), _log_folder(settings))):
            give_folder(Path(folder), entry.pw_uid, entry.pw_gid)
        if low:
            kernel.prctl(_KEEP_CAPABILITIES, 1)
        os.setgroups(os.getgrouplist(entry.pw_name, entry.pw_gid))
        if hasattr(os, "setresuid"):
            os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
            os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
        else:  # macOS, where root sets all three by these
            os.setgid(entry.pw_gid)
            os.setuid(entry.pw_uid)
        if low:
            kernel.keep_only(1 << _NET_BIND_SERVICE)
        if sys.platform == "linux":
            kernel.prctl(_NO_NEW_PRIVILEGES, 1)
    except OSError as error:
        raise SettingsError(f"FASTPATH_USER: cannot become {settings.user}: {error}") from None
    _prove()
    os.environ["HOME"] = entry.pw_dir
    if not os.access(logging.__file__, os.R_OK):
        log.warning("%s cannot read Python's library in %s", settings.user, Path(logging.__file__).parent.parent)
    log.info("running as %s (%s)", settings.user, grp.getgrgid(entry.pw_gid).gr_name)


def warn() -> None:
    """Tell the operator that root serves."""
    if pwd is not None and os.geteuid() == 0:
        log.warning("running as root: name an ordinary user with FASTPATH_USER")


def _audit_folder(settings: Settings) -> str:
    return settings.audit_folder if settings.audit else ""


def _log_folder(settings: Settings) -> str:
    """Return the folder of the log's file if it is to be made; one that exists may be everybody's, such as /var/log."""
    folder = Path(settings.log_file).parent
    return str(folder) if settings.log_file and not folder.exists() else ""


def give_folder(folder: Path, uid: int, gid: int) -> None:
    """Make the folder, and give it with the files in it to the user; raises SettingsError for one behind a link.

    What is above it or in it may be in the user's hands since the last start. So no link is followed on the way, and
    what is given is what was looked at: a file with a second name may be one that lies elsewhere, and is left.
    """
    held = _open_folder(folder)
    try:
        os.fchown(held, uid, gid)
        for name in os.listdir(held):
            if _is_plain(os.stat(name, dir_fd=held, follow_symlinks=False)):  # opening a pipe or device would do harm
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=held)
                try:
                    if _is_plain(os.fstat(file)):
                        os.fchown(file, uid, gid)
                finally:
                    os.close(file)
    finally:
        os.close(held)


def _open_folder(folder: Path) -> int:
    """Open the folder part by part, and make it where it is missing; raise SettingsError where a part is a link."""
    here = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    for part in folder.absolute().parts[1:]:
        above = here
        try:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=above)
            if stat.S_ISLNK(os.stat(part, dir_fd=above, follow_symlinks=False).st_mode):
                raise SettingsError(
                    f"FASTPATH_USER: {folder} lies behind the link {part}, and root gives nothing away there: "
                    f"name the folder itself, {folder.resolve()}"
                )
            here = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        finally:
            os.close(above)
    return here


def _is_plain(status: os.stat_result) -> bool:
    """Return whether the path is a folder, or a file that has no other name."""
    return stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)


class _Kernel:
    """Two system calls that Python has no function for; loaded while root can still read everything."""

    def __init__(self) -> None:
        import ctypes  # noqa: PLC0415 - nobody but root needs it

        self._libc = ctypes.CDLL(None, use_errno=True)
        self._errno = ctypes.get_errno

    def prctl(self, option: int, value: int) -> None:
        """Call prctl(2); raises OSError."""
        self._check(self._libc.prctl(option, value, 0, 0, 0), f"prctl {option}")

    def keep_only(self, capabilities: int) -> None:
        """Keep only these bits of what root may do, in this process and those that it forks; raises OSError.

        A program that it starts has nothing of it.
        """
        header = struct.pack("=Ii", _CAPABILITIES_VERSION, 0)
        # effective, permitted and inheritable, first their low halves, then the high ones
        data = struct.pack("=6I", capabilities, capabilities, 0, 0, 0, 0)
        self._check(self._libc.capset(header, data), "capset")

    def _check(self, result: Any, call: str) -> None:
        if result != 0:
            raise OSError(self._errno(), f"{call}: {os.strerror(self._errno())}")


def _prove() -> None:
    """Prove that there is no way back to root; raises SettingsError where there is one after all."""
    try:
        os.setuid(0)
    except PermissionError:
        return
    raise SettingsError("FASTPATH_USER: the process could become root again")
