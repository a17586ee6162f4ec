"""This module knows what frames of DPDK take of memory: its buffers (mbufs), with all that lies
around them."""

from __future__ import annotations

from typing import Literal

HEADROOM_BYTES = 128
"""Of an mbuf's data room, before the frame (RTE_PKTMBUF_HEADROOM)."""

_OVERHEAD_BYTES = 256  # struct rte_mbuf (128), the pool's header (64), and padding
_RING_BYTES = 16  # a pool's ring holds a pointer to each mbuf; its length is a power of 2
_PAGE_BYTES = {"hugepages": 2 << 20, "no-huge": 4096}


def pool_megabytes(mbufs: int, data_bytes: int, memory: Literal["hugepages", "no-huge"]) -> int:
    """Return the MB (of 1024 KiB) of a pool of mbufs, each with a data room of so many bytes: an
    even number. No mbuf lies across two pages: one of 2 KiB has a page of 4 KiB to itself, where
    there are no hugepages."""
    each, page = data_bytes + _OVERHEAD_BYTES, _PAGE_BYTES[memory]
    if each > page:
        pages = mbufs * -(-each // page)
    else:
        pages = -(-mbufs // (page // each))
    return 2 * -(-(pages * page + mbufs * _RING_BYTES) // (2 << 20))
