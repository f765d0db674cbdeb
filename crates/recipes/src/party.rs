//! Parties: programs that see each other, with kazoo's znodes.

use zebu_client::{Acls, Client, CreateMode, ErrorKind, Retry};

use crate::{Error, PersistentNode, Result, path};

/// The part of a member's name behind its unique beginning, in a party whose names are data.
///
/// Source: kazoo's `Party._NODE_NAME`.
const MEMBER: &str = "__party__";

/// A party whose members see each other's names. It is compatible with `Party` and `ShallowParty`
/// of the Python package kazoo with the same path.
///
/// ```text
/// PATH/ID__party__   ephemeral: a member; its data are the name
/// PATH/ID-NAME       ephemeral: a member of a shallow party
/// ```
///
/// A [`Group`](crate::Group) has one znode for each name. A party has one znode for each member, so
/// two members may have the same name.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::Party;
///
/// let party = Party::new(&client, "/workers", &Acls::creator());
/// let amy = party.join("amy").await?;
/// assert_eq!(party.members().await?, ["amy"]);
/// amy.leave().await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Party {
    client: Client,
    path: String,
    acl: Acls,
    is_shallow: bool,
}

impl Party {
    /// The party below this znode. Joining creates the znode with this ACL if it is missing. The
    /// names of the members are the data of their znodes, so a name may be any text.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let party = zebu_recipes::Party::new(&client, "/workers", &Acls::creator());
    /// assert!(party.members().await?.is_empty());
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        let (client, acl) = (client.clone(), acl.clone());
        Self { client, path: path.to_owned(), acl, is_shallow: false }
    }

    /// The shallow party below this znode: the names of the members are in the names of their
    /// znodes, so one request reads them all.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let party = zebu_recipes::Party::shallow(&client, "/workers", &Acls::creator());
    /// let _amy = party.join("amy").await?;
    /// assert!(client.get_children("/workers").await?.0[0].ends_with("-amy"));
    /// # Ok(()) });
    /// ```
    pub fn shallow(client: &Client, path: &str, acl: &Acls) -> Self {
        Self { is_shallow: true, ..Self::new(client, path, acl) }
    }

    /// Joins the party; returns when this member's znode exists. If another client deletes the
    /// znode, the member creates it again.
    ///
    /// # Errors
    /// [`Error::Name`] in a shallow party for a name that no znode can have; those of
    /// [`PersistentNode::keep`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let party = zebu_recipes::Party::new(&client, "/workers", &Acls::creator());
    /// let (_one, _two) = (party.join("amy").await?, party.join("amy").await?);
    /// assert_eq!(party.members().await?, ["amy", "amy"]);
    /// # Ok(()) });
    /// ```
    pub async fn join(&self, name: &str) -> Result<PartyMember> {
        // kazoo takes the text after the first dash for the name.
        let id = self.client.unique_name().replace('-', "");
        let znode = if self.is_shallow {
            path::check_name(name, &[])?;
            format!("{id}-{name}")
        } else {
            format!("{id}{MEMBER}")
        };
        let path = path::join(&self.path, &znode);
        let mode = CreateMode::Ephemeral;
        let node = PersistentNode::keep(&self.client, &path, name, mode, &self.acl).await?;
        Ok(PartyMember { znode, node })
    }

    /// The names of the members, sorted.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let party = zebu_recipes::Party::new(&client, "/workers", &Acls::creator());
    /// let (_dom, _amy) = (party.join("dom").await?, party.join("amy").await?);
    /// assert_eq!(party.members().await?, ["amy", "dom"]);
    /// # Ok(()) });
    /// ```
    pub async fn members(&self) -> Result<Vec<String>> {
        let read = || async {
            let names = match self.client.get_children(&self.path).await {
                Ok((names, _)) => names,
                Err(error) if error.kind() == ErrorKind::Gone => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            if self.is_shallow {
                return Ok(names.iter().map(|name| name_of(name).to_owned()).collect());
            }
            let members = names.iter().filter(|name| name.contains(MEMBER));
            let reads: Vec<_> =
                members.map(|name| self.client.get_data(&path::join(&self.path, name))).collect();
            let mut found = Vec::with_capacity(reads.len());
            for read in reads {
                match read.await {
                    Ok((data, _)) => found.push(String::from_utf8_lossy(&data).into_owned()),
                    // The member has left meanwhile.
                    Err(error) if error.kind() == ErrorKind::Gone => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(found)
        };
        let mut members = Retry::default().reads(read).await?;
        members.sort_unstable();
        Ok(members)
    }
}

/// The name of a member of a shallow party.
///
/// Source: kazoo's `ShallowParty.__iter__`.
pub(crate) fn name_of(znode: &str) -> &str {
    znode.split_once('-').map_or(znode, |(_, name)| name)
}

/// Membership in a [`Party`]. It ends when this value leaves or is dropped, or the session ends.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let party = zebu_recipes::Party::new(&client, "/workers", &Acls::creator());
/// party.join("amy").await?.leave().await?;
/// assert!(party.members().await?.is_empty());
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "a member that is dropped has left"]
pub struct PartyMember {
    znode: String,
    node: PersistentNode,
}

impl PartyMember {
    /// The name of the member's znode.
    pub(crate) fn znode(&self) -> &str {
        &self.znode
    }

    /// Waits until the membership ends, and returns why, as for [`PersistentNode::lost`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let party = zebu_recipes::Party::new(&client, "/workers", &Acls::creator());
    /// let amy = party.join("amy").await?;
    /// client.close().await?;
    /// assert!(amy.lost().await.is_session_over());
    /// # Ok(()) });
    /// ```
    pub async fn lost(&self) -> Error {
        self.node.lost().await
    }

    /// Leaves the party, and returns when the member's znode is deleted.
    ///
    /// # Errors
    /// As for [`PersistentNode::close`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let party = zebu_recipes::Party::shallow(&client, "/workers", &Acls::creator());
    /// party.join("amy").await?.leave().await?;
    /// # Ok(()) });
    /// ```
    pub async fn leave(self) -> Result<()> {
        self.node.close().await
    }
}
