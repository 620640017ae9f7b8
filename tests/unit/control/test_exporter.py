#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What Prometheus gets from a running uroced: correct in form, and every counter of docs/counters.md in it. The dashboard for Grafana and the
alerts ask for metrics that there are, by labels that they have.

  test_exporter.py UROCED docs/counters.md
"""

import contextlib
import glob
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../../lib/control/observe'))

from counter_help import rows  # noqa: E402

START_SECONDS = 60
NAME = r'[a-zA-Z_:][a-zA-Z0-9_:]*'
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf'({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? ([0-9]+)\n')
TYPES = ('counter', 'gauge', 'histogram', 'summary', 'untyped')


def fetch(path, request=b'GET /metrics HTTP/1.1\r\nHost: uroce\r\n\r\n'):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(10)
        s.connect(path)
        s.sendall(request)
        data = b''
        while part := s.recv(65536):
            data += part
    head, _, body = data.partition(b'\r\n\r\n')
    return head.decode(), body.decode()


def check(text):
    """The text format's rules, as promtool has them. @return {metric: {labels: value}}"""
    assert text.endswith('\n'), 'the last line must end'
    metrics, helps, types, current = {}, {}, {}, None
    for line in text.splitlines(keepends=True):
        if line.startswith('# HELP '):
            name, said = re.fullmatch(rf'# HELP ({NAME}) (.+)\n', line).groups()
            assert name not in helps, f'{name} has two HELPs'
            helps[name], current = said, name
        elif line.startswith('# TYPE '):
            name, kind = re.fullmatch(rf'# TYPE ({NAME}) (\w+)\n', line).groups()
            assert name == current and kind in TYPES and name not in types, line
            types[name] = kind
            metrics[name] = {}
        else:
            found = SAMPLE.fullmatch(line)
            assert found, f'no sample: {line!r}'
            name, labels, value = found.groups()
            assert name == current and name in types, f'{name} is not with its HELP and TYPE'
            assert labels not in metrics[name], f'{line!r} is there twice'
            assert types[name] != 'counter' or name.endswith('_total'), f'counter {name} must end with _total'
            assert types[name] == 'counter' or not name.endswith('_total'), f'{name} is no counter'
            metrics[name][labels] = int(value)
    for name, samples in metrics.items():
        assert samples, f'{name} has no sample'
    return metrics, helps


def start(uroced, folder, metrics):
    control = os.path.join(folder, 'uroced.sock')
    child = subprocess.Popen(
        [uroced, '--lcores', '0@0,1@0', '--no-huge', '-m', '128', '--no-pci', '--no-telemetry', '--no-shconf', '--file-prefix',
         f'uroce-test-{os.getpid()}', '--vdev', 'net_null0', '--', '--socket', control, '--set',
         'port uroce0.ethdev=net_null0', '--set', 'port uroce0.addresses=198.18.0.1/24', '--set', f'daemon.metrics={metrics}'],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end = time.monotonic() + START_SECONDS
    while not os.path.exists(control):
        assert child.poll() is None and time.monotonic() < end, child.communicate()[0]
        time.sleep(0.02)
    return child


class Dribble(threading.Thread):
    """A client whose request never ends, though a byte of it comes all the time; until the daemon hangs up."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(path)

    def run(self):
        with self.sock, contextlib.suppress(OSError):
            while True:
                self.sock.send(b'x')
                time.sleep(0.2)


def refused(uroced, folder, value):
    """What uroced says to a wrong key, before it starts anything."""
    done = subprocess.run([uroced, '--', '--socket', os.path.join(folder, 's'), '--set', 'port uroce0.ethdev=net_null0', '--set',
                           f'daemon.metrics={value}', '--check'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    assert done.returncode != 0 and 'must be unix:/PATH, 127.0.0.1:PORT or [::1]:PORT' in done.stdout, done.stdout


def check_queries(folder, metrics):
    """What docs/grafana asks Prometheus for. @return how many queries there are"""
    queries = []
    with open(os.path.join(folder, 'uroce.json'), encoding='utf-8') as f:
        dashboard = json.load(f)
    variables = {variable['name'] for variable in dashboard['templating']['list']} | {'__rate_interval'}
    for panel in dashboard['panels']:
        assert panel['title'] and panel['targets'], f'panel {panel["id"]} shows nothing'
        for target in panel['targets']:
            queries.append((target['expr'], set(re.findall(r'\{\{(\w+)\}\}', target['legendFormat']))))
            unknown = set(re.findall(r'\$(\w+)', target['expr'])) - variables
            assert not unknown, f'{panel["title"]}: no variable {unknown}'
    assert len({panel['id'] for panel in dashboard['panels']}) == len(dashboard['panels'])
    for path in glob.glob(os.path.join(folder, '*-alerts.yml')):
        with open(path, encoding='utf-8') as f:
            text = f.read()
        for rule in text.split('- alert:')[1:]:
            queries.append((re.search(r'expr: (.*)', rule)[1], set(re.findall(r'\$labels\.(\w+)', rule))))
    for expression, labels in queries:
        names = re.findall(r'\buroce_\w+', expression)
        assert names, f'{expression} asks for nothing of uroce'
        for name in names:
            assert name in metrics, f'{expression}: there is no metric {name}'
            having = set(re.findall(r'(\w+)="', ','.join(sample or '' for sample in metrics[name])))
            wanted = labels | set(re.findall(r'(\w+)=~?"', expression))
            assert wanted <= having | {'instance'}, f'{expression}: {name} has only the labels {having}'
    return len(queries)


def main():
    uroced, document = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'metrics')
        for value in ('9450', '0.0.0.0:9450', 'unix:relative', '127.0.0.1:0', '127.0.0.1:99999', '[::]:1'):
            refused(uroced, folder, value)
        child = start(uroced, folder, f'unix:{path}')
        try:
            head, body = fetch(path)
            assert head.startswith('HTTP/1.0 200 OK') and 'text/plain; version=0.0.4' in head, head
            metrics, helps = check(body)
            with open(document, encoding='utf-8') as f:
                documented = list(rows(f.read()))
            for group, name, said in documented:
                if group == 'impair':
                    continue
                metric = f'uroce_{group}_{name}_total'
                assert metric in metrics, f'{metric} is missing'
                assert helps[metric].replace('\\\\', '\\') == said, f'{metric}: {helps[metric]!r} is not {said!r}'
            queries = check_queries(os.path.join(os.path.dirname(document), 'grafana'), metrics)
            assert metrics['uroce_engine_turns_total']['engine="0"'] > 0
            assert metrics['uroce_port_up'].keys() == {'port="uroce0"'}
            assert metrics['uroce_sessions'][None] == 0
            assert fetch(path, b'GET /other HTTP/1.0\r\n\r\n')[0].startswith('HTTP/1.0 404')
            # Somebody who says nothing keeps the others waiting for two seconds at most.
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
                silent.connect(path)
                check(fetch(path)[1])
            # So does somebody who says a little all the time.
            slow = Dribble(path)
            slow.start()
            check(fetch(path)[1])
            slow.join()
            # Nor does it keep the daemon from ending.
            slow = Dribble(path)
            slow.start()
        finally:
            child.terminate()
            output = child.communicate()[0]
        slow.join()
        assert child.returncode == 0, output
        assert not os.path.exists(path), 'the socket is left behind'
    print(f'{len(metrics)} metrics, {len(documented)} documented counters, {queries} queries')


if __name__ == '__main__':
    main()
