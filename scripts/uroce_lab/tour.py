# SPDX-License-Identifier: BSD-3-Clause
"""The programs of scripts/quickstart across a lab that is up, and the table of what they printed."""

import signal
import sys

from . import LabError, cores, pairs

TIMEOUT_SECONDS = 60
PROGRAMS = ('ib_send_bw', 'ib_send_lat', 'ib_write_bw', 'ib_write_lat', 'ib_read_bw', 'ib_read_lat',
            'ib_atomic_bw', 'ib_atomic_lat')


def tour(name):
    lab = pairs.Lab(name)
    gid = str(lab.gid_index('h1', 4))
    body = []

    def show(program, arguments, text):
        body.append([' '.join([program, *arguments]), *pairs.result(program, text)])
        print(f'   {program}: {body[-1][3]}', flush=True)

    devinfo = lab.run('h1', 'ibv_devinfo', '-d', pairs.DEVICE)
    if devinfo.returncode:
        raise LabError(f'ibv_devinfo ended with status {devinfo.returncode}:\n{devinfo.stdout}{lab.logs()}')
    show('ibv_devinfo', ['-d', pairs.DEVICE], devinfo.stdout)
    watch = cores.Watch(lab.data)
    runs = [('ibv_rc_pingpong', ['-d', pairs.DEVICE, '-g', gid])]
    runs += [(program, ['-d', pairs.DEVICE, '-x', gid]) for program in PROGRAMS]
    for program, arguments in runs:
        pair = pairs.run_pair(lab, [program, *arguments], TIMEOUT_SECONDS)
        if not pair.ok:
            raise LabError(f'{program} failed:\n{pair.report()}{lab.logs()}')
        show(program, arguments, pair.client.text())
    print()
    pairs.print_table(['program', 'size', 'iterations', 'result'], body)
    scarce = watch.text()
    if scarce:
        print(f'\n{scarce}\n(docs/benchmarks.md, "Few cores")')


def main():
    try:
        tour(sys.argv[1])
    except LabError as e:
        print(f'quickstart: {e}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


if __name__ == '__main__':
    sys.exit(main())
