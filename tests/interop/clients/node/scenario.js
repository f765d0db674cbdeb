// Walks through node-zookeeper-client and prints what it sees.
//
// usage: node scenario.js host:port
'use strict';

const zookeeper = require('node-zookeeper-client');

const { ACL, CreateMode, Event, Exception, Id, Permission, State } = zookeeper;
const hosts = process.argv[2];
const openAcl = ACL.OPEN_ACL_UNSAFE;

function say(...words) {
    console.log(words.map((word) => (typeof word === 'string' ? word : JSON.stringify(word))).join(' '));
}

// The value a callback gets, or the name of its error.
function call(client, method, ...args) {
    return new Promise((resolve) => {
        client[method](...args, (error, ...values) => {
            resolve(error instanceof Exception ? { error: error.getName() } : error ? { error: error.message } : values);
        });
    });
}

function buffer(text) {
    return Buffer.from(text);
}

function long(bytes) {
    return bytes.readBigInt64BE(0).toString();
}

function stat(s) {
    return {
        czxid: long(s.czxid),
        mzxid: long(s.mzxid),
        pzxid: long(s.pzxid),
        version: s.version,
        cversion: s.cversion,
        aversion: s.aversion,
        length: s.dataLength,
        children: s.numChildren,
        ephemeral: long(s.ephemeralOwner) !== '0',
    };
}

function show(what, result) {
    if (!Array.isArray(result)) {
        say(what + ':', result);
        return;
    }
    say(
        what + ':',
        result
            .filter((value) => value !== undefined)
            .map((value) => {
                if (Buffer.isBuffer(value)) return value.length > 100 ? value.length : value.toString();
                if (value && value.specification && value.czxid) return stat(value);
                if (Array.isArray(value)) return value.map((v) => (v && v.id ? acl(v) : v)).sort();
                return value;
            }),
    );
}

function acl(entry) {
    return [entry.permission, entry.id.scheme, entry.id.id].join(':');
}

function connected(client) {
    return new Promise((resolve) => {
        client.once('connected', resolve);
        client.connect();
    });
}

// Resolves with the next event of a watch that `register` sets.
function watch(register) {
    let done;
    const event = new Promise((resolve) => {
        done = resolve;
    });
    return register((seen) => done([seen.getName(), seen.getPath()])).then(() => event);
}

async function nodes(zk) {
    show('create', await call(zk, 'create', '/n', buffer('data'), openAcl, CreateMode.PERSISTENT));
    show('again', await call(zk, 'create', '/n', buffer('data'), openAcl, CreateMode.PERSISTENT));
    for (const name of Object.keys(CreateMode).sort()) {
        show(name, await call(zk, 'create', '/n/' + name + '-', buffer(name), openAcl, CreateMode[name]));
    }
    show('below an ephemeral', await call(zk, 'create', '/n/EPHEMERAL-/x', null, openAcl, CreateMode.PERSISTENT));
    show('below nothing', await call(zk, 'create', '/none/x', null, openAcl, CreateMode.PERSISTENT));
    show('no data', await call(zk, 'create', '/n/null', null, openAcl, CreateMode.PERSISTENT));
    show('empty data', await call(zk, 'create', '/n/empty', buffer(''), openAcl, CreateMode.PERSISTENT));
    show('large', await call(zk, 'create', '/n/large', Buffer.alloc(900000, 120), openAcl, CreateMode.PERSISTENT));
    for (const path of ['/n', '/n/null', '/n/empty', '/n/large', '/none']) {
        show('get ' + path, await call(zk, 'getData', path, null));
    }
    show('set', await call(zk, 'setData', '/n', buffer('new'), -1));
    show('set version 1', await call(zk, 'setData', '/n', buffer('newer'), 1));
    show('set version 7', await call(zk, 'setData', '/n', buffer('never'), 7));
    show('set nothing', await call(zk, 'setData', '/none', buffer('x'), -1));
    show('exists', await call(zk, 'exists', '/n', null));
    show('exists not', await call(zk, 'exists', '/none', null));
    show('children', await call(zk, 'getChildren', '/n', null));
    show('children of nothing', await call(zk, 'getChildren', '/none', null));
    show('mkdirp', await call(zk, 'mkdirp', '/deep/er/est', buffer('d'), openAcl, CreateMode.PERSISTENT));
    show('tree', await call(zk, 'listSubTreeBFS', '/deep'));
    show('remove version 3', await call(zk, 'remove', '/n/null', 3));
    show('remove', await call(zk, 'remove', '/n/null', 0));
    show('remove nothing', await call(zk, 'remove', '/n/null', -1));
    show('remove a parent', await call(zk, 'remove', '/n', -1));
    show('remove /', await call(zk, 'remove', '/', -1));
}

