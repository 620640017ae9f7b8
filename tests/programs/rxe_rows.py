# SPDX-License-Identifier: BSD-3-Clause
"""The commands of the rows, as they are with Linux's Soft-RoCE: its device is rxe0. tests/programs/rxe runs them."""

import glob
import os
import shlex
import subprocess
import uuid

import ceph
import disni
import fabtests
import gloo
import hpcc
import iser
import lammps
import mooncake
import mpi
import mpi_compare
import mpi_python
import qemu_migration
import rpma
import rust
import scalapack
import ucx
import ucx_gtest
import valkey
from guest import Guest
from rows import SERVER
from second_guest import SecondGuest
from uroce_lab import pairs

PRELOAD = 'LD_PRELOAD=' + next(iter(glob.glob('/usr/lib/*/rsocket/librspreload.so')), '')
AGENT = '@agent@'
SECONDS, MORE_SECONDS, MOST_SECONDS = 90, 300, 900      # on an emulated CPU
LISTEN_SECONDS = {'ucx': 8, 'ucp': 8, 'uct': 8, 'io_demo': 8, 'fi_': 6, 'fabtests': 6, 'dtest': 20, 'qemu': 15, 'iser': 12, 'valkey': 10,
                  'disni': 30, 'mooncake': 10}
LISTEN_SECONDS_ELSE = 4
DISK_BYTES = 4 << 20
FIO = 'fio --name=s --thread --ioengine=rdma --port=7300 --bs=16k --size=4m --verify_state_save=0 '
# The IPv6 address: over IPv4 UCX drops what Soft-RoCE receives (docs/programs.md).
IPV6 = {'UCX_IB_GID_INDEX': '2'}
BY_UCX = {'UCX_NET_DEVICES': 'rxe0:1', 'UCX_WARN_UNUSED_ENV_VARS': 'n', **IPV6}


class Pair:
    """Two shell commands, the server's '' if there is none. Where they say SERVER, rows() puts the first guest's address."""

    def __init__(self, server, client, seconds=SECONDS):
        self.server, self.client, self.seconds = server, client, seconds

    def listen_seconds(self, name):
        return next((seconds for begin, seconds in LISTEN_SECONDS.items() if name.startswith(begin)), LISTEN_SECONDS_ELSE)


def alone(command, seconds=SECONDS):
    return Pair('', command, seconds)


def same(command, to='', seconds=SECONDS):
    """Both the same, but the client has the server's address at its end, after `to`."""
    return Pair(command, f'{command} {to} {SERVER}', seconds)


def fio(verb, ours, theirs, *options):
    more = ' '.join(options)
    return Pair(f'{FIO} --rw=read --iodepth={theirs} {more}',
                f'{FIO} --rw=write --hostname={SERVER} --verb={verb} --iodepth={ours} {more} {"--do_verify=0" if options else ""}')


def qperf(*words):
    return Pair('qperf', ' '.join(['qperf', '-t', '1', *words[:-1], SERVER, words[-1]]))


def pingpong(provider, endpoint, device):
    return same(f"fi_pingpong -p '{provider}' -e {endpoint} -d {device} -I 20 -c")


def by_ucx(transports, command, **environment):
    return ' '.join(f'{name}={value}' for name, value in {**BY_UCX, 'UCX_TLS': transports, **environment}.items()) + ' ' + command


def perftest(transport, *words):
    return same(by_ucx(transport + ',self', f'ucx_perftest -n 100 {" ".join(words)}'))


def dapl(name, *client):
    """Each side names its device by its own address."""
    ours, theirs = (f'echo \'cma u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{address} 0" ""\' >/tmp/dat; export DAT_OVERRIDE=/tmp/dat; '
                    for address in (Guest.ipv4, SecondGuest.ipv4))
    return Pair(f'{ours} {name} -P cma', f'{theirs} {name} -P cma -h {SERVER}') if not client else Pair(ours + name, theirs + '; '.join(client))


