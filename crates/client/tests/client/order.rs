//! The order of requests, and many requests in flight.

use std::time::Duration;

use zebu_client::{Acls, CreateMode, ErrorKind, OpResult, Version};

use crate::embedded::Server;
use crate::{connect, soon};

const TIMEOUT: Duration = Duration::from_secs(10);

/// API-16 to API-18.
#[tokio::test]
async fn the_order_is_that_of_the_calls_not_of_the_polls() {
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    let create = |path| client.create(path, "", CreateMode::Persistent, &Acls::creator());
    let parent = create("/a");
    let child = create("/a/b");
    let removed = client.delete("/a/b", Version(0));
    let removed_parent = client.delete("/a", Version(0));
    // Awaited in reverse order, executed in the order of the calls.
    soon(removed_parent).await.unwrap();
    soon(removed).await.unwrap();
    soon(child).await.unwrap();
    soon(parent).await.unwrap();
}

/// API-20, API-21, NUM-02: ten thousand reads do not wait for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_znodes_are_read_at_once() {
    const ZNODES: usize = 10_000;
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    soon(client.create("/n", "", CreateMode::Persistent, &Acls::creator())).await.unwrap();
    let created: Vec<_> = (0..ZNODES)
        .map(|n| {
            let data = n.to_string().repeat(n % 7);
            client.create(&format!("/n/{n}"), data, CreateMode::Persistent, &Acls::creator())
        })
        .collect();
    for created in created {
        soon(created).await.unwrap();
    }
    let reads: Vec<_> = (0..ZNODES).map(|n| client.get_data(&format!("/n/{n}"))).collect();
    let mut last = zebu_client::Zxid::ZERO;
    for (n, read) in reads.into_iter().enumerate() {
        let (data, stat) = soon(read).await.unwrap();
        assert_eq!(data, n.to_string().repeat(n % 7));
        assert!(stat.czxid > last, "executed in order");
        last = stat.czxid;
    }
    let (names, stat) = soon(client.get_children("/n")).await.unwrap();
    assert_eq!((names.len(), stat.num_children as usize), (ZNODES, ZNODES));
    assert_eq!(soon(client.delete_all("/n")).await.unwrap(), ZNODES + 1);
    assert!(soon(client.exists("/n")).await.unwrap().is_none());
}

/// The server limits requests to 1 MiB (`jute.maxbuffer`), but not the names of children in an
/// answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_may_be_larger_than_a_request() {
    const NAME_BYTES: usize = 1_000;
    const ZNODES: usize = 1_200;
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    let created: Vec<_> = (0..ZNODES)
        .map(|n| {
            let path = format!("/{n:0NAME_BYTES$}");
            client.create(&path, "", CreateMode::Persistent, &Acls::creator())
        })
        .collect();
    for created in created {
        soon(created).await.unwrap();
    }
    let (names, _) = soon(client.get_children("/")).await.unwrap();
    let bytes: usize = names.iter().map(String::len).sum();
    assert!(bytes > 1 << 20 && names.len() > ZNODES, "{bytes} bytes");
}

/// API-19.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_share_a_client() {
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    let tasks: Vec<_> = (0..20)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move {
                for n in 0..50 {
                    let path = format!("/{task}-{n}");
                    let create =
                        client.create(&path, &path, CreateMode::Ephemeral, &Acls::creator());
                    let read = client.get_data(&path);
                    soon(create).await.unwrap();
                    assert_eq!(soon(read).await.unwrap().0, path);
                }
            })
        })
        .collect();
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert_eq!(soon(client.ephemerals("/")).await.unwrap().len(), 1000);
}

#[tokio::test]
async fn a_large_value_goes_there_and_back() {
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    let value: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    soon(client.set_data("/", &value, Version::ANY)).await.unwrap();
    let reads: Vec<_> = (0..20).map(|_| client.get_data("/")).collect();
    for read in reads {
        assert!(soon(read).await.unwrap().0 == value);
    }
    // A request for which servers would close the connection is not sent, and the connection stays.
    let error = soon(client.set_data("/", vec![0; 2_000_000], Version::ANY)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(soon(client.get_data("/")).await.unwrap().0.len(), value.len());
}

/// MUL-02 to MUL-10.
#[tokio::test]
async fn a_transaction_has_a_result_for_each_operation() {
    let server = Server::start(&[]);
    let client = connect(server.address(), TIMEOUT).await;
    let acl = Acls::creator();
    let mut transaction = client.transaction();
    let parent = transaction.create("/t", "0", CreateMode::Persistent, &acl);
    let child = transaction.create("/t/c-", "", CreateMode::PersistentSequential, &acl);
    let bin = transaction.create("/t/bin", "", CreateMode::Container, &acl);
    let set = transaction.set_data("/t", "1", Version(0));
    transaction.check("/t", Version(1)).delete("/t/c-0000000000", Version(0));
    let results = soon(transaction.commit()).await.unwrap();
    assert_eq!(results.get(parent).path, "/t");
    assert_eq!(results.get(child).path, "/t/c-0000000000");
    assert_eq!(results.get(bin).stat.unwrap().data_length, 0);
    assert_eq!(results.get(set).version, 1);
    let kinds: Vec<_> = results.iter().skip(4).collect();
    assert_eq!(kinds, [&OpResult::Checked, &OpResult::Deleted]);

    // MUL-01: if one operation fails, none is executed, and the error names the failed one.
    let mut transaction = client.transaction();
    transaction.create("/t/x", "", CreateMode::Persistent, &acl);
    transaction.check("/t", Version(7));
    transaction.delete("/t", Version::ANY);
    let error = soon(transaction.commit()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!((error.failed_operation(), error.path()), (Some(1), Some("/t")));
    assert!(soon(client.exists("/t/x")).await.unwrap().is_none());

    // An invalid transaction is not sent.
    let mut transaction = client.transaction();
    transaction.check("/t", Version::ANY);
    transaction.delete("no path", Version::ANY);
    let error = soon(transaction.commit()).await.unwrap_err();
    assert_eq!((error.kind(), error.failed_operation()), (ErrorKind::Invalid, Some(1)));
}
