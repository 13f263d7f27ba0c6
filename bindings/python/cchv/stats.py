# SPDX-License-Identifier: Apache-2.0
"""Numbers measured at one moment, as a dict from dotted name to value; see cchv/stats.h for the names."""
from . import _ffi


class Stats(dict):
    """time_ns is when the numbers were taken, in nanoseconds since the epoch."""

    time_ns = 0


def take(pointer):
    """Copy a cchv_stats into a dict, and free it."""
    library = _ffi.lib()
    try:
        stats = Stats((_ffi.to_str(library.cchv_stats_get_name(pointer, i)), library.cchv_stats_get_value(pointer, i))
                      for i in range(library.cchv_stats_get_count(pointer)))
        stats.time_ns = library.cchv_stats_get_time(pointer)
        return stats
    finally:
        library.cchv_stats_free(pointer)
