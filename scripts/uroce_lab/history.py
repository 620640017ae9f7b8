# SPDX-License-Identifier: BSD-3-Clause
"""What the QPs of a lab did over time. Daemons keep no history, so it is sampled from their telemetry sockets."""

import contextlib
import json
import socket
import threading
import time

from . import LabError

SUFFIX = '.telemetry'       # behind the daemon's socket for programs
GREETING_BYTES = 1024
SECONDS = 5                 # that a daemon may take for an answer
# What is kept of a QP's row: who it is, and what is sampled.
IDENTITY = ('program', 'pid', 'type', 'peer', 'peer_qpn')
SAMPLED = ('tx_bytes', 'rx_bytes', 'tx_packets', 'losses', 'retransmitted', 'srtt_ns', 'cwnd', 'in_flight')
WRAPS = {'losses': 1 << 32, 'retransmitted': 1 << 32}


class Daemon:
    """A connection to the telemetry socket of one host's daemon."""

    def __init__(self, host):
        self.host, self.path = host, host['socket'] + SUFFIX
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(SECONDS)
        try:
            self.socket.connect(self.path)
            self.bytes = json.loads(self.socket.recv(GREETING_BYTES))['max_output_len']
        except (OSError, ValueError, KeyError) as e:
            self.socket.close()
            raise LabError(f'{self.path}: uroced of {host["name"]} has no telemetry: {e}') from e

    def close(self):
        self.socket.close()

    def ask(self, command):
        try:
            self.socket.send(command.encode())
            answer = json.loads(self.socket.recv(self.bytes))
        except (OSError, ValueError) as e:
            raise LabError(f'uroced of {self.host["name"]} does not answer {command}: {e}') from e
        value = next(iter(answer.values()), None)
        if not isinstance(value, dict) or 'error' in value:
            raise LabError(f'{command}: {value}')
        return value

    def qps(self):
        """@return a dictionary for each QP"""
        rows, start = [], 0
        while True:
            page = self.ask('/uroce/rows,qp' + (f',from={start}' if start else ''))
            rows += [dict(zip(page['columns'], row)) for row in page['rows']]
            start = page['next']
            if not start:
                return rows


class Recorder:
    """Samples all hosts of a lab in a thread, until the end of a with block."""

    def __init__(self, hosts, interval):
        self.interval, self.ended = interval, threading.Event()
        self.daemons = [Daemon(host) for host in hosts]
        self.qps, self.times, self.problem = {}, [], None
        self.start, self.thread = time.monotonic(), threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join(SECONDS * (len(self.daemons) + 1))
        for daemon in self.daemons:
            daemon.close()

    def _run(self):
        at = self.start
        while True:
            try:
                self._sample()
            except LabError as e:
                # The rest of the report is still worth something.
                self.problem = str(e)
                return
            at = max(at + self.interval, time.monotonic())
            if self.ended.wait(max(at - time.monotonic(), 0)):
                with contextlib.suppress(LabError):
                    self._sample()
                return

    def _sample(self):
        for daemon in self.daemons:
            rows, now = daemon.qps(), round(time.monotonic() - self.start, 4)
            for row in rows:
                key = daemon.host['name'], row['number'], row['session']
                if key in self.qps and row['tx_bytes'] < self.qps[key]['samples'][-1][1]:
                    # Another QP with the same number.
                    self.qps[(*key, len(self.qps))] = self.qps.pop(key)
                own = self.qps.setdefault(key, {'samples': []})
                if not own['samples'] and self.times:
                    # It was made since the last look, and began at 0.
                    own['samples'].append([self.times[-1], *(0 for _ in SAMPLED)])
                # A QP that isn't connected yet names no peer.
                if row['peer'] or 'program' not in own:
                    own.update({name: row[name] for name in IDENTITY})
                own['samples'].append([now, *(row[name] for name in SAMPLED)])
        self.times.append(now)

    def history(self):
        """@return everything, as it is written to history.json"""
        qps = [{'host': host, 'qpn': number, **{name: own[name] for name in IDENTITY}, 'samples': own['samples']}
               for (host, number, *_), own in self.qps.items()]
        return {'version': 1, 'interval': self.interval, 'seconds': self.times[-1] if self.times else 0.0, 'columns': ['seconds', *SAMPLED],
                'qps': qps, 'problem': self.problem}


def series(qp, columns, name):
    """@return (times, values) of a column of a QP"""
    at = columns.index(name)
    return [sample[0] for sample in qp['samples']], [sample[at] for sample in qp['samples']]


def rates(qp, columns, name):
    """@return (times, values per second) of a counter of a QP, between two samples each"""
    times, values = series(qp, columns, name)
    wrap = WRAPS.get(name, 1 << 64)
    pairs = [(b, (y - x) % wrap / (b - a)) for a, b, x, y in zip(times, times[1:], values, values[1:]) if b > a]
    return [time_ for time_, _ in pairs], [rate for _, rate in pairs]


def growth(qp, columns, name):
    """@return by how much a counter of a QP grew"""
    _, values = series(qp, columns, name)
    return (values[-1] - values[0]) % WRAPS.get(name, 1 << 64) if values else 0
