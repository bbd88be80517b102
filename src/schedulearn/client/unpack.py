"""What comes back from a job stays in the folder that it is brought into."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from schedulearn.archive.extract import OPEN_FOLDER, Extractor
from schedulearn.archive.reader import FOLDER, HARD_LINK, BadArchive, Reader, inside
from schedulearn.archive.rules import Members
from schedulearn.client.errors import ClientError

if TYPE_CHECKING:
    from schedulearn.archive.reader import Source


def unpack(source: "Source", folder: Path) -> list[Path]:
    """The files and links that were written. ClientError if something in it is no file, folder or link, or leads out.

    No link is followed, be it from the archive or one that lay in the folder before. Owners and odd bits are dropped.
    """
    written, members = [], Members()
    opened = os.open(folder, OPEN_FOLDER & ~os.O_NOFOLLOW)  # the folder itself is the caller's choice
    try:
        with Extractor(opened) as extractor:
            reader = Reader(source)
            for member in reader:
                parts = members.check(member)
                target = inside(member.target) if member.kind is HARD_LINK else ()
                mode = member.mode & 0o755 | (0o700 if member.kind is FOLDER else 0o600)
                extractor.add(member, parts, target, mode, reader.read)
                if member.kind is not FOLDER:
                    written.append(folder.joinpath(*parts))
            members.finish()
    except BadArchive as error:
        raise ClientError(f"{error}; nothing more was fetched") from error
    finally:
        os.close(opened)
    return written
