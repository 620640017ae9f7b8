# SPDX-License-Identifier: BSD-3-Clause
"""The report of scripts/bench: what a file of results says, in plots; and two such files compared."""

import os
import platform
import subprocess
import time

from . import LabError, places, plots

VERSION = 1                 # of the file of results
LEAST_RATIO = 1.02          # smaller differences are called the same
SAME = (1 / LEAST_RATIO, LEAST_RATIO)
HIGHER_IS_BETTER = ('ops_per_s', 'GB_per_s', 'frames_per_s', 'one_GB_per_s')
LOWER_IS_BETTER = ('median_us', 'p99_us', 'typical_us', 'p999_us', 'average_us', 'round_trip_us', 'small_us', 'both_us', 'acknowledged_us', 'answered_us', 'percent')
# Panels of "beside TCP": title, unit, factor, key, and the measurements with their names on the plot.
BESIDE = (
    ('8-byte messages', 'million/s', 1e-6, 'ops_per_s',
     (('uroce WRITE', 'pair write rate'), ('uroce SEND', 'pair send rate'), ('uroce READ', 'pair read rate'), ('UCX put, TCP', 'ucx rate'))),
    ('Latency, 8 bytes', 'us', 1, 'median_us',
     (('uroce WRITE', 'pair write latency'), ('uroce SEND', 'pair send latency'), ('UCX put, TCP', 'ucx latency'), ('qperf, TCP', 'qperf latency'))),
    ('64 KiB messages', 'GB/s', 1, 'GB_per_s',
     (('uroce WRITE', 'pair write bulk'), ('uroce READ', 'pair read bulk'), ('UCX put, TCP', 'ucx bulk'), ('iperf3, TCP', 'iperf3 bulk'))),
)
# Panels of "beside Soft-RoCE": title, rows of tests/bench/soft_roce, unit, factor
SOFT_ROCE = (('Latency, 2 and 8 bytes', ('ib_send_lat', 'ib_write_lat', 'ib_read_lat'), 'us', 1), ('8-byte SENDs', ('ib_send_bw, 8 bytes',), 'thousand/s', 1e-3),
             ('64 KiB WRITEs', ('ib_write_bw, 64 KiB',), 'MB/s', 1))
SOFT_COLOURS = {'uroce, one host': plots.BLUE, 'uroce, two hosts': plots.SKY, 'Soft-RoCE': plots.ORANGE, 'TCP': plots.GREY}
FEW = (('ib_write_lat', 'tcp_lat', 'typical_us'), ('ib_send_lat', 'tcp_lat', 'typical_us'), ('ib_send_lat -e', 'tcp_lat', 'typical_us'),
       ('ib_read_lat', 'tcp_lat', 'typical_us'), ('ucx rc', 'ucx tcp', 'typical_us'))


# ---- Where it was measured ----

def first_line(path, begin=''):
    try:
        with open(path, encoding='utf-8', errors='replace') as f:
            return next((line.partition(':')[2].strip() if begin else line.strip() for line in f if line.startswith(begin)), '')
    except OSError:
        return ''


def git(*words):
    try:
        done = subprocess.run(['git', '-C', places.SCRIPTS, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, check=False)
    except FileNotFoundError:      # git isn't installed
        return ''
    return done.stdout.strip() if done.returncode == 0 else ''


def machine():
    """@return what a reader has to know of this machine, each as text"""
    memory = first_line('/proc/meminfo', 'MemTotal')
    virtual = 'hypervisor' in first_line('/proc/cpuinfo', 'flags').split()
    return {'cpu': first_line('/proc/cpuinfo', 'model name') or platform.machine(),
            'cpus': str(len(os.sched_getaffinity(0))),
            'virtual': 'virtual machine' if virtual else 'no virtual machine',
            'memory': f'{int(memory.split()[0]) / 1048576:.0f} GiB' if memory else '',
            'kernel': f'{platform.system()} {platform.release()}'}


def about():
    """What a file of results says beside the results."""
    commit = git('describe', '--always', '--dirty')
    return {'version': VERSION, 'time': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime()), 'commit': commit or 'unknown', 'machine': machine()}


