// What JavaScript's client is used for; each line "ok …" is something that works.
import { PassThrough } from 'node:stream';
import net from 'node:net';
import * as k8s from '@kubernetes/client-node';

const namespace = process.argv[2];
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(config);

function ok(what, holds) {
    if (!holds) {
        throw new Error(what);
    }
    console.log(`ok ${what}`);
}

/** Return a promise and what resolves it. */
function latch() {
    let release;
    const opened = new Promise((resolve) => (release = resolve));
    return { opened, release };
}

async function text(stream) {
    let all = '';
    for await (const chunk of stream) {
        all += chunk;
    }
    return all;
}

// informer and watch
const seen = { add: latch(), update: latch(), delete: latch() };
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, () =>
    core.listNamespacedConfigMap({ namespace }),
);
informer.on('add', (object) => object.metadata.name === 'made' && seen.add.release(object));
informer.on('update', (object) => object.metadata.name === 'made' && seen.update.release(object));
informer.on('delete', (object) => object.metadata.name === 'made' && seen.delete.release(object));
informer.on('error', (error) => {
    if (error.type !== 'aborted') {  // what stops it aborts its watch
        throw error;
    }
});
await informer.start();
await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'made' }, data: { a: '1' } } });
ok('an informer sees what is added', (await seen.add.opened).data.a === '1');
await core.patchNamespacedConfigMap(
    { name: 'made', namespace, body: { data: { a: '2' } } },
    k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch),
);
ok('an informer sees what changes', (await seen.update.opened).data.a === '2');
const applied = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'made', namespace }, data: { b: '3' } };
const merged = await objects.patch(applied, undefined, undefined, 'program', true, k8s.PatchStrategy.ServerSideApply);
ok('an apply merges', merged.data.a === '2' && merged.data.b === '3');
ok('lists have what is there', (await core.listNamespacedConfigMap({ namespace })).items.some((item) => item.metadata.name === 'made'));
ok('the informer has a cache', informer.get('made', namespace) !== undefined);
await core.deleteNamespacedConfigMap({ name: 'made', namespace });
ok('an informer sees what is deleted', (await seen.delete.opened).metadata.name === 'made');
await informer.stop();

try {
    await core.readNamespacedPod({ name: 'nobody', namespace });
    ok('an error is an error', false);
} catch (error) {
    ok('an error has code and reason', error.code === 404 && JSON.parse(error.body).reason === 'NotFound');
}

// a pod, until it runs
const script = 'echo hello; exec python3 -c "import socketserver as s\nclass H(s.StreamRequestHandler):\n def handle(self): self.wfile.write(self.rfile.readline().upper())\ns.TCPServer((\'\', 8000), H).serve_forever()"';
const container = { name: 'main', image: 'strato/host', command: ['sh', '-c', script], readinessProbe: { tcpSocket: { port: 8000 }, periodSeconds: 1 } };
const ready = latch();
const watch = new k8s.Watch(config);
const watching = await watch.watch(
    `/api/v1/namespaces/${namespace}/pods`,
    { allowWatchBookmarks: true },
    (_, pod) => pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') && ready.release(),
    () => {},
);
const spec = { containers: [container], terminationGracePeriodSeconds: 1 };
await core.createNamespacedPod({ namespace, body: { metadata: { name: 'main' }, spec } });
await ready.opened;
watching.abort();
ok('a watch sees the pod become ready', true);

const logs = new PassThrough();
const following = await new k8s.Log(config).log(namespace, 'main', 'main', logs, { follow: true });
for await (const chunk of logs) {
    ok('logs are followed', `${chunk}`.startsWith('hello'));
    break;
}
following.abort();

async function run(command, typed) {
    const stdout = new PassThrough();
    const stderr = new PassThrough();
    const ended = latch();
    const stdin = typed === undefined ? null : new PassThrough();
    await new k8s.Exec(config).exec(namespace, 'main', 'main', command, stdout, stderr, stdin, false, ended.release);
    stdin?.end(typed);
    const status = await ended.opened;
    stdout.end();
    stderr.end();
    return { status, stdout: await text(stdout), stderr: await text(stderr) };
}
const failed = await run(['sh', '-c', 'echo out; echo err >&2; exit 7']);
ok('exec keeps streams apart', failed.stdout === 'out\n' && failed.stderr === 'err\n');
ok('exec has the exit code', failed.status.details.causes[0].message === '7');
ok('exec takes what is typed', (await run(['head', '-c', '5'], 'typed')).stdout === 'typed');

const server = net.createServer((socket) => {
    new k8s.PortForward(config).portForward(namespace, 'main', [8000], socket, null, socket);
});
server.listen(0, '127.0.0.1');
const answer = await new Promise((resolve, reject) => {
    server.on('listening', () => {
        const socket = net.connect(server.address().port, '127.0.0.1', () => socket.write('through\n'));
        socket.on('data', resolve);
        socket.on('error', reject);
    });
});
ok('a port is forwarded', `${answer}` === 'THROUGH\n');
await core.deleteNamespacedPod({ name: 'main', namespace });
process.exit(0);
