#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-test: every command is given, right and wrong, and its answer is read. With --write-page: docs/uroce-test.md gets the
answers of a run; what changed is for you to read."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.realpath(__file__)), os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../scripts')]

from schemas import fits  # noqa: E402
from uroce_lab import daemon  # noqa: E402

PROGRAM = os.path.join(daemon.build_dir(), 'app/uroce-test/uroce-test')
PROMPT = 'uroce-test> '
SECONDS = 60
ENDS = 20                   # how often a program that ends is begun: one in three ended badly
FAILED = 'failed'           # a line whose answer must be a refusal
# Printed after a workload's figures if something else had its core.
LATE = re.compile(r'^w\d+: \d+ pollers? on \d+ cores?, \d+ late turns?: .*\n?', re.MULTILINE)

# One line after the other, and what its answer must match. Objects are numbered from 1 for each kind.
TOUR = [
    ('# a comment, and an empty line', None),
    ('', None),
    ('help', r'create qp PD \[CQ\](.|\n)*show top(.|\n)*Tab completes'),
    ('help create qp', r'create qp PD(.|\n)*type +transport service \(rc\): one of rc, uc, ud, xrc_send, xrc_recv'),
    ('help show', r'show cm \[HOST\](.|\n)*show workload'),
    ('help nonsense', FAILED + r"help: 'nonsense': no such command"),
    ('nonsense', FAILED + r"'nonsense': no such command; expected one of capture, clear, connect, create"),
    ('show', FAILED + r'show: expected one of capture, cm, config, cq'),

    # What is there before anything is made.
    ('show port', r'h1 +uroce0 +net_memif0 +(.*\n)+h2 +uroce0 +net_memif1 .* 198\.18\.0\.2 +4096 +none'),
    ('show port h2', r'mac +02:00:00:00:00:02(.|\n)*rx_arp +\d+'),
    ('show port h9', FAILED + r"show port: host: 'h9': expected one of h1, h2"),
    ('show gid', r'h1 +1 +198\.18\.0\.1 (.|\n)*h2 +2 +fd00:18::2 '),
    ('show gid h1 foo', FAILED + r"show gid: 'foo': expected one of json"),
    ('show neigh', r'no neighbour has been looked for yet'),
    ('show neigh foo', FAILED + r"show neigh: host: 'foo'"),
    ('show config h1', r'addresses +198\.18\.0\.1/24 fd00:18::1/64'),
    ('show config h1 h2', FAILED + r"show config: 'h2': expected one of json"),
    ('show object', r'no object; `create` makes some'),
    ('show object foo', FAILED + r"show object: kind: 'foo': expected one of pd, mr, cq"),
    ('show qp', r'no QP'),
    ('show workload', r'no workload has been started'),
    ('show workload w1', FAILED + r"show workload: workload: 'w1': expected one of all"),
    ('show impair', r'no host is impaired'),
    ('show impair h7', FAILED + r"show impair: host: 'h7': expected one of all, h1, h2"),
    ('show engine', r'h1 +0 (.*\n)*h2 +0 '),
    ('show engine h3', FAILED + r"show engine: host: 'h3'"),
    ('show session', r'h1 +\d+ +uroce-test '),
    ('show session 77777', FAILED + r"show session: number: '77777': there is none"),

    # Objects.
    ('create', FAILED + r'create: expected one of ah, cq, mr, mw, pd, qp, srq, xrcd'),
    ('create mr pd1 4096', FAILED + r"create mr: pd: 'pd1': expected the name of one that is there; none is yet"),
    ('create pd', r'pd1: of h1'),
    ('create pd host h2', r'pd2: of h2'),
    ('create pd host h3', FAILED + r"create pd: host: 'h3': expected one of h1, h2"),
    ('create mr pd1 64k', r'mr1: of h1, addr 0x[0-9a-f]+ length 65536 lkey 0x[0-9a-f]+ rkey 0x[0-9a-f]+'),
    ('create mr pd2 64k', r'mr2: of h2'),
    ('create mr pd1', FAILED + r'create mr: size is missing: expected a number from 1 to 1073741824'),
    ('create mr pd1 4096 access everything', FAILED + r"access: 'everything': expected some of local, write, read"),
    ('create cq host h1 cqe 100', r'cq1: of h1, \d+ entries'),
    ('create cq host h2', r'cq2: of h2'),
    ('create cq cqe 0', FAILED + r"create cq: cqe: '0': expected a number from 1"),
    ('create qp pd1 cq1', r'qp1: RC of h1, qpn 0x[0-9a-f]+ psn 0x[0-9a-f]+ gid 198\.18\.0\.1'),
    ('create qp pd2 cq2', r'qp2: RC of h2'),
    ('create qp pd1', FAILED + r'create qp: cq is missing: `create cq` makes one'),
    ('create qp pd1 cq2', FAILED + r'create qp: pd1 is of h1, cq2 of h2: they must be of one host'),
    ('create qp pd1 cq1 type rd', FAILED + r"create qp: type: 'rd': expected one of rc, uc, ud"),
    ('create qp pd1 cq1 max_send_wr 99999999', FAILED + r"max_send_wr: '99999999': expected a number from 0 to 32768"),
    ('create srq pd1 max_wr 100', r'srq1: of h1'),
    ('create srq pd1 cq cq1', FAILED + r'an SRQ for XRC needs both cq and xrcd'),
    ('create xrcd', r'xrcd1: of h1'),
    ('create xrcd now', FAILED + r"create xrcd: 'now': expected one of host"),
    ('create srq pd1 cq cq1 xrcd xrcd1', r'srq2: of h1, number (?P<srqn>0x[0-9a-f]+)'),
    ('create qp pd1 type xrc_recv xrcd xrcd1', r'qp3: XRC_RECV of h1'),
    ('create qp pd1 cq1 type xrc_recv xrcd xrcd1', FAILED + r'an xrc_recv QP needs xrcd, and has no cq'),
    ('create ah pd1 198.18.0.2', r'ah1: of h1, to 198\.18\.0\.2'),
    ('create ah pd1 somewhere', FAILED + r"create ah: dgid: 'somewhere': expected an IPv4 or IPv6 address"),
    ('create mw pd2', r'mw1: type 1 of h2, rkey 0x[0-9a-f]+'),
    ('create mw pd2 type 3', FAILED + r"create mw: type: '3': expected a number from 1 to 2"),

    # Connecting, by hand and at once.
    ('modify qp qp1 state rtr', FAILED + r'modify qp: qp1, which is in RESET: Invalid argument'),
    ('modify qp qp1', FAILED + r'modify qp: nothing was given to modify'),
    ('modify qp qp1 hop_limit 3', FAILED + r'modify qp: dgid is missing'),
    ('modify qp qp1 state init port 1 pkey_index 0 access write,read', r'qp1: INIT'),
    ('modify qp qp1 state reset', r'qp1: RESET'),
    ('connect qp1', FAILED + r'connect: to which QP\?'),
    ('connect qp1 to qp9', FAILED + r"connect: to: 'qp9': expected one of qp1, qp2, qp3"),
    ('connect qp1 qpn 5', FAILED + r'connect: a QP elsewhere needs qpn, psn and gid'),
    ('connect qp1 qpn 5 psn 5 gid nowhere', FAILED + r"connect: gid: 'nowhere': expected an IPv4 or IPv6 address"),
    ('connect qp1 words mr mr1', r'qp1: the other side types: connect QP qpn 0x[0-9a-f]+ psn 0x[0-9a-f]+ '
                                 r'gid 198\.18\.0\.1 addr 0x[0-9a-f]+ length 65536 rkey 0x[0-9a-f]+'),
    ('connect qp1 to qp2 mtu 1024', r'qp1 of h1 \(qpn 0x[0-9a-f]+\) and qp2 of h2 \(qpn 0x[0-9a-f]+\) are connected'),
    ('connect qp1 to qp2', FAILED + r'connect: qp1 is in RTS: `modify qp qp1 state reset` lets it'),
    ('move qp1 0', r'qp1: at engine 0; it sent nothing new for 0\.0 us'),
    ('move qp1 1', FAILED + r'move: qp1: there is no such engine'),
    ('move qp1', FAILED + r'move: engine is missing'),
    ('show neigh', r'h1 +198\.18\.0\.2 +02:00:00:00:00:02 +REACHABLE'),
    ('show object qp', r'qp1 +h1 +pd1 cq1 +0 +RC qpn 0x[0-9a-f]+ psn 0x[0-9a-f]+ RTS to qp2'),
    ('show qp qp1', r'state +RTS\n(.|\n)*nothing to send'),
    ('show qp qp99', FAILED + r"show qp: qp: 'qp99': expected all, a QP that `create` made, or a QPN"),
    ('show qp 4294967313', FAILED + r"show qp: qp: '4294967313': expected all, a QP .* or a QPN \(1 to 0xffffff\)"),
    ('show qp 0x123456', FAILED + r'show qp: no QP 0x123456; `show qp` lists those there are'),
    ('show qp all state rts', r'(h\d .* RTS .*\n?){2}'),
    ('dump qp qp1', r'psn to send +0x[0-9a-f]+\n(.|\n)*last events:(.|\n)*to INIT\n.*to RTR\n.*to RTS'),
    ('dump qp', FAILED + r'dump qp: qp is missing: expected one of qp1, qp2, qp3, or a QPN'),
    ('show cq', r'h1 +\d+ +cq1 +\d+ +0 +\d+ +no '),
    ('show cq cq2', r'name +cq2\n'),
    ('show mr mr2', r'name +mr2\n'),
    ('show cq 999', FAILED + r"show cq: number: '999': there is none; `show cq` lists"),
    ('show mr', r'h2 +0x[0-9a-f]+ +mr2 +0x[0-9a-f]+ +65536 +65536 .*local,write,read,atomic'),
    ('show mr 0xabcdef', FAILED + r"show mr: number: '0xabcdef': there is none"),

    # Work requests by hand.
    ('fill mr1 text hello', r'mr1: 5 bytes filled'),
    ('fill mr1 length 99999', FAILED + r"fill: length: '99999': behind the offset mr1 has 65536 bytes"),
    ('fill mr1 byte 256', FAILED + r"fill: byte: '256': expected a number from 0 to 255"),
    ('post send qp1 write mr mr1 length 5 remote_mr mr2 remote_offset 16 id 7', r'qp1: posted'),
    ('poll cq1 wait 5000', r'7 +success +0x[0-9a-f]+ +write'),
    ('dump mr mr2 length 32', r'00000010  68 65 6c 6c 6f 00 .*hello\.'),
    ('dump mr mr2 length 4097', FAILED + r"dump mr: length: '4097': at most 4096 bytes"),
    ('post recv qp2 mr mr2 length 100 id 9', r'qp2: posted'),
    ('post recv qp2 count 100000', FAILED + r"post recv: count: '100000': expected a number from 1"),
    ('post recv srq1 mr mr1 count 2', r'srq1: posted'),
    ('post send qp1 send_imm mr mr1 length 5 imm 0x1234', r'qp1: posted'),
    ('poll cq2 wait 5000', r'9 +success +0x[0-9a-f]+ +recv +5 +0x[0-9a-f]+ +0x1234'),
    ('poll cq2', r'no completion'),
    ('poll cq2 count 0', FAILED + r"poll: count: '0': expected a number from 1 to 1024"),
    ('post send qp1 fetch_add mr mr1 length 8 remote_mr mr2 remote_offset 64 add 5', r'qp1: posted'),
    ('post send qp1 cmp_swap mr mr1 length 8 remote_mr mr2 remote_offset 64 compare 5 swap 258 fence', r'qp1: posted'),
    ('poll cq1 count 3 wait 5000 json', r'"op": "send"(.|\n)*"op": "fetch_add"(.|\n)*"op": "cmp_swap"'),
    ('dump mr mr2 offset 64 length 8', r'00000040  02 01 00 '),
    ('post send qp1 read', FAILED + r'post send: where to\? Expected remote_mr, or addr and rkey'),
    ('post send qp1 dance', FAILED + r"post send: op: 'dance': expected one of send, send_imm"),
    ('modify srq srq1 10', r'srq1: limit 10'),
    ('modify srq srq1', FAILED + r'modify srq: limit is missing'),
    ('modify cq cq1 cqe 500 count 4 period 100', r'cq1: (511|512|\d{3,4}) entries'),
    ('modify cq cq1', FAILED + r'modify cq: nothing was given to modify: expected cqe, count or period'),
    ('modify mr mr1 local', r'mr1: lkey 0x[0-9a-f]+'),
    ('modify mr mr1', FAILED + r'modify mr: access is missing'),
    ('create mr pd2 4096 access local,write,bind', r'mr3: of h2'),
    ('modify mw mw1 qp2 mr3 length 100', r'mw1: rkey 0x[0-9a-f]+; cq2 gets a completion'),
    ('poll cq2 wait 5000', r'success +0x[0-9a-f]+ +bind'),
    ('modify mw mw1 qp2', FAILED + r'modify mw: mr is missing'),

    # A datagram.
    ('create qp pd1 cq1 type ud', r'qp4: UD of h1'),
    ('create qp pd2 cq2 type ud', r'qp5: UD of h2, qpn (?P<ud>0x[0-9a-f]+)'),
    ('connect qp4 to qp5', FAILED + r"connect: UD QPs aren't connected with each other"),
    ('connect qp4', r'qp4 of h1 \(qpn 0x[0-9a-f]+\) is in RTS, qkey 0x11111111'),
    ('connect qp5', r'qp5 of h2'),
    ('post recv qp5 mr mr2', r'qp5: posted'),
    ('post send qp4 mr mr1 length 8', FAILED + r'post send: a datagram needs ah and qpn'),
    ('post send qp4 send mr mr1 length 8 ah ah1 qpn {ud}', r'qp4: posted'),
    ('poll cq2 wait 5000', r'success +0x[0-9a-f]+ +recv +48 '),
    ('modify qp qp5 state err', r'qp5: ERR'),
    ('show qp qp5', r'state +ERR'),

    # Captures.
    ('show capture', r'nothing is being captured'),
    ('show capture now', FAILED + r"show capture: 'now': expected one of json"),
    ('capture stop', FAILED + r'capture stop: nothing is being captured'),
    ('capture start /nonexistent/file', FAILED + r"capture start: /nonexistent/file can't be made: No such file or directory"),
    ('capture start {dir}/x snap 1', FAILED + r"capture start: snap: '1': expected a number from 64"),
    ('capture start {dir}/x qp qp1 host h2', FAILED + r'capture start: qp1 is of h1, not of h2'),
    ('capture start {dir}/qp1.pcapng qp qp1', r'capturing into .*qp1\.pcapng'),
    ('capture start {dir}/again.pcapng', FAILED + r'capture start: .*qp1\.pcapng is being written: `capture stop` first'),
    ('post send qp1 write mr mr1 length 5 remote_mr mr2', r'qp1: posted'),
    ('poll cq1 count 2 wait 5000', r'success .* write'),
    ('show capture', r'packets +\d+\n'),
    ('capture stop', r'qp1\.pcapng: 2 packets, \d+ bytes, 0 packets missed'),
    ('capture start {dir}/h2.pcapng host h2', r'capturing'),
    ('start pingpong count 20', r'started'),
    ('wait all', r'20 ops'),
    ('capture stop', r'h2\.pcapng: \d\d+ packets'),
    # All hosts in one file; what was dropped has the reason.
    ('set impair h2 rule=corrupt/count=1,seed=2', r'h2: rule=corrupt/count=1'),
    ('capture start {dir}/drops.pcapng snap 128', r'capturing'),
    ('post send qp1 write mr mr1 length 5 remote_mr mr2', r'qp1: posted'),
    ('poll cq1 wait 5000', r'success .* write'),
    ('set impair h2 off', r'h2: not impaired'),
    ('capture stop', r'drops\.pcapng: \d+ packets'),
    ('capture start', FAILED + r'capture start: file is missing'),

    # XRC, and an event, when those of before are taken.
    ('show event', r'port active|no event'),
    ('create qp pd2 cq2 type xrc_send', r'qp6: XRC_SEND of h2'),
    ('connect qp6 to qp3', r'qp6 of h2 .* and qp3 of h1 .* are connected'),
    ('post recv srq2 mr mr1 offset 4k length 64 id 4', r'srq2: posted'),
    ('post send qp6 send mr mr2 length 3', FAILED + r'post send: an XRC QP needs srqn'),
    ('post send qp6 send mr mr2 length 3 srqn {srqn}', r'qp6: posted'),
    ('poll cq1 wait 5000', r'4 +success +0x[0-9a-f]+ +recv +3 '),
    ('poll cq2 wait 5000', r'success +0x[0-9a-f]+ +send'),
    ('show event wait 5000', r'h1 +qp3 +communication established'),
    ('show event', r'no event'),
    ('show event h1', FAILED + r"show event: 'h1': expected one of wait, json"),

    # What changes while everything runs.
    ('set impair h2 loss=0.01,seed=3', r'h2: loss=0\.01,seed=3'),
    ('set impair h2 loss=2', FAILED + r'set impair: .*loss.*0 to 1(.|\n)*`off` takes all of it away'),
    ('start verify count 300 size 8k on qp1', r'w\d started'),
    ('wait all', r'verify: .* 300 ops, .* bytes checked, all right'),
    ('show impair h2', r'settings +loss=0\.01,seed=3\nreceived +[1-9]'),
    ('show stats h1', r'tx_packets +[1-9](.|\n)*retransmitted_packets +[1-9]'),
    ('show stats h1 zeroes', FAILED + r"show stats: 'zeroes': did you mean 'zeros'\? Expected one of zeros, json"),
    ('show cm h1 zeros', r'qp1_rx_mads +0'),
    ('show cm all', FAILED + r"show cm: host: 'all': expected one of h1, h2"),
    ('clear stats', r'^$'),
    ('clear stats h4', FAILED + r"clear stats: host: 'h4'"),
    ('show stats h2 json', r'^\[\{ "host": "h2" \}\]'),
    ('set impair all off', r'h1: not impaired\nh2: not impaired'),
    ('show impair', r'no host is impaired'),
    ('set cc all swift', r'h1: swift, for QPs that are connected from now on\nh2: swift'),
    ('set cc all vegas', FAILED + r"set cc: algorithm: 'vegas': expected one of none, dcqcn, swift"),
    ('set cc all none', r'h2: none'),
    ('set log debug', r'uroce\.\*: debug'),
    ('set log loud', FAILED + r"set log: level: 'loud': expected one of emergency, alert"),
    ('set log warning', r'uroce\.\*: warning'),
    ('set stats-period 0', r'^$'),
    ('set stats-period 86401', FAILED + r"set stats-period: seconds: '86401': expected a number from 0 to 86400"),

    # Workloads.
    ('start', FAILED + r'start: workload is missing: expected one of atomic, churn, incast, pingpong, read, send, udflood'),
    ('start juggle', FAILED + r"start: workload: 'juggle': expected one of atomic"),
    ('start write size 0', FAILED + r"start: size: '0': expected a number from 1"),
    ('start write qps 1024 depth 4096 size 1m', FAILED + r'start: write: h\d: needs \d+ MiB of memory, more than the 1024'),
    ('start write on qp1 qps 2', FAILED + r'start: `on` names QPs that are connected already'),
    ('start write on qp4', FAILED + r'start: write: qp4 is of type UD, write needs RC'),
    ('start udflood on qp4', FAILED + r'start: udflood: datagrams have no connection'),
    ('start write on qp1,qp2', FAILED + r'start: write: qp2 is there already, as an end of qp1'),
    ('start write on qp1 depth 100', FAILED + r'start: write: qp1 holds \d+ send WRs, less than depth 100'),
    ('start atomic size 16', FAILED + r"start: atomic: size: '16': an operation has 8 bytes"),
    ('start udflood size 8k', FAILED + r"start: udflood: size: '8192': a datagram has at most 4096 bytes"),
    ('start churn qps 2', FAILED + r'start: churn: it makes and destroys QPs of its own'),
    # A completion that nobody has taken yet isn't the workload's.
    ('post send qp1', r'posted'),
    ('post recv qp2', r'posted'),
    ('sleep 0.1', r'^$'),
    ('start write count 2000 on qp1', r'w\d started'),
    ('wait all', r'write: .* 2000 ops, .*ops/s, .*bit/s, latency p50 .*, p99 .*, p99\.9 '),
    ('start send count 2000 on qp1', r'w\d started'),
    ('wait all 30', r'send: .* 2000 ops'),
    ('start send count 2000 on qp1', r'w\d started'),
    ('wait all 30', r'send: .* 2000 ops'),
    ('forget all', r'^$'),
    ('forget w99', FAILED + r"forget: workload: 'w99': expected one of all"),
    ('start atomic count 2000 qps 2', r'started'),
    ('start pingpong count 500', r'started'),
    ('start read count 1000 size 100k depth 4', r'started'),
    ('start incast count 2000 qps 3', r'started'),
    ('start udflood count 2000', r'started'),
    ('start churn count 20', r'started'),
    ('start write count 1000 ipv6 mtu 512', r'started'),
    ('wait all 40', r'^(w\d+ .*\n?)*$'),
    ('show workload', r'(?s)(?=.*atomic +done .* 2000 )(?=.*pingpong +done .* 500 )(?=.*read +done .* 1000 )'
                      r'(?=.*incast +done .* 2000 .*3 QPs, fairness 1\.000)(?=.*udflood +done .*arrived)'
                      r'(?=.*churn +done .* 20 )'),
    ('wait w99', FAILED + r"wait: workload: 'w99': expected one of all, w"),
    ('start write rate 1000', r'(?P<slow>w\d+) started'),
    ('wait {slow}', FAILED + r'wait: {slow} ends only when it is stopped'),
    ('wait {slow} 0.5', FAILED + r'wait: {slow} runs still'),
    ('forget {slow}', FAILED + r'forget: {slow} is running: stop it first'),
    ('show top interval 0.2 rows 1', r'h\d +0x[0-9a-f]+ +- +RC +RTS +(1?\d\d\d?\d? +0|0 +1?\d\d\d?\d?) '),
    ('show top interval 99', FAILED + r"show top: interval: '99': expected a number from 0\.05 to 60"),
    ('show workload {slow}', r'state +running\n(.|\n)*ops/s +([3-9]\d\d|10\d\d)\n'),
    ('sleep 0.1', r'^$'),
    ('sleep', FAILED + r'sleep: seconds is missing'),
    ('stop {slow}', r'{slow} write: .* ([3-9]\d\d|1\.0\dk) ops/s'),
    ('stop w99', FAILED + r"stop: workload: 'w99'"),
    ('show workload json', r'"workload": "churn", "state": "done"'),

    # What a newcomer sees.
    ('demo', r'(?s)verify: .* all right.*seconds +Gbit/s.*#{9}.*set impair h2 loss=0\.01.*\*{3}.*set impair h2 off'
             r'.*[1-9]\d* packets were sent again'),
    ('demo now', FAILED + r"demo: 'now': nothing more was expected"),

    # The end.
    ('destroy pd1', FAILED + r'destroy: pd1: \d+ objects were made of it: destroy them first'),
    ('destroy qp77', FAILED + r"destroy: object: 'qp77': expected some of all, pd1"),
    ('destroy qp1,qp2', r'qp1 destroyed\nqp2 destroyed'),
    ('destroy all', r'all objects destroyed'),
    ('show object', r'no object'),
    ('exit now', FAILED + r"exit: 'now': nothing more was expected"),
    ('quit now', FAILED + r"quit: 'now': nothing more was expected"),
    ('quit', None),
]


