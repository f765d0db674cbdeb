//! The commands, one file for each group. Each command runs in a [`Context`].

mod access;
mod copy;
mod edit;
mod ensemble;
mod export;
mod follow;
mod import;
mod quota;
mod survey;
mod watching;
mod znodes;

use std::sync::Arc;

use parking_lot::Mutex;
use zebu_client::Client;

use crate::failure::{Failure, Result};
use crate::options::Arguments;
use crate::output::Output;
use crate::session::{Settings, Watches};

/// Schemes and credentials, which are never printed.
pub(crate) type Credentials = Arc<Mutex<Vec<(String, String)>>>;

/// The environment of a command.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) out: Output,
    pub(crate) watches: Watches,
    /// Settings for opening a second session.
    pub(crate) settings: Settings,
    /// Credentials that the user has given.
    pub(crate) credentials: Credentials,
}

/// Runs a command that needs a session.
///
/// # Errors
/// The reason for the failure. Changes made before the failure remain.
pub(crate) async fn run(cx: &Context, name: &str, args: &Arguments) -> Result {
    match name {
        "addWatch" => watching::add_watch(cx, args).await,
        "addauth" => access::add_auth(cx, args).await,
        "config" => ensemble::config(cx, args).await,
        "cp" => copy::cp(cx, args).await,
        "create" => znodes::create(cx, args).await,
        "delete" => znodes::delete(cx, args).await,
        "deleteall" => znodes::delete_all(cx, args).await,
        "delquota" => quota::delete(cx, args).await,
        "du" => survey::du(cx, args).await,
        "edit" => edit::edit(cx, args).await,
        "export" => export::export(cx, args).await,
        "find" => survey::find(cx, args).await,
        "get" => znodes::get(cx, args).await,
        "getAcl" => access::get_acl(cx, args).await,
        "getAllChildrenNumber" => znodes::count_children(cx, args).await,
        "getEphemerals" => znodes::ephemerals(cx, args).await,
        "grep" => survey::grep(cx, args).await,
        "import" => import::import(cx, args).await,
        "listquota" => quota::list(cx, args).await,
        "ls" => znodes::ls(cx, args).await,
        "reconfig" => ensemble::reconfig(cx, args).await,
        "removewatches" => watching::remove_watches(cx, args).await,
        "set" => znodes::set(cx, args).await,
        "setAcl" => access::set_acl(cx, args).await,
        "setquota" => quota::set(cx, args).await,
        "stat" => znodes::stat(cx, args).await,
        "sync" => znodes::sync(cx, args).await,
        "tree" => survey::tree(cx, args).await,
        "version" => ensemble::version(cx),
        "watch" => follow::watch(cx, args).await,
        "whoami" => access::who_am_i(cx).await,
        other => Err(Failure::unknown_command(other, None)),
    }
}
