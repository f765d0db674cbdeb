//! Permission checks before a write is ordered. They spare the ensemble a transaction that would
//! fail.
//! Source: property `zookeeper.enableEagerACLCheck`.

use std::borrow::Cow;

use zebu_jute::{Decode, Decoder};
use zebu_proto::request::{Create, CreateTtl, PathVersion, SetAcl, SetData};
use zebu_proto::{ErrorCode, OpCode, Perms, path};
use zebu_tree::Tree;

use crate::auth::Schemes;
use crate::io::Request;
use crate::prep::Rules;

/// Checks a write against the applied tree. If the znode is missing here, the check is left to the
/// ordered request.
///
/// # Errors
/// [`ErrorCode::NO_AUTH`] or [`ErrorCode::INVALID_ACL`].
pub(crate) fn eager_check(
    tree: &Tree,
    schemes: &Schemes,
    rules: &Rules,
    request: &Request,
) -> Result<(), ErrorCode> {
    let permit = |path: Option<&str>, wanted| match path.and_then(|path| tree.node(path)) {
        Some(node) if !schemes.permits(node.acl(), wanted, &request.ids) => Err(ErrorCode::NO_AUTH),
        _ => Ok(()),
    };
    let body = &request.body[..];
    let expanded_bytes_max = rules.expanded_bytes_max(body.len());
    match request.op {
        OpCode::CREATE | OpCode::CREATE2 => {
            if let Ok(create) = Create::from_bytes(body) {
                schemes.fix_up(create.acl, &request.ids, expanded_bytes_max)?;
                permit(parent(&create.path), Perms::CREATE)?;
            }
        }
        OpCode::CREATE_TTL => {
            if let Ok(create) = CreateTtl::from_bytes(body) {
                schemes.fix_up(create.acl, &request.ids, expanded_bytes_max)?;
                permit(parent(&create.path), Perms::CREATE)?;
            }
        }
        OpCode::DELETE => {
            if let Ok(delete) = PathVersion::decode(&mut Decoder::new(body)) {
                permit(parent(&delete.path), Perms::DELETE)?;
            }
        }
        OpCode::SET_DATA => {
            if let Ok(set) = SetData::from_bytes(body) {
                permit(set.path.as_deref(), Perms::WRITE)?;
            }
        }
        OpCode::SET_ACL => {
            if let Ok(set) = SetAcl::from_bytes(body) {
                schemes.fix_up(set.acl, &request.ids, expanded_bytes_max)?;
                permit(set.path.as_deref(), Perms::ADMIN)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// The parent of a request's path.
fn parent<'p>(path: &'p Option<Cow<'_, str>>) -> Option<&'p str> {
    path::split(path.as_deref()?).map(|(parent, _)| parent)
}