def run(text, *args, eal=()):
    """Give it the lines. Returns its status and its answer to each."""
    line = [PROGRAM, *eal, '--', '--echo', *args]
    done = subprocess.run(line, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS,
                          check=False)
    return done.returncode, done.stdout


def answers(output):
    """[(line, answer), ...] of a transcript, without what a busy machine adds."""
    pieces = re.split('^' + re.escape(PROMPT), LATE.sub('', output), flags=re.MULTILINE)[1:]
    return [(piece.partition('\n')[0], piece.partition('\n')[2].rstrip('\n')) for piece in pieces]


class Dialogue:
    """A uroce-test that is asked one thing after the other."""

    def __init__(self, *args, eal=()):
        line = [PROGRAM, *eal, '--', '--echo', *args]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, bufsize=1)
        self.number = 0

    def ask(self, text):
        """The answer ends where that of a wrong command begins, which nothing else says."""
        self.number += 1
        mark = f'mark{self.number}'
        self.process.stdin.write(f'{text}\n{mark}\n')
        self.process.stdin.flush()
        lines = []
        for got in self.process.stdout:
            if got.startswith(f"'{mark}': no such command"):
                break
            if not got.startswith(PROMPT):
                lines.append(got)
        return ''.join(lines).rstrip('\n')

    def end(self):
        self.process.stdin.close()
        rest = self.process.stdout.read()
        self.process.stdout.close()
        return self.process.wait(timeout=SECONDS), rest


