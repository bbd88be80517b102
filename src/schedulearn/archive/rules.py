"""Where the members of an archive from outside may lie, and where their links may lead."""

from __future__ import annotations

from schedulearn.archive.reader import FOLDER, HARD_LINK, LINK, MOST_DEPTH, SPECIAL, Member, Refused, inside, shown

_MOST_HOPS = 40  # as many links as a kernel follows
_MOST_STEPS = 5_000_000  # of all links together: each may lead through all the others
_READ, _LOOK_INTO = 0o4, 0o5


class Members:
    """Looks at the members of an archive in turn, in their order."""

    def __init__(self) -> None:
        self._links: dict[str, str] = {}
        self._files: set[str] = set()
        self._folders = {""}
        self._steps = 0

    def check(self, member: Member) -> tuple[str, ...]:
        """The parts of its path. Refused unless it is a file, a folder or a link inside, reached through no link."""
        parts = inside(member.name)
        path = "/".join(parts)
        if member.kind is SPECIAL:
            raise Refused(f"{shown(member.name)} is no file, folder or link")
        self._enter(parts[:-1], member.name)
        if path in self._links:
            raise Refused(f"{shown(member.name)} goes through a link")
        if path in (self._files if member.kind in (FOLDER, LINK) else self._folders) or (
            member.kind is LINK and path in self._folders
        ):
            raise Refused(f"{shown(member.name)} is two things at once")
        self._add(member, path)
        return parts

    def _enter(self, parts: tuple[str, ...], name: str) -> None:
        """Everything above it is a folder."""
        if "/".join(parts) in self._folders:
            return
        for length in range(1, len(parts) + 1):
            path = "/".join(parts[:length])
            if path in self._links or path in self._files:
                raise Refused(f"{shown(name)} goes through a link or a file")
            self._folders.add(path)

    def _add(self, member: Member, path: str) -> None:
        if member.kind is FOLDER:
            self._folders.add(path)
        elif member.kind is LINK:
            self._add_link(path, member.target)
        elif member.kind is HARD_LINK and "/".join(inside(member.target)) not in self._files:
            raise Refused(f"{shown(member.name)} links to nothing in it")
        else:
            self._files.add(path)

    def finish(self) -> None:
        """Once all are known: Refused if a link leads out through others."""
        for link in self._links:
            self._follow(link)

    def _add_link(self, path: str, target: str) -> None:
        self._links[path] = target
        self._follow(path, through_others=False)

    def _follow(self, link: str, through_others: bool = True) -> None:
        """A link may go up, but not out; one that leads in circles leads nowhere."""
        here = link.split("/")[:-1]
        waiting = _steps(link, self._links[link])
        hops = 0
        while waiting:
            step = waiting.pop()
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise Refused("its links are too many, or lead through too many others")
            if step == "..":
                if not here:
                    raise Refused(f"the link {shown(link)} leads outside of it")
                here.pop()
                continue
            here.append(step)
            if len(here) > MOST_DEPTH:  # nothing lies there
                return
            path = "/".join(here)
            if through_others and path in self._links:
                hops += 1
                if hops > _MOST_HOPS:
                    return
                here.pop()
                waiting += _steps(link, self._links[path])


class Readable:
    """Looks at members in turn: could this user read them? Not if a folder around one is closed to it.

    An engine reads as root, and links that a job or its image has made may have led it to files of others.
    """

    def __init__(self, uid: int, gid: int) -> None:
        self._uid, self._gid = uid, gid
        self._closed: set[str] = set()  # folders

    def __call__(self, member: Member) -> bool:
        path = "/".join(inside(member.name))
        if self._may_read(member) and not self._is_in_closed(path):
            return member.kind is not HARD_LINK or not self._is_in_closed("/".join(inside(member.target)))
        if member.kind is FOLDER:
            self._closed.add(path)
        return False

    def _may_read(self, member: Member) -> bool:
        if member.kind is LINK or member.uid == self._uid:
            return True
        bits = member.mode >> 3 if member.gid == self._gid else member.mode
        needed = _LOOK_INTO if member.kind is FOLDER else _READ
        return bits & needed == needed

    def _is_in_closed(self, path: str) -> bool:
        if not self._closed:
            return False
        parts = path.split("/")
        return any("/".join(parts[:length]) in self._closed for length in range(len(parts)))


def _steps(link: str, target: str) -> list[str]:
    """Last one first."""
    if target.startswith("/"):
        raise Refused(f"the link {shown(link)} leads outside of it")
    return [part for part in reversed(target.split("/")) if part not in ("", ".")]
