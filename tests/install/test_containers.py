#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_containers.py BUILD: the image, the compose file, the Kubernetes example and the action, as far as a machine without any of these can tell.

What a container does is run without one: uroce-host in two network namespaces, the action's step in a shell.
"""

import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), '../..'))
sys.path[:0] = [os.path.join(ROOT, 'scripts'), os.path.join(ROOT, 'tests/verbs')]
BUILD = os.path.realpath(sys.argv.pop(1)) if len(sys.argv) > 1 else os.path.join(ROOT, 'build')

import labs  # noqa: E402
from uroce_lab.state import is_root  # noqa: E402

CONTAINER, KUBERNETES = (os.path.join(ROOT, 'packaging', name) for name in ('container', 'kubernetes'))
INSTRUCTIONS = {'FROM', 'COPY', 'RUN', 'ENTRYPOINT'}
ID = os.getpid()
SECONDS = 90


def read(*names):
    with open(os.path.join(*names), encoding='utf-8') as f:
        return f.read()


def documents(*names):
    import yaml
    return list(yaml.safe_load_all(read(*names)))


def run(*words, env=None):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace',
                          timeout=SECONDS, check=False, env={**os.environ, **(env or {})})


def needs_yaml(case):
    return unittest.skipUnless(importlib.util.find_spec('yaml'), 'PyYAML is not installed (package python3-yaml)')(case)


class Image(unittest.TestCase):
    def test_the_dockerfile(self):
        lines = re.sub(r'\\\n', '', re.sub(r'(?m)^#.*\n', '', read(CONTAINER, 'Dockerfile'))).splitlines()
        for line in filter(None, lines):
            word, _, rest = line.partition(' ')
            self.assertIn(word, INSTRUCTIONS, line)
            if word == 'COPY' and '--from' not in rest:
                for source in rest.split()[:-1]:
                    self.assertTrue(os.path.exists(os.path.join(ROOT, source)), source)

    def test_the_host_script(self):
        done = run('bash', '-n', os.path.join(CONTAINER, 'uroce-host'))
        self.assertEqual(done.returncode, 0, done.stdout)
        done = run(os.path.join(CONTAINER, 'uroce-host'), 'true', env={'UROCE_INTERFACE': 'nothing0', 'UROCE_SOCKET': '/tmp/none/u.sock'})
        self.assertEqual((done.returncode, done.stdout), (1, 'uroce-host: there is no interface nothing0: set UROCE_INTERFACE\n'))

    def test_two_hosts(self):
        """What compose.yaml starts, in network namespaces in place of containers."""
        if why := labs.lacking(['veth']) if is_root() else 'network namespaces need root':
            self.skipTest(why)
        names = [f'uroce-host{ID}-{i}' for i in (1, 2)]
        path = ':'.join([*(os.path.join(BUILD, 'app', name) for name in ('uroced', 'uroce-run')), os.environ['PATH']])
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix='uroce-host-'))
            for name in names:
                self.assertEqual(run('ip', 'netns', 'add', name).returncode, 0)
                stack.callback(run, 'ip', 'netns', 'delete', name)
            run('ip', 'link', 'add', 'eth0', 'netns', names[0], 'type', 'veth', 'peer', 'name', 'eth0', 'netns', names[1])
            for i, name in enumerate(names, 1):
                run('ip', '-n', name, 'address', 'add', f'172.30.0.{i}/24', 'dev', 'eth0')
                run('ip', '-n', name, 'link', 'set', 'eth0', 'up')
            program = ['ib_write_bw', '-d', 'uroce0', '-F', '-n', '200']

            def start(i, *words):
                host = subprocess.Popen(['ip', 'netns', 'exec', names[i], os.path.join(CONTAINER, 'uroce-host'), *words], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env={**os.environ, 'PATH': path, 'UROCE_SOCKET': f'{folder}/{i}/u.sock'})
                stack.callback(host.kill)
                return host

            hosts = [start(0, *program), start(1, 'sh', '-c', 'for i in 1 2 3 4 5; do sleep 1; "$@" 172.30.0.1 && exit; done; exit 1', 'sh', *program)]
            for host in reversed(hosts):
                said = host.communicate(timeout=SECONDS)[0]
                self.assertEqual(host.returncode, 0, said)
                self.assertRegex(said, r'(?m)^ 65536 +200 ')


@needs_yaml
class Compose(unittest.TestCase):
    def test_two_hosts_with_the_two_capabilities_that_they_need(self):
        content, = documents(CONTAINER, 'compose.yaml')
        self.assertEqual(set(content['services']), {'h1', 'h2'})
        for service in content['services'].values():
            self.assertEqual(service['cap_add'], ['NET_RAW', 'NET_ADMIN'])
            self.assertNotIn('privileged', service)
            build = service['build']
            context = os.path.join(CONTAINER, build['context'])
            self.assertTrue(os.path.exists(os.path.join(context, build['dockerfile'])))
            self.assertEqual(set(service['networks']), set(content['networks']))


@needs_yaml
class Kubernetes(unittest.TestCase):
    def setUp(self):
        self.objects = {document['kind']: document for document in documents(KUBERNETES, 'uroce.yaml')}
        self.pod, = documents(KUBERNETES, 'pod.yaml')
        self.files = self.objects['ConfigMap']['data']

    def test_the_configuration(self):
        with tempfile.NamedTemporaryFile('w', suffix='.conf', encoding='utf-8') as f:
            f.write(self.files['uroced.conf'])
            f.flush()
            done = run(os.path.join(BUILD, 'app/uroced/uroced'), '--', '--config', f.name, '--check')
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_daemons_pod_is_whole(self):
        spec = self.objects['DaemonSet']['spec']
        self.assertLessEqual(spec['selector']['matchLabels'].items(), spec['template']['metadata']['labels'].items())
        pod = spec['template']['spec']
        volumes = {volume['name'] for volume in pod['volumes']}
        for container in pod['containers'] + pod['initContainers']:
            self.assertLessEqual({mount['name'] for mount in container['volumeMounts']}, volumes)
            self.assertNotIn('privileged', container.get('securityContext', {}))
        self.assertEqual(pod['containers'][0]['securityContext']['capabilities'], {'drop': ['ALL'], 'add': ['NET_RAW', 'NET_ADMIN', 'CHOWN']})

    def test_a_pod_gets_the_device_and_no_right(self):
        device = json.loads(self.files['uroce.json'])
        self.assertEqual([*self.pod['metadata']['annotations'].values()], [f'{device["kind"]}={device["devices"][0]["name"]}'])
        edits = device['devices'][0]['containerEdits']
        self.assertTrue(all('ro' in mount['options'] for mount in edits['mounts']))
        self.assertNotIn('deviceNodes', edits)
        spec = self.pod['spec']
        self.assertFalse({'hostNetwork', 'hostPID', 'volumes'} & spec.keys())
        self.assertEqual(spec['containers'][0]['securityContext'], {'allowPrivilegeEscalation': False, 'capabilities': {'drop': ['ALL']}})
        group = re.search(r'socket_group = (\d+)', self.files['uroced.conf'])[1]
        self.assertEqual(spec['securityContext']['supplementalGroups'], [int(group)])


@needs_yaml
class Action(unittest.TestCase):
    def setUp(self):
        self.action, = documents(ROOT, 'action.yml')
        self.steps = {step['id']: step for step in self.action['runs']['steps']}

    def test_inputs_and_outputs_are_there(self):
        text = read(ROOT, 'action.yml')
        self.assertEqual(set(re.findall(r'inputs\.(\w+)', text)), set(self.action['inputs']))
        for step, _ in re.findall(r'steps\.(\w+)\.outputs\.(\w+)', text):
            self.assertIn(step, self.steps)
        # What is given must not be pasted into a script.
        for step in self.steps.values():
            self.assertNotIn('${{', step.get('run', ''))
            self.assertEqual(step.get('shell', 'bash'), 'bash')
            if 'run' in step:
                self.assertEqual(run('bash', '-n', '-c', step['run']).returncode, 0)

    def test_its_lab(self):
        name = f'a{ID}'
        with tempfile.TemporaryDirectory() as folder:
            env = {'GITHUB_ACTION_PATH': ROOT, 'UROCE_BUILD': BUILD, 'UROCE_LAB': name, 'UROCE_IMPAIR': 'loss=0.001', 'UROCE_OPTIONS': '--mtu 1500',
                   **{variable: os.path.join(folder, variable) for variable in ('GITHUB_PATH', 'GITHUB_OUTPUT')}}
            labs.raised.add(name)
            try:
                done = run('bash', '--noprofile', '--norc', '-eo', 'pipefail', '-c', self.steps['lab']['run'], env=env)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertIn('PORT_ACTIVE', done.stdout)
                self.assertEqual(read(folder, 'GITHUB_OUTPUT'), f'server={"198.18.0.1" if is_root() else "127.0.0.1"}\n')
                self.assertTrue(os.path.exists(os.path.join(read(folder, 'GITHUB_PATH').strip(), 'uroce-lab')))
            finally:
                labs.down(name)


if __name__ == '__main__':
    unittest.main(verbosity=2)