def commands():
    """What `help` lists."""
    output = run('help\n')[1]
    return sorted({re.match(r'[a-z-]+( [a-z-]+)*', line).group() for line in output.splitlines()
                   if re.match('[a-z]', line) and not line.startswith(('uroced', 'uroce-test'))})


class Tour(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='uroce-test-')
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def fields(self, name, *fields):
        """What tshark makes of the RoCE v2 packets of a capture: [(value of the field, ...), ...]."""
        done = subprocess.run(['tshark', '-r', os.path.join(self.dir, name), '-Y', 'infiniband', '-T', 'fields',
                               *(word for field in fields for word in ('-e', field))],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=SECONDS, check=True)
        return [tuple(line.split('\t')) for line in done.stdout.splitlines()]

    def packets(self, name):
        return self.fields(name, 'ip.src', 'infiniband.bth.opcode')

    def test_every_command_answers_as_it_should(self):
        known = {'dir': self.dir}
        dialogue = Dialogue()
        before = ''
        try:
            for text, want in TOUR:
                text = re.sub(r'\{(\w+)\}', lambda m: known[m.group(1)], text)
                if want is None:
                    if text == 'quit':
                        break
                    self.assertEqual(dialogue.ask(text), '')
                    continue
                want = re.sub(r'\{(slow|ud|srqn)\}', lambda m: known[m.group(1)], want)
                answer = dialogue.ask(text)
                # A workload that has ended is announced before the next prompt, which may be that of its start.
                if text.startswith('wait'):
                    answer = f'{before}\n{answer}'
                before = answer
                found = re.search(want.removeprefix(FAILED), answer, re.MULTILINE)
                self.assertTrue(found, f'`{text}` was answered\n{answer}\nwhich does not match {want}')
                known.update(found.groupdict())
        finally:
            dialogue.process.stdin.write('quit\n')
            status, rest = dialogue.end()
        self.assertEqual(status, 1, rest)
        # RDMA WRITE Only with its acknowledgement, and of the other capture what h2 sent and received.
        self.assertEqual(self.packets('qp1.pcapng'), [('198.18.0.1', '10'), ('198.18.0.2', '17')])
        opcodes = self.packets('h2.pcapng')
        self.assertEqual(opcodes.count(('198.18.0.1', '5')), 20)
        self.assertEqual(opcodes.count(('198.18.0.2', '5')), 20)
        interfaces, comments = zip(*self.fields('drops.pcapng', 'frame.interface_name', 'frame.comment'))
        self.assertEqual(set(interfaces), {'h1', 'h2'})
        self.assertTrue(any(comment.startswith('dropped: rx_') for comment in comments), comments)

    def test_the_tour_leaves_no_command_out(self):
        self.assertGreater(len(commands()), 40)
        right = [line for line, want in TOUR if not (want or '').startswith(FAILED)] + ['exit']
        wrong = [line for line, want in TOUR if (want or '').startswith(FAILED)]
        for command in commands():
            self.assertTrue(any((line + ' ').startswith(command + ' ') for line in right), f'{command} is never given')
            self.assertTrue(any((line + ' ').startswith(command + ' ') for line in wrong),
                            f'{command} is never given wrong arguments')

    def test_json_is_json(self):
        shows = ['port', 'gid', 'neigh', 'config', 'object', 'qp', 'qp qp1', 'cq', 'mr', 'session', 'cm', 'stats', 'engine',
                 'impair', 'workload', 'capture', 'top interval 0.1']
        lines = ['create pd', 'create cq', 'create mr pd1 4096', 'create qp pd1 cq1', 'start pingpong count 10', 'wait all',
                 'set impair h1 delay=1', f'capture start {self.dir}/json.pcapng',
                 *(f'show {what} json' for what in shows), 'capture stop']
        status, output = run('\n'.join(lines) + '\n')
        self.assertEqual(status, 0, output)
        for line, answer in answers(output):
            if line.endswith('json'):
                rows = fits(json.loads(answer), 'uroce-test')
                self.assertIsInstance(rows, list, line)
                self.assertTrue(rows, line)


