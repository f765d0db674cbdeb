//! The memory of a znode and of a watch, in bytes requested from the allocator, and a check for
//! leaks.
//!
//! This is a single test, because the allocator counts for the whole process.

mod common;

use std::alloc::System;

use cap::Cap;
use common::{Recorder, apply, create, delete, set, tree};
use zebu_tree::{Silent, Tree, WatchMode, WatcherId};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const ZNODES: usize = 200_000;
const DATA_BYTES: usize = 100;

fn filled() -> Tree {
    let mut tree = tree();
    apply(&mut tree, &create(1, "/dir", b""));
    for i in 0..ZNODES {
        let path = format!("/dir/n{i:09}");
        let result = tree.apply(&create(i as i64 + 2, &path, &[7; DATA_BYTES]), &mut Silent).err;
        assert_eq!(result, zebu_proto::ErrorCode::OK);
    }
    tree
}

#[test]
fn bytes_per_znode_and_per_watch() {
    let start = ALLOCATOR.allocated();
    let mut tree = filled();
    let znode = (ALLOCATOR.allocated() - start) as f64 / ZNODES as f64;
    // The payload is the name, 10 bytes, and the data.
    println!("bytes per znode: {znode:.1}, beside name and data: {:.1}", znode - 110.0);
    assert!(znode < 190.0, "{znode}");

    let mut written = filled();
    for i in 0..ZNODES {
        let path = format!("/dir/n{i:09}");
        written.apply(&set((ZNODES + i) as i64, &path, &[8; DATA_BYTES], 1), &mut Silent);
    }
    let bytes = (ALLOCATOR.allocated() - start) as f64 / ZNODES as f64 - znode;
    println!("bytes per znode whose data were replaced: {bytes:.1}");
    assert!(bytes < 220.0, "{bytes}");
    drop(written);

    let before = ALLOCATOR.allocated();
    for i in 0..ZNODES {
        tree.add_watch(&format!("/dir/n{i:09}"), WatcherId(i as u32 % 100), WatchMode::Data);
    }
    let watch = (ALLOCATOR.allocated() - before) as f64 / ZNODES as f64;
    println!("bytes per watch, one per znode, 100 connections: {watch:.1}");
    assert!(watch < 40.0, "{watch}");
    (0..100).for_each(|id| tree.drop_watcher(WatcherId(id)));
    let left = ALLOCATOR.allocated() - before;
    println!("bytes left behind by them: {left}");
    assert!(left < 64 * 8192, "{left}");

    let before = ALLOCATOR.allocated();
    for i in 0..ZNODES {
        tree.add_watch(
            &format!("/dir/n{:09}", i % 50),
            WatcherId((i / 50) as u32),
            WatchMode::Data,
        );
    }
    let watch = (ALLOCATOR.allocated() - before) as f64 / ZNODES as f64;
    println!("bytes per watch, 50 on each of 4000 connections: {watch:.1}");
    assert!(watch < 40.0, "{watch}");
    (0..4000).for_each(|id| tree.drop_watcher(WatcherId(id)));

    // These also store how long their path is, because the path outlives its znode.
    let before = ALLOCATOR.allocated();
    for i in 0..ZNODES {
        let watcher = WatcherId(i as u32 % 100);
        tree.add_watch(&format!("/dir/n{i:09}"), watcher, WatchMode::PersistentRecursive);
    }
    let lasting = (ALLOCATOR.allocated() - before) as f64 / ZNODES as f64;
    println!("bytes per persistent recursive watch, one per znode, 100 connections: {lasting:.1}");
    assert!(lasting < 60.0, "{lasting}");
    (0..100).for_each(|id| tree.drop_watcher(WatcherId(id)));

    // The worst case per watch: one watch each.
    let before = ALLOCATOR.allocated();
    for i in 0..ZNODES {
        tree.add_watch(&format!("/dir/n{i:09}"), WatcherId(i as u32), WatchMode::Data);
    }
    let single = (ALLOCATOR.allocated() - before) as f64 / ZNODES as f64;
    println!("bytes per connection with a single watch: {single:.1}");
    assert!(single < 200.0, "{single}");
    (0..ZNODES as u32).for_each(|id| tree.drop_watcher(WatcherId(id)));

    one_shots_set_again_for_ever_leave_nothing(&mut tree);
    znodes_created_and_deleted_for_ever_leave_nothing();
}

fn one_shots_set_again_for_ever_leave_nothing(tree: &mut Tree) {
    let mut seen = Recorder::default();
    let mut after_first = 0;
    for round in 0..2_000 {
        for watcher in 0..20 {
            tree.add_watch("/dir/n000000001", WatcherId(watcher), WatchMode::Data);
            tree.add_watch("/dir/missing", WatcherId(watcher), WatchMode::Data);
        }
        tree.apply(&set(round, "/dir/n000000001", b"x", 1), &mut seen);
        tree.apply(&create(round, "/dir/missing", b""), &mut seen);
        tree.apply(&delete(round, "/dir/missing"), &mut seen);
        assert_eq!(seen.take().len(), 40);
        seen.zxids.clear();
        if round == 10 {
            after_first = ALLOCATOR.allocated();
        }
    }
    let grown = ALLOCATOR.allocated().saturating_sub(after_first);
    assert!(grown < 4096, "{grown}");
}

fn znodes_created_and_deleted_for_ever_leave_nothing() {
    let mut tree = tree();
    let mut after_first = 0;
    for round in 0..50_i64 {
        for i in 0..500_i64 {
            let data = vec![1; (i * 37 % 2000) as usize];
            apply(&mut tree, &create(round, &format!("/n{i}-{round}"), &data));
        }
        for i in 0..500_i64 {
            apply(&mut tree, &delete(round, &format!("/n{i}-{round}")));
        }
        if round == 3 {
            after_first = ALLOCATOR.allocated();
        }
    }
    let grown = ALLOCATOR.allocated().saturating_sub(after_first);
    assert!(grown < 4096, "{grown}");
    assert_eq!(tree.znode_count(), 4);
}
