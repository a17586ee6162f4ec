"""Memory of DPDK frames: buffers (mbufs) with their metadata."""

from __future__ import annotations

from typing import Literal

HEADROOM_BYTES = 128
"""Bytes of an mbuf's data room before the frame (RTE_PKTMBUF_HEADROOM)."""

_OVERHEAD_BYTES = 256  # struct rte_mbuf (128), the pool's header (64), and padding
_RING_BYTES = 16  # a pool's ring holds a pointer to size mbuf; its length is a power of 2
_PAGE_BYTES = {"hugepages": 2 << 20, "no-huge": 4096}


def pool_megabytes(mbufs: int, data_bytes: int, memory: Literal["hugepages", "no-huge"]) -> int:
    """Return the size of a pool of mbufs in MB (of 1024 KiB), rounded up to an even number.
    `data_bytes` is the data room of an mbuf. An mbuf never crosses a page boundary: without
    hugepages, an mbuf of 2 KiB takes a page of 4 KiB."""
    size, page = data_bytes + _OVERHEAD_BYTES, _PAGE_BYTES[memory]
    if size > page:
        pages = mbufs * -(-size // page)
    else:
        pages = -(-mbufs // (page // size))
    return 2 * -(-(pages * page + mbufs * _RING_BYTES) // (2 << 20))