def openmpi(program, per_host=1, way=mpi.RC, folder='/tmp', before='', after=''):
    words = [*way.options, *(word for name, value in {**way.environment, **IPV6}.items() for word in ('-x', f'{name}={value}'))]
    how = shlex.join(words).replace(pairs.DEVICE, 'rxe0')
    command = (f'mpirun.openmpi --allow-run-as-root --oversubscribe -H {Guest.hostname}:{per_host},{SecondGuest.ipv4}:{per_host} --map-by ppr:{per_host}:node'
               f' --mca plm_rsh_agent {AGENT} --mca mpi_yield_when_idle 1 -wdir {folder} {how} {program}')
    return alone(f'{before}{command}{after}', MORE_SECONDS)


def mpich(program):
    words = [word for name, value in {**mpi.ALL_BY_UCX.environment, **IPV6}.items() for word in ('-genv', name, value)]
    how = shlex.join(words).replace(pairs.DEVICE, 'rxe0')
    return alone(f'mpiexec.mpich -genvlist PATH -localhost {Guest.ipv4} -launcher ssh -launcher-exec {AGENT} -hosts {Guest.ipv4},{SecondGuest.ipv4}'
                 f' -ppn 1 -n 2 {how} {program}', MORE_SECONDS)


def iscsi(folder):
    """As iser.py, with an image of 4 MiB."""
    admin = 'tgtadm --lld iser --op'
    server = '; '.join([
        f'cp {folder}/disk /tmp', f'(sleep 5; {admin} new --mode target --tid 1 -T {iser.TARGET}',
        f'{admin} new --mode logicalunit --tid 1 --lun 1 -b /tmp/disk', f'{admin} bind --mode target --tid 1 -I ALL',
        f'{admin} bind --mode target --tid 1 -Q {iser.INITIATOR}) & tgtd -f --iscsi portal={iser.ADDRESS} --iser pool_sz_mb=64'])
    return Pair(server, (
        f'iscsi-inq -i {iser.INITIATOR} {iser.URL}; qemu-img convert -f raw -O raw {shlex.quote(iser.LUN)} /tmp/copy && cmp {folder}/disk /tmp/copy'
        ' && echo the copy is the same'), MORE_SECONDS)


def migration(*capabilities):
    """Both ends are asked what came of it through their monitors."""
    program = 'qemu-system-x86_64 -machine pc -accel tcg -m 64 -nodefaults -display none -drive file=/tmp/disk.img,format=raw,if=ide -monitor stdio'
    boot = qemu_migration.BUSY.ljust(510, b'\0') + b'\x55\xaa'
    disk = f"printf '{''.join(f'{chr(92)}{byte:03o}' for byte in boot.rstrip(bytes(1)))}' >/tmp/boot; truncate -s 1M /tmp/disk.img; " \
        'dd if=/tmp/boot of=/tmp/disk.img conv=notrunc 2>/dev/null; '
    set_them = ''.join(f'echo migrate_set_capability {name} on; ' for name in capabilities)
    asked = "grep -a -e 'status:' -e rror"
    return Pair(
        f'{disk} ({set_them} echo migrate_incoming rdma:{SERVER}:4444; sleep 100; echo info status; echo quit) | {program} -S -incoming defer | {asked}',
        f'{disk} ({set_them} sleep 15; echo migrate -d rdma:{SERVER}:4444; sleep 50; echo info migrate; echo quit) | {program} | {asked}', MORE_SECONDS)