DOCS = os.path.join(daemon.ROOT, 'docs/uroce-test.md')


def documented():
    """[(first line of its block, command, answer), ...] of the page's blocks of real answers."""
    with open(DOCS, encoding='utf-8') as f:
        blocks = re.findall(r'^```console\n(.*?)^```$', f.read(), re.MULTILINE | re.DOTALL)
    return [pair for block in blocks for pair in answers(block)]


def without_numbers(text):
    """Numbers, units and widths of columns are one run's."""
    text = re.sub(r'0x[0-9a-f]+|\d[\d.]*( ?(ns|us|ms|s|[kMGT])(?=bit|\b))?', '#', text)
    return [re.sub(r'[# -]+', ' ', line).strip() for line in text.splitlines()]


def without_moment(command, text):
    """What an answer would be at another time, too."""
    lines = without_numbers(text)
    if command.startswith(('show stats', 'show cm')):
        lines = [line for line in lines if not re.fullmatch(r'[a-z_0-9]+', line)]
    if command.startswith('dump qp'):
        lines = [re.sub(r' (yes|no)$', '', line) for line in lines]
    if command == 'demo':
        lines = [line.replace('*', '').strip() for line in lines]
    if command.startswith('show event'):
        lines = set(lines)
    return sorted(lines) if command.startswith(('show top', 'show event', 'wait all')) else lines