def check(results, name):
    """LabError if this isn't a file of results that these functions understand."""
    if not isinstance(results, dict) or not isinstance(results.get('medians'), dict):
        raise LabError(f'{name}: no results of scripts/bench --json')
    if results.get('version', VERSION) != VERSION:
        raise LabError(f'{name}: results of version {results["version"]}, this scripts/bench reads {VERSION}')
    return results


# ---- Plots ----

def size_text(size):
    return f'{size >> 10} KiB' if size >= 1024 else f'{size} B'


def describe(page, results):
    m = results.get('machine', {})
    page.note(f'{results.get("time", "unknown time")}, commit {results.get("commit", "unknown")}. {m.get("cpu", "unknown CPU")}, '
              f'{m.get("cpus", "?")} CPUs, {m.get("virtual", "")}, {m.get("memory", "?")}, {m.get("kernel", "")}.')


def bars(axis, rows, unit, factor=1):
    """Horizontal bars of (name, samples, colour), the first on top; whiskers from the least to the most."""
    names = [name for name, _, _ in rows]
    middle = [sorted(v)[len(v) // 2] * factor for _, v, _ in rows]
    spread = [[value - min(v) * factor for value, (_, v, _) in zip(middle, rows)],
              [max(v) * factor - value for value, (_, v, _) in zip(middle, rows)]]
    axis.barh(names, middle, color=[colour for _, _, colour in rows], xerr=spread, ecolor='#33414e', capsize=3, height=0.65)
    axis.invert_yaxis()
    axis.grid(axis='y', visible=False)
    axis.set_xlabel(unit)
    axis.set_xlim(0, max(max(v) * factor for _, v, _ in rows) * 1.25)
    for i, value in enumerate(middle):
        axis.annotate(f'{value:.3g}', (max(rows[i][1]) * factor, i), xytext=(6, 0), textcoords='offset points', va='center')


def panel_bars(axes, panels):
    """Bars of each of `panels`: (title, unit, factor, rows)."""
    for axis, (title, unit, factor, rows) in zip(axes, panels):
        bars(axis, rows, unit, factor)
        axis.set_title(title)


def beside_tcp(page, results):
    samples = results.get('samples', {})
    panels = []
    for title, unit, factor, key, wanted in BESIDE:
        rows = [(label, samples[name][key], plots.GREY if 'TCP' in label else plots.BLUE) for label, name in wanted if samples.get(name, {}).get(key)]
        if rows:
            panels.append((title, unit, factor, rows))
    if not panels:
        return False
    with plots.figure(len(panels), height=2.7) as (made, axes):
        panel_bars(axes, panels)
        page.picture('rate', made, 'uroce beside TCP on the same machine: messages per second, latency and bandwidth',
                     'uroce between two hosts over shared memory; TCP between two network namespaces of the same machine, in the same run.')
    return True


def beside_soft_roce(page, results):
    found = results.get('soft_roce', {})
    samples = found.get('samples', {})
    panels = []
    for title, names, unit, factor in SOFT_ROCE:
        rows = [(f'{name}: {by}' if len(names) > 1 else by, samples[name][by], SOFT_COLOURS[by])
                for name in names for by in SOFT_COLOURS if samples.get(name, {}).get(by)]
        if rows:
            panels.append((title, unit, factor, rows))
    if not panels:
        return False
    with plots.figure(len(panels), height=4) as (made, axes):
        panel_bars(axes, panels)
        emulated = 'whose CPUs are emulated, so only the ratios mean something' if found.get('accelerator') == 'tcg' else f'by {found.get("accelerator", "?")}'
        page.picture('soft-roce', made, "uroce beside Linux's Soft-RoCE and TCP: the same programs on one host",
                     f'Linux {found.get("kernel", "?")} in a virtual machine of {found.get("cpus", "?")} CPUs, {emulated}. perftest; TCP is qperf.')
    return True


def size_plot(page, results):
    points = results.get('sweeps', {}).get('by size')
    if not points:
        return False
    with plots.figure(2) as (made, axes):
        for axis, key, factor, label in ((axes[0], 'ops_per_s', 1e-6, 'million messages/s'), (axes[1], 'GB_per_s', 1, 'GB/s')):
            for i, op in enumerate(dict.fromkeys(point['op'] for point in points)):
                own = [point for point in points if point['op'] == op]
                axis.plot([p['size'] for p in own], [p[key] * factor for p in own], marker=plots.MARKS[i], color=plots.COLOURS[i], label=op.upper())
            axis.set_xscale('log', base=2)
            axis.set_xticks([p['size'] for p in own], [size_text(p['size']) for p in own], rotation=35)
            axis.set_xlabel('size of a message')
            axis.set_ylabel(label)
            axis.legend()
        axes[0].set_yscale('log')
        axes[1].set_ylim(bottom=0)
        page.picture('size', made, 'Messages per second and bandwidth by the size of messages')
    return True


def distribution_plot(page, results):
    curves = results.get('sweeps', {}).get('latency distribution')
    if not curves:
        return False
    with plots.figure() as (made, (axis,)):
        for i, (name, points) in enumerate(curves.items()):
            axis.step([us for _, us in points], [100 * share for share, _ in points], where='post', color=plots.COLOURS[i], label=name)
        axis.set_xscale('log')
        axis.set_xlabel('latency of one way, us')
        axis.set_ylabel('% of the messages took at most this')
        axis.set_ylim(0, 101)
        axis.legend()
        page.picture('latency', made, "Distribution of the latency of each message of Debian's programs",
                     "Debian's programs between two hosts of a lab, each message measured by itself.")
    return True


def loss_plot(page, results):
    points = results.get('sweeps', {}).get('by loss')
    if not points:
        return False
    ops = list(dict.fromkeys(point['op'] for point in points))
    with plots.figure(len(ops)) as (made, axes):
        for axis, op in zip(axes, ops):
            for i, recovery in enumerate(dict.fromkeys(point['recovery'] for point in points)):
                own = [p for p in points if p['op'] == op and p['recovery'] == recovery]
                axis.plot(range(len(own)), [p['Gb_per_s'] for p in own], marker=plots.MARKS[i], color=plots.COLOURS[i], label=recovery)
            axis.set_xticks(range(len(own)), [f'{100 * p["loss"]:g} %' for p in own])
            axis.set_title(op)
            axis.set_xlabel('packets that are lost')
            axis.set_ylabel('Gb/s')
            axis.set_ylim(bottom=0)
            axis.legend(loc='lower left')
        page.picture('loss', made, 'Goodput by the share of packets that the network loses',
                     'Two transports on a link of 100 Gb/s with a round trip of 10 us, under a virtual clock: the same on any machine.')
    return True


def scaling_plot(page, results):
    sweeps = results.get('sweeps', {})
    panels = [(name, key, label) for name, key, label in (('by QPs', 'qps', 'QPs of one core'), ('by engines', 'engines', 'engines of each host'))
              if sweeps.get(name)]
    if not panels:
        return False
    with plots.figure(len(panels)) as (made, axes):
        for axis, (name, key, label) in zip(axes, panels):
            points = sweeps[name]
            axis.plot([p[key] for p in points], [p['ops_per_s'] * 1e-6 for p in points], marker='o', color=plots.BLUE)
            axis.set_xscale('log', base=2)
            axis.set_xticks([p[key] for p in points], [str(p[key]) for p in points])
            axis.set_xlabel(label)
            axis.set_ylabel('million 8-byte WRITEs/s')
            axis.set_ylim(bottom=0)
        cpus = results.get('machine', {}).get('cpus', '?')
        page.picture('scaling', made, 'Messages per second by the number of QPs, and of engines',
                     f'Two hosts with N engines each take 2 N cores; this machine has {cpus}.')
    return True


def few_cores_plot(page, results):
    values = results.get('few_cores', {}).get('samples', {})
    rows = [(name, tcp, key) for name, tcp, key in FEW if values.get(name, {}).get(key) and values.get(tcp, {}).get(key)]
    if not rows:
        return False
    with plots.figure(height=1.2 + 0.65 * len(rows)) as (made, (axis,)):
        both = []
        for name, tcp, key in rows:
            both += [(name, values[name][key], plots.BLUE), (f'{tcp} beside {name}', values[tcp][key], plots.GREY)]
        bars(axis, both, 'latency, us')
        page.picture('few-cores', made, "Latency of Debian's programs on few cores, beside TCP between the same hosts",
                     f'{results["few_cores"].get("pollers", "?")} pollers on {results["few_cores"].get("cores", "?")} cores.')
    return True


PARTS = (
    ('Beside TCP', beside_tcp), ('Beside Soft-RoCE', beside_soft_roce), ('By the size of messages', size_plot), ('Latency', distribution_plot), ('When packets are lost', loss_plot),
    ('Scaling', scaling_plot), ('Few cores', few_cores_plot),
)


def rows_of(results):
    """@return (measurement, key, samples) of everything in the results"""
    for source, prefix in ((results.get('samples', {}), ''), (results.get('few_cores', {}).get('samples', {}), 'few cores: ')):
        for name, keys in source.items():
            for key, values in keys.items():
                if key in HIGHER_IS_BETTER + LOWER_IS_BETTER and values:
                    yield prefix + name, key, sorted(values)


def report(results, folder):
    """Write the page of one file of results into a folder. @return its path"""
    plots.need()
    page = plots.Page('uroce: what was measured')
    describe(page, results)
    skipped = {**results.get('skipped', {}), **results.get('few_cores', {}).get('skipped', {})}
    for title, part in PARTS:
        page.heading(title)
        if not part(page, results):
            page.note('Not measured in this run.')
    page.heading('All figures')
    page.table(('measured', 'figure', 'median', 'least', 'most', 'rounds'),
               [(name, key, f'{v[len(v) // 2]:.4g}', f'{v[0]:.4g}', f'{v[-1]:.4g}', len(v)) for name, key, v in rows_of(results)])
    if skipped:
        page.heading('Not measured')
        page.table(('what', 'why'), sorted(skipped.items()))
    return page.write(folder)


# ---- Two results compared ----

def compared(old, new):
    """@return (name, key, old samples, new samples, how many times better the new one is), the worst first"""
    before = {(name, key): values for name, key, values in rows_of(old)}
    found = []
    for name, key, values in rows_of(new):
        own = before.get((name, key))
        if own and own[len(own) // 2] and values[len(values) // 2]:
            ratio = values[len(values) // 2] / own[len(own) // 2]
            found.append((name, key, own, values, ratio if key in HIGHER_IS_BETTER else 1 / ratio))
    return sorted(found, key=lambda row: row[4])


def verdict(old, new, better):
    """In words; results of several rounds whose samples overlap are the same."""
    if SAME[0] <= better <= SAME[1] or (len(old) > 1 and len(new) > 1 and old[0] <= new[-1] and new[0] <= old[-1]):
        return 'same'
    return 'better' if better > 1 else 'worse'


def compare(old, new, folder):
    """Write the page that compares two files of results. @return its path, and the rows"""
    plots.need()
    rows = compared(old, new)
    if not rows:
        raise LabError('the two files have no figure in common')
    page = plots.Page('uroce: two results compared')
    for word, results in (('Old', old), ('New', new)):
        page.text(f'{word}:')
        describe(page, results)
    if old.get('machine') != new.get('machine'):
        page.text('These are two different machines or kernels: the comparison says as much about them as about uroce.')
    said = [verdict(o, n, better) for _, _, o, n, better in rows]
    colours = {'better': plots.GREEN, 'worse': plots.ORANGE, 'same': plots.GREY}
    with plots.figure(height=1 + 0.24 * len(rows)) as (made, (axis,)):
        axis.barh([f'{name}, {key}' for name, key, *_ in rows], [row[4] - 1 for row in rows], left=1, color=[colours[word] for word in said])
        axis.axvline(1, color='#33414e', linewidth=1)
        axis.invert_yaxis()
        axis.grid(axis='y', visible=False)
        axis.tick_params(axis='y', labelsize=8)
        axis.set_xlabel('times as good as before (more than 1: better)')
        page.picture('compare', made, 'How many times as good the new results are',
                     'Green: better, orange: worse, grey: within 2 %, or within what the rounds of either differ by.')
    page.table(('measured', 'figure', 'old', 'new', 'times as good', ''),
               [(name, key, f'{o[len(o) // 2]:.4g}', f'{n[len(n) // 2]:.4g}', f'{better:.3f}', word)
                for (name, key, o, n, better), word in zip(rows, said)])
    return page.write(folder), rows