def compiled(folder):
    """@return {name: path} of programs that are compiled for this, those whose compilers are here"""
    found = {}
    sources = {name: (['gcc'], f'{ucx.EXAMPLES}/{name}.c', ['-lucp', '-luct', '-lucs']) for name in ('ucp_hello_world', 'uct_hello_world', 'ucp_client_server')}
    sources |= {name: ([compiler], mpi_compare.SOURCE, []) for name, compiler in (('openmpi', 'mpicc.openmpi'), ('mpich', 'mpicc.mpich'))}
    for name, (compiler, source, libraries) in sources.items():
        path = os.path.join(folder, name)
        done = subprocess.run([*compiler, '-O1', '-w', '-o', path, source, *libraries], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            print(f'{name} is not compiled: {done.stderr[-200:]}', flush=True)
        else:
            found[name] = path
    return found


def written(folder):
    """Input files of programs."""
    with open(os.path.join(folder, 'disk'), 'wb') as f:
        f.write(os.urandom(DISK_BYTES))
    with open(os.path.join(folder, 'melt'), 'w', encoding='ascii') as f:
        f.write(lammps.MELT)
    with open(os.path.join(folder, 'sums.py'), 'w', encoding='ascii') as f:
        f.write(mpi_python.PROGRAM)
    if os.path.exists(hpcc.EXAMPLE):
        with open(os.path.join(folder, 'hpccinf.txt'), 'w', encoding='ascii') as f:
            f.write(hpcc.small_input())


def of_mpi(folder, programs):
    tests = next(iter(glob.glob(scalapack.FOLDER)), '')
    return {
        **{f'openmpi {name} 2': openmpi(programs['openmpi'], way=way)
           for name, way in (('ucx', mpi.RC), ('ud', mpi.UD), ('ofi', mpi.OFI)) if 'openmpi' in programs},
        **({'mpich ucx 2': mpich(programs['mpich'])} if 'mpich' in programs else {}),
        'netpipe openmpi': openmpi('NPopenmpi -l 1 -u 65536 -n 10 -i -o /tmp/np.out'),
        'netpipe mpich': mpich('NPmpich2 -l 1 -u 65536 -n 10 -i -o /tmp/np.out'),
        'hpcc': openmpi('hpcc', 2, folder='/tmp/hpcc', before=f'make="mkdir /tmp/hpcc; cp {folder}/hpccinf.txt /tmp/hpcc"; eval "$make"; {AGENT} {SecondGuest.ipv4} "$make"; ',
                        after=' && grep -e ^Success= -e Errors= -e residual /tmp/hpcc/hpccoutf.txt'),
        'scalapack xdqr': openmpi(f'{tests}/xdqr', 2, folder=tests or '/tmp'),
        'lammps': openmpi(f'lmp -in {folder}/melt -log none'),
        'mpi4py': openmpi(f'{mpi_python.PYTHON} {folder}/sums.py'),
    }


def of_ucx(programs):
    found = {
        'ucp_hello_world': by_ucx('rc,self', '{} -b -s 1000'), 'ucp_hello_world ud': by_ucx('ud,self', '{} -b -s 1000'),
        'uct_hello_world': by_ucx('all', '{} -d rxe0:1 -t rc_verbs -i'), 'uct_hello_world ud': by_ucx('all', '{} -d rxe0:1 -t ud_verbs -i'),
    }
    rows = {name: same(command.format(programs[name.split()[0]]), '-n') for name, command in found.items() if name.split()[0] in programs}
    if program := programs.get('ucp_client_server'):
        for kind in ('stream', 'tag', 'am'):
            command = by_ucx('rc,self', f'{program} -c {kind} -s 100000 -i 20', UCX_SOCKADDR_TLS_PRIORITY='rdmacm')
            rows[f'ucp_client_server {kind}'] = Pair(f'{command} -l {SERVER}', f'{command} -a {SERVER}')
    return rows | {
        'io_demo': Pair(by_ucx('rc,self', 'io_demo -d 1:100000 -q'),
                        by_ucx('rc,self', f'io_demo -d 1:100000 -q -o read,write -i 50 -w 16 {SERVER}')),
        'ucx_perftest rc tag_lat': perftest('rc', '-t tag_lat'),
        'ucx_perftest ud tag_lat': perftest('ud', '-t tag_lat'),
        'ucx_perftest rc ucp_fadd': perftest('rc', '-t ucp_fadd'),
        'ucx_perftest rc tag_lat asleep': perftest('rc', '-t tag_lat -E sleep'),
        'ucx_info': alone(by_ucx('all', 'ucx_info -d | grep -A1 -E "Transport: (rc|ud)_verbs"')),
        **{f'ucx go {transport}': alone(by_ucx(f'{transport},self', 'ucx-go-test -test.v'), MORE_SECONDS) for transport in ('rc', 'ud')},
        'ucx gtest': alone(by_ucx('all', f"ucx-gtest '--gtest_filter=rc_verbs/uct_p2p_am*-{':'.join(ucx_gtest.LEFT_OUT)}'"), MORE_SECONDS),
    }


def of_fabtests():
    rows = {}
    for provider, device, tests in (('verbs', 'rxe0', fabtests.MSG), ('verbs;ofi_rxd', 'rxe0-dgram -b', fabtests.RXD[:5])):
        for test in tests:
            command = f"{test} -p '{provider}' -d {device}"
            rows[f'fabtests {provider} {test}'] = Pair(f'{command} -s {SERVER}', f'{command} {SERVER}')
    return rows | {f'fabtests {test}': alone(f'{test} -p verbs -d rxe0') for test in fabtests.UNIT}


CEPH = '/tmp/ceph'
# What ceph.py's Cluster does. The address is the scripts' argument.
CEPH_BEGIN = f"""\
rm -rf {CEPH} && mkdir {CEPH} && cd {CEPH} && sed s/{SERVER}/$1/ {{folder}}/ceph.conf >ceph.conf || exit 1
export CEPH_CONF={CEPH}/ceph.conf
monmaptool --create --fsid {{fsid}} --addv a "[v2:$1:{ceph.PORT}/0]" monmap
ceph-mon --mkfs -i a --monmap monmap
ceph-mon -i a -f &
sleep 20
for osd in {' '.join(map(str, ceph.OSDS))}; do
    name=$(cat /proc/sys/kernel/random/uuid)
    ceph osd new $name && ceph osd crush add osd.$osd 1 root=default && mkdir osd$osd && ceph-osd -i $osd --mkfs --osd-uuid $name || exit 1
    ceph-osd -i $osd -f &
done
until ceph osd stat | grep ' {len(ceph.OSDS)} up'; do sleep 1; done
ceph osd pool create {ceph.POOL} 8 8 replicated
"""
CEPH_WRITE = f'rados -p {ceph.POOL} bench {{seconds}} write -b {ceph.SIZE} -t {ceph.DEPTH} --no-cleanup'
CEPH_READ = f"rados -p {ceph.POOL} bench 180 seq -t {ceph.DEPTH} | grep 'reads made'"
CEPH_BENCH = f"""\
{CEPH_WRITE.format(seconds=ceph.WRITE_SECONDS)} | grep 'writes made'
{CEPH_READ}
head -c {ceph.FILE_BYTES} /dev/urandom >sent
rados -p {ceph.POOL} put file sent
rados -p {ceph.POOL} get file received
cmp sent received && echo the file is the same
"""
CEPH_RESTART = f"""\
{CEPH_WRITE.format(seconds=4 * ceph.WRITE_SECONDS)} >said & writer=$!
sleep 10
kill $(pgrep -f 'ceph-osd -i 0') && echo osd.0 is asked to end
while pgrep -f 'ceph-osd -i 0' >/dev/null; do sleep 1; done
ceph-osd -i 0 -f &
wait $writer; echo the client: $?; grep 'writes made' said
until ceph osd stat | grep ' {len(ceph.OSDS)} up'; do sleep 1; done
{CEPH_READ}
"""


def of_ceph(folder):
    """As ceph.py."""
    settings = ceph.SETTINGS.format(fsid=(fsid := str(uuid.uuid4())), folder=CEPH).replace(pairs.DEVICE, 'rxe0')
    scripts = {'ceph bench': CEPH_BEGIN + CEPH_BENCH, 'ceph osd restart': CEPH_BEGIN + CEPH_RESTART}
    rows = {}
    for name, text in (('ceph.conf', settings), *scripts.items()):
        path = os.path.join(folder, name.replace(' ', '-'))
        with open(path, 'w', encoding='ascii') as f:
            f.write(text if name not in scripts else text.format(fsid=fsid, folder=folder))
        if name in scripts:     # Ceph ends its messages with a zero byte, which is the end for the guest's agent
            rows[name] = alone(f"(sh {path} {SERVER}; pkill ceph-; sleep 3) 2>&1 | tr -d '\\000'", MOST_SECONDS)
    return rows


def of_valkey():
    """As valkey.py, with fewer requests, and fewer and shorter values."""
    def server(folder):
        return f'mkdir -p {folder}; ' + shlex.join(valkey.server_command(folder, 'MODULE')).replace('MODULE', '$(command -v valkey-rdma.so)')

    def all_keys(command):
        return f'for i in $(seq {valkey.KEYS // 10}); do echo {command}; done | {ask}'

    ask = f'valkey-cli --rdma -h {SERVER}'
    begin, values = f'({server("/tmp/valkey-restart")}) >/dev/null & sleep 8', all_keys('GET key:$i') + ' | md5sum'
    restart = '; '.join([
        begin, all_keys('SET key:$i $(head -c $((i * 2000)) /dev/urandom | base64 -w 0)') + ' | sort | uniq -c', values, f'{ask} SHUTDOWN', 'wait',
        begin, values, f'for i in $(seq {valkey.CLIENTS}); do echo INCR counter; done | {ask} | tail -n 1', 'killall -9 valkey-server', 'sleep 2',
        begin, values, f'{ask} GET counter', 'killall valkey-server'])
    return {
        'valkey rdma-test': Pair(server('/tmp/valkey-test'), shlex.join(valkey.test_command()), MORE_SECONDS),
        **{f'valkey-benchmark {pipeline}': Pair(server(f'/tmp/valkey-{pipeline}'), shlex.join(valkey.benchmark_command(pipeline, 500)), MOST_SECONDS)
           for pipeline in (1, 16)},
        'valkey restart': alone(restart, MORE_SECONDS),
    }


def of_gloo():
    """Both on one host: they find each other by files."""
    rows = {}
    for name in gloo.BENCHMARKS:
        first, second = (shlex.join(gloo.command(name, rank, '/tmp/gloo', 'rxe0', '1')) for rank in (0, 1))    # GID 1: IPv4
        rows[f'gloo {name}'] = alone(f'rm -rf /tmp/gloo; mkdir /tmp/gloo; {first} & {second}; wait $!')
    return rows


OWN = r"$(ip -4 -o addr show eth0 | sed 's/.*inet \([0-9.]*\).*/\1/')"
MOONCAKE_PORT = 15100       # each row has another, since one that was used is taken for a minute


def of_mooncake():
    """As mooncake.py, but the port of a target is given."""
    def text(words):
        return shlex.join(words).removeprefix('env ').replace(pairs.DEVICE, 'rxe0').replace(mooncake.CLIENT, OWN)

    def target(port):
        return f'MC_MIN_PRC_PORT={port} MC_MAX_PRC_PORT={port} {text(mooncake.target_command())}'

    clients = {
        **{' '.join(['validator', *size[3:]]): (mooncake.example, 'transfer_engine_validator', *size[:3], mooncake.DURATION, *size[3:]) for size in mooncake.SIZES},
        **{f'bench {operation}': (mooncake.example, 'transfer_engine_bench', *mooncake.SIZES[0], mooncake.DURATION, f'--operation={operation}')
           for operation in ('read', 'write')},
        'tests': (mooncake.initiator, 'mooncake-rdma_transport_test2'),
    }
    rows = {'mooncake loopback': alone(text([*mooncake.SETTINGS, 'mooncake-rdma_loopback_test', mooncake.COMMON[0]]), MORE_SECONDS)}
    for port, (name, (words, *arguments)) in enumerate(clients.items(), MOONCAKE_PORT):
        rows[f'mooncake {name}'] = Pair(target(port), text(words(f'{SERVER}:{port}', *arguments)), MORE_SECONDS)
    port = MOONCAKE_PORT - 1
    killed = text(mooncake.example(f'{SERVER}:{port}', 'transfer_engine_validator', 1, 8, 65536, mooncake.LONG))
    rows['mooncake killed'] = alone(
        f'{target(port)} >/dev/null 2>&1 & target=$!; sleep 10; {killed} >/tmp/said 2>&1 & initiator=$!; sleep 15; kill -9 $target; wait $initiator; echo status $?; '
        'grep -o -e "transport retry counter exceeded" -e FAILED /tmp/said | sort | uniq -c', MORE_SECONDS)
    return rows


def of_rust():
    return {name: alone('; '.join(shlex.join(rust.command(program, options, skipped, 'rxe0')) for program, _, options, skipped in programs), MORE_SECONDS)
            for name, programs in (('rust-ibverbs', rust.IBVERBS), ('sideway', rust.SIDEWAY))}


def of_disni():
    return {f'disni {name}': Pair(*(shlex.join(['disni', name + end, '-a', SERVER, *options]) for end in ('Server', 'Client')), MORE_SECONDS)
            for name, options, _ in disni.PAIRS}


def of_rpma():
    rows = {}
    for example, (arguments, _, _) in rpma.PAIRS.items():
        server, client = (shlex.join([f'rpma-{example}-{side}', SERVER, rpma.PORT, *more]) for side, more in (('server', ()), ('client', arguments)))
        rows[f'rpma {example}'] = Pair(server, client)
    return rows


def single(folder):
    return {
        'ibv_rc_pingpong': same('ibv_rc_pingpong -d rxe0 -g 1 -n 200'),
        'fio write 1': fio('write', 1, 1), 'fio write 16': fio('write', 16, 16),
        'fio read 1': fio('read', 1, 1), 'fio read 16': fio('read', 16, 16),
        'fio send 16, server 256': fio('send', 16, 256, '--verify=crc32c'),
        'fio send 16, server 1': fio('send', 16, 1),
        **{f'qperf -cm 1 {test}': qperf('-cm', '1', test)
           for test in ('rc_bw', 'rc_rdma_write_poll_lat', 'ver_rc_fetch_add', 'ver_rc_compare_swap', 'ud_bw')},
        'qperf rc_bw': qperf('rc_bw'),
        'fi_pingpong msg': pingpong('verbs', 'msg', 'rxe0'),
        'fi_pingpong dgram': pingpong('verbs', 'dgram', 'rxe0-dgram'),
        'fi_pingpong rdm': pingpong('verbs;ofi_rxm', 'rdm', 'rxe0'),
        'iperf3': Pair(f'{PRELOAD} iperf3 -s -1', f'{PRELOAD} iperf3 -c {SERVER} -n 2M'),
        'socat': Pair(f'{PRELOAD} socat -u TCP4-LISTEN:7000 CREATE:/tmp/to; cmp {folder}/disk /tmp/to',
                      f'{PRELOAD} socat -U TCP4:{SERVER}:7000 OPEN:{folder}/disk,rdonly'),
        'socat, the file first': alone(f'{PRELOAD} socat -u FILE:/etc/hosts TCP4:{SERVER}:7000'),
        'rping': Pair('rping -s -C 20 -V', f'rping -c -a {SERVER} -C 20 -V'),
        'dtest cma': dapl('dtest'), 'dtestx cma': dapl('dtestx'), 'dtestsrq cma': dapl('dtestsrq'), 'dtestcm cma': dapl('dtestcm'),
        'dapltest': dapl('dapltest -T S -D cma', f'dapltest -T T -s {SERVER} -D cma -i 20 -t 1 -w 1 -V client SR 4096 2 server SR 4096 2',
                         f'dapltest -T Q -s {SERVER} -D cma'),
        'ib_send_bw': same('ib_send_bw -d rxe0 -n 100'),
        'raw_ethernet_bw': alone('raw_ethernet_bw -d rxe0 --client -E $(cat /sys/class/net/eth0/address) -B $(cat /sys/class/net/eth0/address) -n 10'),
        'iser': iscsi(folder),
        'qemu migration': migration(), 'qemu migration pinned': migration('rdma-pin-all'),
        'ibv_devinfo': alone('ibv_devinfo -v -d rxe0'),
        'ibstat': alone('ibstat'), 'ibstatus': alone('ibstatus'), 'rdma link': alone('rdma link'),
    }


def rows(folder, agent):
    """
    @param folder  where compiled programs and input go; both hosts are to see it
    @param agent  what starts a command on a host, for mpirun
    @return {name: Pair}
    """
    programs = compiled(folder)
    written(folder)
    found = single(folder) | of_ucx(programs) | of_mpi(folder, programs) | of_fabtests() | of_rpma()
    found |= of_ceph(folder) | of_valkey() | of_gloo() | of_mooncake() | of_rust() | of_disni()
    for pair in found.values():
        pair.server, pair.client = (command.replace(SERVER, Guest.ipv4).replace(AGENT, agent) for command in (pair.server, pair.client))
    return found
