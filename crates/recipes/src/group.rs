//! Groups: their members, and the data the members publish.

use std::collections::BTreeMap;

use bytes::Bytes;
use zebu_client::{Acls, Client, CreateMode};

use crate::{Cache, Changes, Error, PersistentNode, Result, path};

/// A group whose members are ephemeral children of one znode, compatible with Curator's
/// `GroupMember`.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::Group;
///
/// let group = Group::new(&client, "/workers", &Acls::creator());
/// let amy = group.join("amy", "10.0.0.1").await?;
/// assert_eq!(amy.members().await?["amy"], "10.0.0.1");
/// amy.leave().await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    client: Client,
    path: String,
    acl: Acls,
}

impl Group {
    /// The group below this znode. If the znode is missing, it is created with this ACL.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let group = zebu_recipes::Group::new(&client, "/workers", &Acls::creator());
    /// # drop(group);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        Self { client: client.clone(), path: path.to_owned(), acl: acl.clone() }
    }

    /// Joins the group; returns when this member's znode exists. If another member has the same
    /// name, this waits until it is gone.
    ///
    /// # Errors
    /// [`Error::Name`] for an invalid name; those of [`PersistentNode::keep`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let group = zebu_recipes::Group::new(&client, "/workers", &Acls::creator());
    /// let _amy = group.join("amy", "").await?;
    /// assert!(group.join("a/b", "").await.is_err());
    /// # Ok(()) });
    /// ```
    pub async fn join(&self, name: &str, data: impl AsRef<[u8]>) -> Result<Member> {
        path::check_name(name, &[])?;
        let (path, mode) = (path::join(&self.path, name), CreateMode::Ephemeral);
        let node = PersistentNode::keep(&self.client, &path, data, mode, &self.acl).await?;
        // The cache starts after the create, so it contains this member from the beginning.
        let cache = Cache::children(&self.client, &self.path).start();
        Ok(Member { group: self.path.clone(), name: name.to_owned(), node, cache })
    }
}

/// Membership in a [`Group`]. It ends when this value leaves or is dropped, or the session ends.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let group = zebu_recipes::Group::new(&client, "/workers", &Acls::creator());
/// let (amy, dom) = (group.join("amy", "").await?, group.join("dom", "").await?);
/// println!("{:?}", dom.members().await?);
/// drop(amy);
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "a member that is dropped has left"]
pub struct Member {
    group: String,
    name: String,
    node: PersistentNode,
    cache: Cache,
}

impl Member {
    /// Its name.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let group = zebu_recipes::Group::new(&client, "/workers", &Acls::creator());
    /// assert_eq!(group.join("amy", "").await?.name(), "amy");
    /// # Ok(()) });
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The members and their data, from a [`Cache`]. Waits until the cache is current, and so for a
    /// connection if there is none.
    ///
    /// # Errors
    /// As for [`Cache::current`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let group = zebu_recipes::Group::new(&client, "/workers", &Acls::creator());
    /// let amy = group.join("amy", "").await?;
    /// assert!(amy.members().await?.contains_key("amy"));
    /// # Ok(()) });
    /// ```
    pub async fn members(&self) -> Result<BTreeMap<String, Bytes>> {
        self.cache.current().await?;
        let members = self.cache.children_of(&self.group);
        let member = |znode: &std::sync::Arc<crate::Znode>| {
            (path::name(&znode.path).to_owned(), znode.data.clone())
        };
        Ok(members.iter().map(member).collect())
    }

    /// Changes of the group's members, as the changes of a [`Cache`] of the group's znode and its
    /// children.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let group = zebu_recipes::Group::new(&client, "/workers", &Acls::creator());
    /// let amy = group.join("amy", "").await?;
    /// println!("{:?}", amy.changes().next().await?);
    /// # Ok(()) });
    /// ```
    pub fn changes(&self) -> Changes {
        self.cache.changes()
    }

    /// Changes this member's data.
    ///
    /// # Errors
    /// As for [`PersistentNode::set_data`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let group = zebu_recipes::Group::new(&client, "/workers", &Acls::creator());
    /// group.join("amy", "idle").await?.set_data("busy").await?;
    /// # Ok(()) });
    /// ```
    pub async fn set_data(&self, data: impl AsRef<[u8]>) -> Result<()> {
        self.node.set_data(data).await
    }

    /// Waits until the membership ends, and returns why, as for [`PersistentNode::lost`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let group = zebu_recipes::Group::new(&client, "/workers", &Acls::creator());
    /// let amy = group.join("amy", "").await?;
    /// client.close().await?;
    /// assert!(amy.lost().await.is_session_over());
    /// # Ok(()) });
    /// ```
    pub async fn lost(&self) -> Error {
        self.node.lost().await
    }

    /// Leaves the group, and returns when this member's znode is deleted.
    ///
    /// # Errors
    /// As [`PersistentNode::close`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let group = zebu_recipes::Group::new(&client, "/workers", &Acls::creator());
    /// group.join("amy", "").await?.leave().await?;
    /// # Ok(()) });
    /// ```
    pub async fn leave(self) -> Result<()> {
        self.node.close().await
    }
}
