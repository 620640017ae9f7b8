# SPDX-License-Identifier: BSD-3-Clause
"""Ask a running uroced by DPDK's telemetry socket."""

import json
import os
import socket

from . import LabError

GREETING_BYTES = 1024
SECONDS = 10
SOCKET_PATH_MAX = 107       # sun_path, with its end


def eal_folder(lab, host, prefix):
    """Where EAL of a daemon with this --file-prefix has its files."""
    return os.path.join('/var/run' if lab['telemetry'] and os.geteuid() == 0 else host['dir'], 'dpdk', prefix)


def socket_path(lab, host, prefix):
    """Where the daemon's telemetry listens, or None if that is too long for a socket."""
    path = os.path.join(eal_folder(lab, host, prefix), 'dpdk_telemetry.v2')
    return path if len(path) <= SOCKET_PATH_MAX else None


def ask(lab, host, command):
    """@return the answer to `command`, for example /uroce/impair,uroce0"""
    if lab.get('one_process') and host['index'] > 1:
        command = command.replace('/uroce/', f'/uroce{host["index"]}/', 1)
    path = host['telemetry']
    if path is None:
        raise LabError(f'{host["dir"]} is too long for a telemetry socket; set XDG_RUNTIME_DIR to a shorter folder')
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(SECONDS)
        try:
            s.connect(path)
            greeting = json.loads(s.recv(GREETING_BYTES))
            s.send(command.encode())
            answer = json.loads(s.recv(greeting['max_output_len']))[command.partition(',')[0]]
        except (OSError, ValueError, KeyError) as e:
            raise LabError(f'uroced of {host["name"]} does not answer {command} at {path}: {e}') from e
    if isinstance(answer, dict) and 'error' in answer and 'reloads' not in answer:
        raise LabError(f'{command}: {"".join(answer["error"])}')
    return answer
