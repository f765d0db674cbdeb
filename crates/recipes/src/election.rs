//! Leader election: the holder of a lock leads.

use zebu_client::{Acls, Client};

use crate::layout::Layout;
use crate::{Held, Lock, Result, Token};

/// A continuous election: one candidate leads, the others wait in line.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::{Election, News};
///
/// let election = Election::new(&client, "/leader", &Acls::creator());
/// let mut leadership = election.lead("host 1").await?;
/// let leader = election.leader().await?.expect("there is one");
/// assert_eq!((leader.name.as_str(), leader.token), ("host 1", leadership.token()));
/// tokio::select! {
///     news = leadership.news() => assert_ne!(news, News::Lost), // stop leading
///     () = async { /* lead */ } => {}
/// }
/// leadership.release().await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    lock: Lock,
}

/// A candidate: the leader, or one that waits.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// let election = zebu_recipes::Election::new(&client, "/leader", &Acls::creator());
/// assert_eq!(election.leader().await?, None);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// The token that the leader presents to resources outside the ensemble.
    pub token: Token,
}

impl Election {
    /// The election below this znode. If the znode is missing, it is created with this ACL.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let election = zebu_recipes::Election::new(&client, "/leader", &Acls::creator());
    /// # drop(election);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        Self { lock: Lock::new(client, path, acl) }
    }

    /// The election below this znode, together with candidates that use Curator's `LeaderSelector`
    /// with the same path.
    ///
    /// A candidate's znode is `PATH/_c_ID-lock-NUMBER`, its data are the candidate's name.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let election = zebu_recipes::Election::of_selector(&client, "/leader", &Acls::creator());
    /// let leadership = election.lead("host 1").await?;
    /// assert!(leadership.path().ends_with("-lock-0000000000"));
    /// # Ok(()) });
    /// ```
    pub fn of_selector(client: &Client, path: &str, acl: &Acls) -> Self {
        Self { lock: Lock::in_layout(client, path, acl, Layout::Mutex) }
    }

    /// The election below this znode, together with candidates that use Curator's `LeaderLatch`
    /// with the same path.
    ///
    /// A candidate's znode is `PATH/_c_ID-latch-NUMBER`, its data are the candidate's name.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let election = zebu_recipes::Election::of_latch(&client, "/leader", &Acls::creator());
    /// let leadership = election.lead("host 1").await?;
    /// assert!(leadership.path().ends_with("-latch-0000000000"));
    /// # Ok(()) });
    /// ```
    pub fn of_latch(client: &Client, path: &str, acl: &Acls) -> Self {
        Self { lock: Lock::in_layout(client, path, acl, Layout::Latch) }
    }

    /// The election below this znode, together with candidates that use `Election` of the Python
    /// package kazoo with the same path.
    ///
    /// A candidate's znode is `PATH/_c_ID-__lock__NUMBER`, its data are the candidate's name.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let election = zebu_recipes::Election::of_kazoo(&client, "/leader", &Acls::creator());
    /// let leadership = election.lead("host 1").await?;
    /// assert!(leadership.path().ends_with("__lock__0000000000"));
    /// # Ok(()) });
    /// ```
    pub fn of_kazoo(client: &Client, path: &str, acl: &Acls) -> Self {
        Self { lock: Lock::of_kazoo(client, path, acl) }
    }

    /// Waits until this candidate leads. The leader must stop leading at
    /// [`News::Suspended`](crate::News::Suspended).
    ///
    /// Dropping the future withdraws the candidate.
    ///
    /// # Errors
    /// As for [`Lock::exclusive`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let election = zebu_recipes::Election::new(&client, "/leader", &Acls::creator());
    /// let leadership = election.lead("host 1").await?;
    /// leadership.release().await?;
    /// # Ok(()) });
    /// ```
    pub async fn lead(&self, name: &str) -> Result<Held> {
        self.lock.clone().named(name).exclusive().await
    }

    /// The leader; `None` if there is no candidate.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let election = zebu_recipes::Election::new(&client, "/leader", &Acls::creator());
    /// let _leadership = election.lead("host 1").await?;
    /// assert_eq!(election.leader().await?.expect("there is one").name, "host 1");
    /// # Ok(()) });
    /// ```
    pub async fn leader(&self) -> Result<Option<Candidate>> {
        Ok(self.candidates().await?.into_iter().next())
    }

    /// The leader, followed by the waiting candidates in order.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let election = zebu_recipes::Election::new(&client, "/leader", &Acls::creator());
    /// let _leadership = election.lead("host 1").await?;
    /// assert_eq!(election.candidates().await?.len(), 1);
    /// # Ok(()) });
    /// ```
    pub async fn candidates(&self) -> Result<Vec<Candidate>> {
        let line = self.lock.line().await?;
        let candidate = |contender: crate::Contender| Candidate {
            name: String::from_utf8_lossy(&contender.data).into_owned(),
            token: contender.token,
        };
        Ok(line.into_iter().map(candidate).collect())
    }
}
