# SPDX-License-Identifier: BSD-3-Clause
"""`uroce-lab report`: what the programs of a lab did, as a page of plots."""

import json
import math
import os
import statistics
import sys
import time

from . import LabError, history, pair, pairs, plots, wires
from .lab import hosts_of
from .progress import Progress
from .state import State

SHOWN = 8                   # QPs with a line of their own; the rest is in the table
INTERVAL_LEAST = 0.02
SECONDS_MOST = 3600


def host_of(lab, address):
    """@return the name of the host that has an address, or the address"""
    for host in lab['hosts']:
        if address in (wires.ipv4(host['index']), wires.ipv6(host['index'])):
            return host['name']
    return address


def label(qp):
    return f'{qp["host"]} {qp["program"]} {qp["qpn"]:#x}'


def busy(record):
    """@return the QPs that sent something, those that sent most first"""
    sent = {id(qp): history.growth(qp, record['columns'], 'tx_bytes') for qp in record['qps']}
    return sorted((qp for qp in record['qps'] if sent[id(qp)]), key=lambda qp: -sent[id(qp)])


def flows(record, lab):
    """@return bytes sent by (host, peer)"""
    found = {}
    for qp in record['qps']:
        key = qp['host'], host_of(lab, qp['peer']) if qp['peer'] else 'not connected'
        found[key] = found.get(key, 0) + history.growth(qp, record['columns'], 'tx_bytes')
    return {key: value for key, value in found.items() if value}


def bytes_text(number):
    for unit in ('B', 'kB', 'MB', 'GB'):
        if number < 1000:
            return f'{number:.3g} {unit}'
        number /= 1000
    return f'{number:.3g} TB'


def who_plot(page, record, lab):
    """The hosts on a circle, an arrow for each direction in which bytes went."""
    found = flows(record, lab)
    names = sorted({name for both in found for name in both} | {host['name'] for host in lab['hosts']})
    place = {name: (math.cos(2 * math.pi * i / len(names) + math.pi), -math.sin(2 * math.pi * i / len(names) + math.pi) / 2) for i, name in enumerate(names)}
    most = max(found.values())
    room = 0.35 if len(names) == 2 else 0.8
    with plots.figure(height=1.8 if len(names) == 2 else 2.8) as (made, (axis,)):
        axis.axis('off')
        axis.set_xlim(-1.5, 1.5)
        axis.set_ylim(-room, room)
        for (source, target), sent in found.items():
            (x, y), (u, v) = place[source], place[target]
            axis.annotate('', (u, v), (x, y), arrowprops={'arrowstyle': '-|>', 'color': plots.BLUE, 'lw': 1 + 5 * sent / most, 'shrinkA': 24, 'shrinkB': 24,
                                                          'connectionstyle': 'arc3,rad=0.25', 'mutation_scale': 16})
            # Beside the middle of the arc, on its outer side.
            axis.text((x + u) / 2 + 0.2 * (v - y), (y + v) / 2 - 0.2 * (u - x), bytes_text(sent), ha='center', va='center',
                      bbox={'facecolor': 'white', 'edgecolor': 'none', 'pad': 1.5})
        for name, (x, y) in place.items():
            axis.text(x, y, name, ha='center', va='center', fontweight='bold', bbox={'boxstyle': 'circle,pad=0.6', 'facecolor': '#dcebfa', 'edgecolor': plots.BLUE})
        page.picture('who', made, 'Who sent how much to whom')


def timeline(page, record):
    """Throughput, losses, retransmissions and round trips of each QP over time."""
    columns = record['columns']
    panels = (('sent, Gb/s', 'tx_bytes', 8e-9, True), ('losses/s', 'losses', 1, True), ('sent again, packets/s', 'retransmitted', 1, True),
              ('round trip, us', 'srtt_ns', 1e-3, False))
    with plots.figure(rows=len(panels), height=1.5 * len(panels) + 0.6, sharex=True) as (made, axes):
        for axis, (title, column, factor, counter) in zip(axes, panels):
            for i, qp in enumerate(busy(record)[:SHOWN]):
                times, values = (history.rates if counter else history.series)(qp, columns, column)
                # Nothing is known of a round trip before the first answer.
                points = [(t, value * factor) for t, value in zip(times, values) if counter or value]
                axis.plot([t for t, _ in points], [value for _, value in points], color=plots.COLOURS[i % len(plots.COLOURS)], label=label(qp))
            axis.set_ylabel(title, fontsize=9)
            # A line at 0 needs an axis that says so.
            axis.set_ylim(0, None if axis.get_ylim()[1] > 0.1 else 1)
        axes[-1].set_xlabel('seconds')
        axes[0].legend(loc='lower left', bbox_to_anchor=(0, 1.02), ncols=3, fontsize=8)
        made.align_ylabels(axes)
        page.picture('lab', made, 'Throughput, losses, retransmissions and round trips of each QP over time',
                     f'One look every {record["interval"]:g} s. Sent are frames with their headers; a loss is one that the QP noticed.')


