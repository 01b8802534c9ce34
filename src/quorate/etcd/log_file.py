"""Which member an etcd log belongs to: its first records name the member and the cluster, and etcd takes its own IDs from nowhere else.

Each file of the log begins with a record of the running checksum and one of metadata, before any entry. A record is framed by eight bytes: the lower seven
are its length, the highest one says how many bytes of padding follow it.
Source: etcd 3.6, server/storage/wal: wal.go (Create, cut), decoder.go (decodeFrameSize), walpb/record.proto; etcdserverpb/etcdserver.proto, Metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

HEAD = 56
"""Bytes at the beginning of a file in which both records lie whole. No key and no value is among them: entries come later."""

_METADATA, _CHECKSUM = 1, 4
_TYPE, _DATA = 1, 3
_MEMBER, _CLUSTER = 1, 2
_VARINT, _BYTES = 0, 2


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """The member and the cluster that a log is of, by etcd's ids."""

    member_id: int
    cluster_id: int


def identity(head: bytes) -> LogIdentity:
    """Whose the log is that begins with these bytes. Raises ValueError where they are not the beginning of one."""
    position = 0
    for expected in (_CHECKSUM, _METADATA):
        frame = int.from_bytes(head[position : position + 8], "little")
        length, padding = frame & (1 << 56) - 1, (frame >> 56) & 7
        record = dict(_fields(head[position + 8 : position + 8 + length], length))
        if record.get(_TYPE) != expected:
            raise ValueError("it does not begin as etcd's log does")
        position += 8 + length + padding
    metadata = record.get(_DATA)
    found = dict(_fields(metadata, len(metadata))) if isinstance(metadata, bytes) else {}
    member, cluster = found.get(_MEMBER), found.get(_CLUSTER)
    if not (isinstance(member, int) and isinstance(cluster, int) and member and cluster):
        raise ValueError("it names no member and no cluster")
    return LogIdentity(member, cluster)


def _fields(message: bytes, length: int) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message by number. Only of the two kinds that these records have."""
    if len(message) != length or not length:
        raise ValueError("it is cut off")
    position = 0
    while position < length:
        key, position = _varint(message, position)
        value, position = _varint(message, position)
        if key & 7 == _VARINT:
            yield key >> 3, value
        elif key & 7 == _BYTES and position + value <= length:
            yield key >> 3, message[position : position + value]
            position += value
        else:
            raise ValueError("it has a field that etcd's log does not have")


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """The number at a position, seven bits a byte, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            break
        byte = message[position]
        value |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return value, position
    raise ValueError("a number in it is cut off")