async function acls(zk, other) {
    zk.addAuthInfo('digest', buffer('user:secret'));
    const mine = [new ACL(Permission.ALL, new Id('auth', '')), new ACL(Permission.READ, new Id('ip', '10.0.0.0/8'))];
    show('create', await call(zk, 'create', '/acl', buffer('a'), mine, CreateMode.PERSISTENT));
    show('acl', await call(zk, 'getACL', '/acl'));
    show('read of another', await call(other, 'getData', '/acl', null));
    show('acl of another', await call(other, 'getACL', '/acl'));
    show('set acl', await call(zk, 'setACL', '/acl', ACL.READ_ACL_UNSAFE, 0));
    show('read of another', await call(other, 'getData', '/acl', null));
    show('write of another', await call(other, 'setData', '/acl', buffer('x'), -1));
    show('set acl, wrong version', await call(zk, 'setACL', '/acl', openAcl, 0));
    const wrong = [new ACL(Permission.ALL, new Id('nonsense', 'x'))];
    show('unknown scheme', await call(zk, 'create', '/bad', null, wrong, CreateMode.PERSISTENT));
}

async function transactions(zk) {
    const commit = (transaction) =>
        new Promise((resolve) => {
            transaction.commit((error, results) => {
                resolve([
                    error ? error.getName() : 'committed',
                    (results || []).map((r) => [r.type, r.path, r.err, r.stat ? stat(r.stat) : undefined]),
                ]);
            });
        });
    say(
        'transaction:',
        await commit(
            zk
                .transaction()
                .create('/t', buffer('t'))
                .create('/t/s-', buffer('s'), openAcl, CreateMode.PERSISTENT_SEQUENTIAL)
                .setData('/t', buffer('tt'), 0)
                .check('/t', 1)
                .remove('/t/s-0000000000', 0),
        ),
    );
    say('failing:', await commit(zk.transaction().create('/t/a').check('/t', 9).remove('/t')));
    show('children', await call(zk, 'getChildren', '/t', null));
}

async function watches(zk, other) {
    await call(other, 'create', '/w', buffer('w'), openAcl, CreateMode.PERSISTENT);
    const data = watch((watcher) => call(zk, 'getData', '/w', watcher));
    const children = watch((watcher) => call(zk, 'getChildren', '/w', watcher));
    const created = watch((watcher) => call(zk, 'exists', '/w/x', watcher));
    await call(zk, 'exists', '/', null);
    await call(other, 'setData', '/w', buffer('new'), -1);
    await call(other, 'create', '/w/x', buffer('x'), openAcl, CreateMode.PERSISTENT);
    say('watches:', await data, await children, await created);
    const deleted = watch((watcher) => call(zk, 'getData', '/w/x', watcher));
    await call(zk, 'exists', '/', null);
    await call(other, 'remove', '/w/x', -1);
    say('watch:', await deleted, Event.NODE_DELETED);
}

async function main() {
    const zk = zookeeper.createClient(hosts, { sessionTimeout: 10000 });
    const other = zookeeper.createClient(hosts, { sessionTimeout: 10000 });
    await connected(zk);
    await connected(other);
    say('state', zk.getState() === State.SYNC_CONNECTED, zk.getSessionTimeout(), zk.getSessionPassword().length);
    await nodes(zk);
    await acls(zk, other);
    await transactions(zk);
    await watches(zk, other);
    const gone = watch((watcher) => call(other, 'exists', '/n/EPHEMERAL-', watcher));
    await call(other, 'exists', '/', null);
    const disconnected = new Promise((resolve) => {
        zk.once('disconnected', resolve);
    });
    zk.close();
    await disconnected;
    say('gone:', await gone);
    show('children', await call(other, 'getChildren', '/n', null));
    other.close();
}

main();
