"""Errors that a person can mend: the launcher prints them as one line and exits with code 2."""

import contextlib
import errno
from collections.abc import Iterator

# A file where a folder should be or the reverse, missing rights, a disk or name that takes none.
_IN_THE_WAY = (
    errno.EEXIST,
    errno.ENOENT,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)


class InputError(ValueError):
    """A flag, file or folder is unusable as given; the message names it and the remedy."""


class BankExistsError(InputError, FileExistsError):
    """A complete bank is already stored; banks are never overwritten."""


@contextlib.contextmanager
def naming(subject: str, remedy: str = "") -> Iterator[None]:
    """Turns a `ValueError` or `OSError` of the body into an `InputError` that names `subject`.

    Args:
        subject: the flag or file at fault, such as "--reference".
        remedy: what to do about it, appended in brackets.
    """
    try:
        yield
    except InputError:
        raise
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        hint = f" ({remedy})" if remedy else ""
        raise InputError(f"{subject}: {one_line(error)}{hint}") from error


@contextlib.contextmanager
def usable_files() -> Iterator[None]:
    """Turns what a person finds in the way of a run's files into an `InputError` that names it."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        if error.errno not in _IN_THE_WAY:
            raise
        where = error.filename or "a file of the run"
        raise InputError(
            f"{where}: {error.strerror}; move it away, change its rights or name another --workdir"
        ) from error


def one_line(error: BaseException) -> str:
    """The message of an error on a single line."""
    return " ".join(str(error).split()) or type(error).__name__


def disk_full(error: OSError) -> bool:
    """Whether an `OSError` says that a disk or quota is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
