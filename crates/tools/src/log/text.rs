//! A transaction as a line of text.
//!
//! Creates and changes of data have a form of their own; the rest, and the ACLs in them, have the
//! text form of the original's records. Source: `TxnLogToolkit.printTxn`,
//! `org.apache.jute.ToStringOutputArchive`.

use std::fmt::Write as _;

use zebu_jute::{Decode, DecodeError, Decoder};
use zebu_proto::txn::{CreateTxn, Txn, TxnHeader};
use zebu_proto::{AclRef, OpCode, Zxid};

use crate::date;

/// A transaction's zxid.
pub(super) fn zxid(body: &[u8]) -> Result<Zxid, DecodeError> {
    Ok(TxnHeader::decode(&mut Decoder::new(body))?.zxid)
}

/// The line for a record's body, with its line break.
pub(super) fn line(body: &[u8]) -> Result<String, DecodeError> {
    let mut from = Decoder::new(body);
    let header = TxnHeader::decode(&mut from)?;
    let content = match header.op {
        OpCode::MULTI => multi(&mut from)?,
        // A digest may follow, which is not shown.
        op => content(op, &Txn::decode(op, &mut from)?),
    };
    let mut line = format!(
        "{} session 0x{:x} cxid 0x{:x} zxid 0x{:x} {} {content}",
        date::short(header.time_ms),
        header.session.0,
        // A negative cxid is widened, as in the original.
        i64::from(header.cxid),
        header.zxid.0,
        header.op,
    );
    if !line.ends_with('\n') {
        line.push('\n');
    }
    Ok(line)
}

/// Formats a multi. The data of its operations are in their logged form, which is no text.
fn multi(from: &mut Decoder<'_>) -> Result<String, DecodeError> {
    let mut text = String::new();
    for i in 0..from.int()? {
        let op = OpCode::decode(from)?;
        let data = from.buffer()?;
        let separator = if i == 0 { "" } else { ";" };
        write!(text, "{separator}{op}:{}", readable(data)).expect("memory takes everything");
    }
    Ok(text)
}

fn content(op: OpCode, txn: &Txn<'_>) -> String {
    match txn {
        Txn::Create(create) => created(op, create),
        Txn::SetData { path, data, version } => format!("{path},{},{version}", readable(*data)),
        Txn::CreateSession { timeout_ms } => format!("{timeout_ms}\n"),
        Txn::CloseSession { paths: None } => String::new(),
        Txn::CloseSession { paths: Some(paths) } => {
            let paths: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
            format!("v{{{}}}\n", paths.join(","))
        }
        Txn::Delete { path } => format!("{}\n", quoted(path)),
        Txn::SetAcl { path, acl, version } => {
            let acl: Vec<String> =
                acl.iter().map(|entry| format!("s{{{}}}", fields(entry))).collect();
            format!("{},v{{{}}},{version}\n", quoted(path), acl.join(","))
        }
        Txn::Check { path, version } => format!("{},{version}\n", quoted(path)),
        Txn::Error(code) => format!("{}\n", code.0),
        Txn::Multi(_) => unreachable!("a multi is shown as it is logged"),
    }
}

fn created(op: OpCode, create: &CreateTxn<'_>) -> String {
    // Each record in a list ends with a line break.
    let acl: Vec<String> = create.acl.iter().map(|entry| format!("{}\n", fields(entry))).collect();
    let mut text = format!("{},{},[{}]", create.path, readable(create.data), acl.join(", "));
    if matches!(op, OpCode::CREATE | OpCode::CREATE2) {
        write!(text, ",{}", create.ephemeral).expect("memory takes everything");
    }
    write!(text, ",{}", create.parent_cversion).expect("memory takes everything");
    if op == OpCode::CREATE_TTL {
        write!(text, ",{}", create.ttl_ms).expect("memory takes everything");
    }
    text
}

fn readable(data: Option<&[u8]>) -> String {
    String::from_utf8_lossy(data.unwrap_or_default()).into_owned()
}

/// The fields of an ACL entry.
fn fields(entry: &AclRef<'_>) -> String {
    let text = |text: &Option<_>| text.as_deref().map(quoted).unwrap_or_default();
    format!("{},s{{{},{}}}", entry.perms.0, text(&entry.scheme), text(&entry.id))
}

/// A string of a record. Characters with a special meaning in the format are encoded.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    for c in text.chars() {
        match c {
            '\0' => quoted.push_str("%00"),
            '\n' => quoted.push_str("%0A"),
            '\r' => quoted.push_str("%0D"),
            ',' => quoted.push_str("%2C"),
            '}' => quoted.push_str("%7D"),
            '%' => quoted.push_str("%25"),
            c => quoted.push(c),
        }
    }
    quoted
}