class Page(unittest.TestCase):
    """docs/uroce-test.md: each answer there is what the program says."""

    def test_answers_are_what_the_page_says(self):
        wanted = documented()
        self.assertGreater(len(wanted), 60)
        got = answers(run(''.join(line + '\n' for line, _ in wanted))[1])
        self.assertEqual([line for line, _ in got], [line for line, _ in wanted])
        for (line, want), (_, have) in zip(wanted, got):
            self.assertEqual(without_moment(line, have), without_moment(line, want), f'`{line}`')

    def test_the_page_has_every_command(self):
        given = [line for line, _ in documented()]
        for command in commands():
            self.assertTrue(any((line + ' ').startswith(command + ' ') for line in given) or command in ('quit', 'exit', 'sleep'),
                            f'{command} has no example')


def write_page():
    """Put the answers of a run into the page where they have changed."""
    got = iter(answers(run(''.join(line + '\n' for line, _ in documented()))[1]))

    def fill(block):
        lines = []
        for _, old in answers(block.group(1)):
            line, answer = next(got)
            if without_moment(line, answer) == without_moment(line, old):
                answer = old
            lines += [PROMPT + line] + ([answer] if answer else [])
        return '```console\n' + '\n'.join(lines) + '\n```'

    with open(DOCS, encoding='utf-8') as f:
        text = f.read()
    text = re.sub(r'^```console\n(.*?)^```$', fill, text, flags=re.MULTILINE | re.DOTALL)
    with open(DOCS, 'w', encoding='utf-8') as f:
        f.write(text)


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='uroce-test-')
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def file(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)
        return path

    def test_mistakes_are_told_without_starting_anything(self):
        for args, said in ((['--engines', '0'], '--engines 0: must be 1 to 16'),
                           (['--loopback=9'], '--loopback=9: the number of hosts must be 1 to 8'),
                           (['--stats-period', 'x'], '--stats-period x: must be 0 to 86400 seconds'),
                           (['--port', 'net_ring0'], '--port net_ring0: expected ETHDEV,ADDRESS/PREFIX'),
                           (['--loopback', '--port', 'net_ring0,198.18.0.1/24'], '--loopback makes its own hosts'),
                           (['--frobnicate'], '--help tells what there is'),
                           (['word'], "'word': options begin with --")):
            status, output = run('', *args)
            self.assertEqual(status, 2, output)
            self.assertIn(said, output)

    def test_own_options_without_the_end_of_eals_are_named(self):
        for words in (['--no-huge', '--stats-period', '1'], ['--engines', '2', '--', '--loopback'], ['-c', '3', '--json']):
            done = subprocess.run([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS,
                                  check=False)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertRegex(done.stdout, "^uroce-test: --[a-z-]+(=3)? must stand behind a -- that ends EAL's options")

    def test_without_eals_options_ours_need_no_end_of_them(self):
        self.assertIn('198.18.0.3', subprocess.check_output([PROGRAM, '--loopback=3', '-c', 'show gid h3'], text=True, timeout=SECONDS))

    def test_help_and_version(self):
        for args in (['--help'], ['--', '--help']):
            done = subprocess.run([PROGRAM, *args], stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
            self.assertEqual(done.returncode, 0)
            self.assertIn('--cmdline-file FILE', done.stdout)
        done = subprocess.run([PROGRAM, '--version'], stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
        self.assertRegex(done.stdout, r'^uroce-test \d')

    def test_file_then_auto_start_then_standard_input(self):
        path = self.file('commands', 'show gid h1\nstart write count 100\nwait all\n')
        status, output = run('show workload\n', '--cmdline-file', path, '--auto-start', 'send count 100', '--stats-period', '1')
        lines = [line for line, _ in answers(output)]
        self.assertEqual(lines, ['show gid h1', 'start write count 100', 'wait all', 'start send count 100', 'show workload'])
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r'w2 send: .* 100 ops')

    def test_commands_of_options_print_answers_only(self):
        line = [PROGRAM, '-c', 'show gid json', '-c', 'show nonsense']
        done = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual([row['index'] for row in json.loads(done.stdout)], [0, 1, 2, 0, 1, 2])
        self.assertIn("show 'nonsense': no such command", done.stderr)

    def test_with_json_everything_else_goes_to_stderr(self):
        line = [PROGRAM, '--json', '--auto-start', 'send count 10', '--stats-period', '1', '-c', 'start write count 100', '-c', 'wait all',
                '-c', 'show workload']
        done = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row['ops'] for row in json.loads(done.stdout)], [10, 100])
        self.assertIn('w2 write: ', done.stderr)

    def test_a_pipe_gets_answers_only(self):
        done = subprocess.run([PROGRAM], input='show port json\n', stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row['host'] for row in json.loads(done.stdout)], ['h1', 'h2'])

    def test_missing_file(self):
        status, output = run('', '--cmdline-file', '/nonexistent')
        self.assertEqual(status, 2)
        self.assertIn('--cmdline-file /nonexistent: No such file or directory', output)

    def test_a_workload_that_ends_by_itself_is_waited_for_and_told_of(self):
        status, output = run('start write duration 1.3\n', '--stats-period', '1')
        self.assertEqual(status, 0, output)
        said = [float(seconds) for seconds in re.findall(r'w1 write: (\d+\.\d) s, ', output)]
        self.assertGreater(len(said), 1, output)
        self.assertGreaterEqual(said[-1], 1.3, output)

    def test_the_clock_of_a_workload_stops_at_its_own_end(self):
        dialogue = Dialogue()
        try:
            dialogue.ask('start write duration 0.3')
            dialogue.ask('start churn duration 0.3')
            time.sleep(1.5)
            rows = json.loads(re.search(r'\[\{.*\]', dialogue.ask('show workload json'), re.DOTALL).group())
        finally:
            dialogue.end()
        self.assertEqual([row['state'] for row in rows], ['done', 'done'])
        for row in rows:
            self.assertGreaterEqual(row['seconds'], 0.3)
            self.assertLess(row['seconds'], 1.2, row)
            self.assertAlmostEqual(row['ops/s'], row['ops'] / row['seconds'], delta=0.05 * row['ops/s'])

    def test_the_end_of_a_workload_is_announced_while_a_script_sleeps(self):
        status, output = run('start write count 10\nsleep 0.5\nshow gid h1\n')
        self.assertEqual(status, 0, output)
        self.assertRegex(dict(answers(output))['sleep 0.5'], r'^w1 write: .* 10 ops')

    def test_a_workload_says_that_something_else_had_its_core(self):
        dialogue = Dialogue()
        try:
            dialogue.ask('start write')
            dialogue.process.send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            dialogue.process.send_signal(signal.SIGCONT)
            answer = dialogue.ask('stop all')
        finally:
            dialogue.end()
        self.assertRegex(answer, r'(?m)^w1: 1 poller on 1 core, \d+ late turns?: the figures suffer from ')

    def test_three_hosts_by_a_switch_and_several_engines(self):
        status, output = run('show gid h3\nstart incast to h3 count 3000 qps 2\nwait all\n'
                             'start verify from h3 to h1 count 300 size 20000 qps 3\nwait all\nshow engine\n'
                             'create pd host h1\ncreate cq host h1\ncreate qp pd1 cq1\ncreate pd host h2\ncreate cq host h2\ncreate qp pd2 cq2\n'
                             'connect qp1 to qp2\nstart write count 2000 on qp1\nmove qp1 1\nmove qp1 0\nmove qp1 1\nwait all\nshow qp qp1\n',
                             '--loopback=3', '--engines', '2')
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r'qp1: at engine 1; it sent nothing new for \d+\.\d us')
        self.assertRegex(output, r'write: .* 2000 ops')
        self.assertRegex(output, r'(?m)^engine +1$')
        self.assertRegex(output, r'incast: .* 3000 ops.* 4 QPs, fairness 1\.000')
        self.assertRegex(output, r'verify: .* 300 ops.*all right')
        self.assertRegex(output, r'h3 +1 ')

    def test_hosts_by_configurations_and_settings(self):
        eal = ['--lcores', '0@0-1,1@0-1', '--no-huge', '-m', '400', '--no-pci', '--no-telemetry', '--log-level', 'lib.eal:warning',
               '--file-prefix', f'utc{os.getpid()}']
        self.addCleanup(shutil.rmtree, f'/var/run/dpdk/utc{os.getpid()}', ignore_errors=True)
        args = []
        for i, role in enumerate(('server', 'client')):
            eal += ['--vdev', f'net_memif{i},role={role},socket={self.dir}/wire.sock,socket-abstract=no,bsize=4352,'
                              f'mac=02:00:00:00:02:0{i + 1}']
            args += ['--config', self.file(f'{role}.conf', f'[daemon]\nmbufs = 8192\n[port uroce0]\nethdev = net_memif{i}\n'
                                                           f'addresses = 198.18.7.{i + 1}/24\n')]
        status, output = run('sleep 1\nshow config h2\nstart verify count 100 size 20000\nwait all\n', *args,
                             '--set', 'port uroce0.cc=dcqcn', eal=eal)
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r'file +.*client\.conf\n(.|\n)*addresses +198\.18\.7\.2/24\n(.|\n)*cc +dcqcn')
        self.assertRegex(output, r'verify: .* 100 ops.*all right')
        status, output = run('', *args, '--set', 'port uroce0.cc=vegas', eal=eal)
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r'uroce-test: host 1: --set: \[port uroce0\] cc.*vegas')

    def test_one_host_talks_to_itself(self):
        status, output = run('start verify count 200 qps 2\nwait all\nstart churn count 5\nwait all\n', '--loopback=1')
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r'verify: .* 200 ops.*all right')

    def test_it_ends_well_each_time(self):
        """memif frees its memory in an interrupt when the other end closes, and uroce-test removes the port."""
        for _ in range(ENDS):
            status, output = run('show port\n', '--loopback=1')
            self.assertEqual(status, 0, output)

    def test_a_broken_wire_makes_a_workload_fail_and_the_status_tells(self):
        status, output = run('create pd\ncreate pd host h2\ncreate cq\ncreate cq host h2\ncreate qp pd1 cq1\n'
                             'create qp pd2 cq2\nconnect qp1 to qp2 timeout 8 retry_cnt 1\nset impair h2 loss=1\n'
                             'start write on qp1 count 10\nwait all 20\nshow qp qp1\ndump qp qp1\n')
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r'w1 write failed: h1 QPN 0x[0-9a-f]+: transport retry counter exceeded, vendor error \d+')
        answer = dict(answers(output))
        self.assertRegex(answer['show qp qp1'], r'state +ERR')
        self.assertRegex(answer['dump qp qp1'], r'last events:(.|\n)*no ACK in time(.|\n)*error: ')