def rtt_median(qp, columns):
    values = [value for value in history.series(qp, columns, 'srtt_ns')[1] if value]
    return f'{statistics.median(values) / 1e3:.1f}' if values else ''


def table(page, record, lab):
    columns = record['columns']
    rows = []
    for qp in busy(record):
        grown = {name: history.growth(qp, columns, name) for name in ('tx_bytes', 'tx_packets', 'losses', 'retransmitted')}
        times, _ = history.series(qp, columns, 'tx_bytes')
        rows.append((qp['host'], f'{qp["program"]} ({qp["pid"]})', f'{qp["type"]} {qp["qpn"]:#x}',
                     f'{host_of(lab, qp["peer"])} {qp["peer_qpn"]:#x}' if qp['peer'] else '', f'{times[0]:.1f} to {times[-1]:.1f}', bytes_text(grown['tx_bytes']),
                     grown['tx_packets'], grown['losses'], grown['retransmitted'], rtt_median(qp, columns)))
    page.table(('host', 'program', 'QP', 'peer', 'seen, s', 'sent', 'packets', 'losses', 'sent again', 'round trip, us'), rows)


def draw(record, folder):
    """Write the page of a record. @return its path"""
    lab = record['lab']
    plots.need()
    page = plots.Page(f'uroce-lab: lab {lab["name"]}')
    page.note(f'{record["time"]}. {len(lab["hosts"])} hosts, wire {lab["wire"]}, MTU {lab["mtu"]}, {record["seconds"]:.1f} s.')
    if record['program']:
        page.text('Program: ' + ' '.join(record['program']))
    for host in lab['hosts']:
        if host['impair']:
            page.text(f'What {host["name"]} receives is impaired: {host["impair"]}')
    if record['problem']:
        page.text(f'The record ends early: {record["problem"]}')
    if not busy(record):
        page.text('No QP sent anything while the lab was watched.')
        return page.write(folder)
    page.heading('Who talked to whom')
    who_plot(page, record, lab)
    page.heading('Over time')
    if len(busy(record)) > SHOWN:
        page.note(f'The {SHOWN} QPs that sent most; the table has all {len(busy(record))}.')
    timeline(page, record)
    page.heading('All QPs that sent something')
    table(page, record, lab)
    return page.write(folder)


def description(data):
    """What a record keeps of a lab."""
    return {**{key: data[key] for key in ('name', 'wire', 'mtu')},
            'hosts': [{'name': host['name'], 'index': host['index'], 'impair': host.get('impair') or ''} for host in data['hosts']]}


def watch(seconds):
    with Progress(max(round(seconds), 1)) as shown:
        begin = time.monotonic()
        while (past := time.monotonic() - begin) < seconds:
            shown.update(int(past), 'seconds: watching')
            time.sleep(min(0.1, seconds - past))


def record_program(lab, recorder, options):
    """Run a pair while the recorder looks. @return the pair's status"""
    programs = pair.Run(lab, options)
    try:
        with recorder:
            programs.go()
    finally:
        status = programs.report()
    return status


def run(options):
    plots.need()
    if not INTERVAL_LEAST <= options.interval <= SECONDS_MOST or not 0 < options.seconds <= SECONDS_MOST:
        raise LabError(f'--interval: {INTERVAL_LEAST:g} to {SECONDS_MOST} s; --seconds: up to {SECONDS_MOST} s')
    if os.path.exists(options.dir) and not os.path.isdir(options.dir):
        raise LabError(f'{options.dir}: there is such a file, and a report is a folder')
    state, status = State(options.name).load(), 0
    recorder = history.Recorder(hosts_of(state, 'all'), options.interval)
    if options.program:
        options.ranks = False
        pair.command_lines(options.program)
        status = record_program(pairs.Lab(options.name), recorder, options)
    else:
        with recorder:
            watch(options.seconds)
    # Again: `impair` may have changed since.
    record = {'time': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime()), 'lab': description(State(options.name).load().data), 'program': options.program,
              **recorder.history()}
    os.makedirs(options.dir, exist_ok=True)
    with open(os.path.join(options.dir, 'history.json'), 'w', encoding='utf-8') as f:
        json.dump(record, f)
        f.write('\n')
    print(f'uroce-lab: report: {draw(record, options.dir)}', file=sys.stderr)
    return status
