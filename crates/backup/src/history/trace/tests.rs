//! Transactions and snapshots for cases that the fixtures do not contain.

use std::borrow::Cow;

use super::*;

const ZNODE: &str = "/a";

fn record<'a>(zxid: i64, session: i64, op: OpCode, txn: Txn<'a>) -> TxnRecord<'a> {
    let header = TxnHeader {
        session: SessionId(session),
        cxid: 1,
        zxid: Zxid(zxid),
        time_ms: zxid * 1000,
        op,
    };
    TxnRecord { header, txn, digest: None }
}

fn create(ephemeral: bool) -> Txn<'static> {
    let (path, acl) = (Cow::Borrowed(ZNODE), Vec::new());
    Txn::Create(CreateTxn { path, data: Some(b"x"), acl, ephemeral, parent_cversion: 1, ttl_ms: 0 })
}

fn delete() -> Txn<'static> {
    Txn::Delete { path: Cow::Borrowed(ZNODE) }
}

/// A snapshot with the znode, created and changed by these transactions.
fn found(node: Option<(i64, i64)>) -> Found {
    let mut found = Found::new(Wanted::new(ZNODE, Scope::This));
    if let Some((czxid, mzxid)) = node {
        let stat = StatPersisted {
            czxid: Zxid(czxid),
            mzxid: Zxid(mzxid),
            ctime: czxid * 1000,
            mtime: mzxid * 1000,
            version: 7,
            ..StatPersisted::default()
        };
        found.node(ZNODE, Some(b"y"), 1, &stat).unwrap();
    }
    found
}

fn gap(after: i64, before: i64) -> Gap {
    Gap { after: Zxid(after), after_ms: None, before: Some(Zxid(before)), before_ms: None }
}

/// Follows a script. Returns each change with its zxid, or `?` if the zxid is unknown.
struct Followed {
    trace: Trace,
    told: Vec<String>,
}

impl Followed {
    fn new() -> Self {
        Self { trace: Trace::new(Wanted::new(ZNODE, Scope::This)), told: Vec::new() }
    }

    fn tell(told: &mut Vec<String>, event: &Event) {
        let zxid = event.zxid.0;
        told.push(match &event.change {
            Change::Created { data: None, .. } => format!("{zxid} created, data lost"),
            Change::Created { .. } => format!("{zxid} created"),
            Change::DataSet { version, .. } => format!("{zxid} set to {version}"),
            Change::AclSet { .. } => format!("{zxid} acl"),
            Change::Deleted(cause) => format!("{zxid} deleted {cause:?}"),
            Change::Vanished { after } => format!("? deleted after {}", after.0),
        });
    }

    fn txn(mut self, zxid: i64, session: i64, op: OpCode, txn: Txn<'_>) -> Self {
        let record = record(zxid, session, op, txn);
        self.trace.txn(&record, &mut |event| Self::tell(&mut self.told, &event));
        self
    }

    fn gap(mut self, gap: Gap, extent: Option<i64>, found: &Found) -> Self {
        self.trace
            .gap(gap, extent.map(Zxid), found, &mut |event| Self::tell(&mut self.told, &event));
        self
    }

    fn end(mut self, last: i64) -> Vec<String> {
        self.trace.end(Zxid(last), &mut |event| Self::tell(&mut self.told, &event));
        self.told
    }
}

#[test]
fn a_znode_may_be_made_again_and_again() {
    let told = Followed::new()
        .txn(1, 5, OpCode::CREATE, create(false))
        .txn(2, 6, OpCode::DELETE, delete())
        .txn(3, 6, OpCode::CREATE2, create(true))
        .txn(4, 0, OpCode::DELETE_CONTAINER, delete())
        .txn(5, 6, OpCode::CREATE_CONTAINER, create(false))
        .end(5);
    assert_eq!(
        told,
        ["1 created", "2 deleted Request", "3 created", "4 deleted Reaper", "5 created"]
    );
}