class Remote(unittest.TestCase):
    """Two processes, joined by memif, whose users tell each other the words."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='uroce-test-')
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def start(self, role, number):
        prefix = f'ut{os.getpid()}-{number}'
        self.addCleanup(shutil.rmtree, f'/var/run/dpdk/{prefix}', ignore_errors=True)
        wire = f'net_memif0,role={role},socket={self.dir}/wire.sock,socket-abstract=no,bsize=4352,mac=02:00:00:00:01:0{number}'
        eal = ['--lcores', '0@0-1,1@0-1', '--no-huge', '-m', '300', '--no-pci', '--no-telemetry', '--file-prefix', prefix,
               '--vdev', wire, '--log-level', 'lib.eal:warning']
        return Dialogue('--port', f'net_memif0,198.18.0.{number}/24', eal=eal)

    def test_connect_by_words(self):
        sides = [self.start('server', 1)]
        deadline = time.monotonic() + SECONDS
        while not os.path.exists(f'{self.dir}/wire.sock') and time.monotonic() < deadline:
            time.sleep(0.05)
        sides.append(self.start('client', 2))
        try:
            words = []
            for side in sides:
                for line in ('create pd', 'create cq', 'create mr pd1 1m', 'create qp pd1 cq1'):
                    self.assertIn('1: ', side.ask(line))
                said = side.ask('connect qp1 words mr mr1')
                words.append(re.search(r'connect QP (.*)', said).group(1))
            for side, other in zip(sides, reversed(words)):
                self.assertRegex(side.ask(f'connect qp1 {other}'), r'qp1 of h1 \(qpn .*\) is connected to qpn 0x')
            self.assertIn('needs both ends here', sides[1].ask('start pingpong on qp1'))
            self.assertIn("its peer's memory has 1048576 bytes", sides[1].ask('start write on qp1 size 1m depth 2'))
            self.assertIn('started', sides[1].ask('start verify on qp1 count 200 size 10000 depth 8'))
            self.assertRegex(sides[1].ask('wait all 30'), r'verify: .* 200 ops.*all right')
            # What one writes by hand the other reads.
            sides[0].ask('fill mr1 text knock')
            self.assertIn('posted', sides[1].ask('post send qp1 read mr mr1 length 5'))
            self.assertIn('success', sides[1].ask('poll cq1 wait 5000'))
            self.assertIn('knock', sides[1].ask('dump mr mr1 length 16'))
        finally:
            ends = [side.end() for side in reversed(sides)]
        for _, rest in ends:
            self.assertNotIn('rror', rest)


if __name__ == '__main__':
    if sys.argv[1:] == ['--write-page']:
        write_page()
    else:
        unittest.main()
