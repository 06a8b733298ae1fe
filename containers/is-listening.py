"""Whether a process of this container listens, or talks, on ROLLCALL_PORT; no connection is made, because a trainer takes only one."""

import os
import sys

LISTEN, ESTABLISHED = "0A", "01"
port = f"{int(os.environ['ROLLCALL_PORT']):04X}"
for table in ("/proc/net/tcp", "/proc/net/tcp6"):
    with open(table) as lines:
        for line in list(lines)[1:]:
            _, local, _, state, *_ = line.split()
            if local.endswith(f":{port}") and state in (LISTEN, ESTABLISHED):
                sys.exit(0)
sys.exit(f"nobody listens on port {os.environ['ROLLCALL_PORT']}")