/// Logs from before 3.6 do not name the ephemerals of a closed session.
#[test]
fn the_end_of_a_session_takes_its_ephemerals_named_or_not() {
    let close = |paths| Txn::CloseSession { paths };
    let told = Followed::new()
        .txn(1, 5, OpCode::CREATE, create(true))
        .txn(2, 6, OpCode::CLOSE_SESSION, close(None))
        .txn(3, 5, OpCode::CLOSE_SESSION, close(None))
        .txn(4, 6, OpCode::CREATE, create(true))
        .txn(
            5,
            6,
            OpCode::CLOSE_SESSION,
            close(Some(vec![Cow::Borrowed("/b"), Cow::Borrowed(ZNODE)])),
        )
        .end(5);
    assert_eq!(told, ["1 created", "3 deleted SessionEnd", "4 created", "5 deleted SessionEnd"]);
}

#[test]
fn a_snapshot_behind_a_gap_tells_creation_and_last_change() {
    let told = Followed::new().gap(gap(0, 9), Some(8), &found(Some((3, 6)))).end(9);
    assert_eq!(told, ["3 created, data lost", "6 set to 7"]);
    // Changes that the logs have shown are not repeated.
    let told = Followed::new()
        .txn(1, 5, OpCode::CREATE, create(false))
        .gap(gap(1, 9), Some(8), &found(Some((1, 6))))
        .gap(gap(1, 9), Some(8), &found(Some((1, 6))))
        .end(9);
    assert_eq!(told, ["1 created", "6 set to 7"]);
    // The znode was replaced in the gap.
    let told = Followed::new()
        .txn(1, 5, OpCode::CREATE, create(false))
        .gap(gap(1, 9), Some(8), &found(Some((4, 4))))
        .end(9);
    assert_eq!(told, ["1 created", "? deleted after 1", "4 created"]);
}

#[test]
fn a_znode_that_a_snapshot_lacks_was_deleted_by_a_missing_transaction() {
    let begun = || Followed::new().txn(1, 5, OpCode::CREATE, create(false));
    let told =
        begun().gap(gap(1, 9), Some(8), &found(None)).txn(9, 5, OpCode::CREATE, create(false));
    assert_eq!(told.end(9), ["1 created", "? deleted after 1", "9 created"]);
    // The snapshot may lack the znode because of a later deletion, which the log contains.
    let fuzzy = || begun().gap(gap(1, 9), None, &found(None));
    assert_eq!(
        fuzzy().txn(9, 5, OpCode::DELETE, delete()).end(9),
        ["1 created", "9 deleted Request"]
    );
    assert_eq!(fuzzy().end(9), ["1 created", "? deleted after 1"]);
    let set = Txn::SetData { path: Cow::Borrowed(ZNODE), data: None, version: 3 };
    assert_eq!(fuzzy().txn(9, 5, OpCode::SET_DATA, set).end(9), ["1 created", "9 set to 3"]);
}

#[test]
fn a_second_creation_shows_that_a_missing_transaction_has_deleted() {
    let mut told = Followed::new().txn(1, 5, OpCode::CREATE, create(false));
    told.trace.blank(gap(1, 9));
    let told = told.txn(9, 5, OpCode::CREATE, create(false)).end(9);
    assert_eq!(told, ["1 created", "? deleted after 1", "9 created"]);
    // Without a snapshot it is unknown whether the znode exists, so nothing is claimed.
    let mut told = Followed::new().txn(1, 5, OpCode::CREATE, create(false));
    told.trace.blank(gap(1, 9));
    assert_eq!(told.end(9), ["1 created"]);
}

#[test]
fn scopes_end_at_names() {
    let has = |scope, path: &str| Wanted::new("/a", scope).has(path);
    assert!(has(Scope::This, "/a") && !has(Scope::This, "/a/b") && !has(Scope::Below, "/ab"));
    assert!(has(Scope::Children, "/a/b") && !has(Scope::Children, "/a/b/c"));
    assert!(has(Scope::Below, "/a/b/c") && !has(Scope::Below, "/"));
    let root = Wanted::new("/", Scope::Below);
    assert!(root.has("") && root.has("/") && root.has("/a/b"));
    assert!(
        Wanted::new("/", Scope::Children).has("/a")
            && !Wanted::new("/", Scope::Children).has("/a/b")
    );
}
