//! Two-phase commit: all participants carry out a proposal, or none does. A crashed participant
//! does not block the others.

use std::collections::{BTreeMap, BTreeSet};

use zebu_client::{Acls, Client, CreateMode, ErrorCode, ErrorKind, Retry};

use crate::{Children, Error, Result, faults, path};

/// The decision about a proposal.
///
/// ```
/// assert_ne!(zebu_recipes::Decision::Commit, zebu_recipes::Decision::Abort);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Commit: all participants have agreed, and all of them carry it out.
    Commit,
    /// Abort: no participant carries it out.
    Abort,
}

impl Decision {
    fn word(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Abort => "abort",
        }
    }
}

/// A proposal to several participants.
///
/// ```
/// use zebu_recipes::Proposal;
///
/// let proposal =
///     Proposal { participants: ["a", "b"].map(str::to_owned).into(), text: "transfer 10".into() };
/// assert_eq!(proposal.participants.len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The participants that must agree. Their names become names of znodes: not empty, and without
    /// slashes.
    pub participants: BTreeSet<String>,
    /// The content of the proposal.
    pub text: String,
}

/// A two-phase commit.
///
/// ```text
/// PATH            the proposal
/// PATH/alive      ephemeral: the proposer is alive, so participants wait for missing votes
/// PATH/votes/P    the vote of participant P: yes or no
/// PATH/decision   commit or abort: the process that creates it decides, finally
/// ```
///
/// The decision is the creation of a znode, which succeeds once, so any participant can make it:
/// commit when all have voted yes; abort when one has voted no, or when the proposer's session has
/// ended and votes are missing. So a crashed process never blocks the others. A participant that
/// votes yes must be able to carry out its part later, even after a crash: it then reads the
/// decision here.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::{Agreement, Decision, Proposal};
///
/// let agreement = Agreement::new(&client, "/transfer", &Acls::creator());
/// let participants = ["a", "b"].map(str::to_owned).into();
/// agreement.propose(&Proposal { participants, text: "10 from a to b".into() }).await?;
/// agreement.vote("a", true).await?;
/// agreement.vote("b", true).await?;
/// assert_eq!(agreement.decision().await?, Decision::Commit);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Agreement {
    client: Client,
    acl: Acls,
    path: String,
}

/// Encodes the proposal as text: a line of names, then the content. White space, control characters
/// and percent signs in names are percent-encoded, for example `%20` for a blank.
fn written(proposal: &Proposal) -> String {
    let mut text = String::new();
    for name in &proposal.participants {
        for c in name.chars() {
            if c == '%' || c.is_whitespace() || c.is_control() {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    text.push_str(&format!("%{byte:02x}"));
                }
            } else {
                text.push(c);
            }
        }
        text.push(' ');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text.push_str(&proposal.text);
    text
}

/// Parses that text; `None` if it is not a proposal.
fn read(text: &str) -> Option<Proposal> {
    let (names, text) = text.split_once('\n')?;
    let participants: Option<_> =
        names.split(' ').filter(|name| !name.is_empty()).map(name).collect();
    Some(Proposal { participants: participants?, text: text.to_owned() })
}

fn name(written: &str) -> Option<String> {
    let mut pieces = written.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        bytes.push(u8::from_str_radix(piece.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

/// The decision that follows from the votes, if any.
fn outcome(
    participants: &BTreeSet<String>,
    votes: &BTreeMap<String, bool>,
    is_proposer_alive: bool,
) -> Option<Decision> {
    let vote = |participant| votes.get(participant);
    if participants.iter().any(|participant| vote(participant) == Some(&false)) {
        return Some(Decision::Abort);
    }
    if participants.iter().all(|participant| vote(participant) == Some(&true)) {
        return Some(Decision::Commit);
    }
    (!is_proposer_alive).then_some(Decision::Abort)
}

impl Agreement {
    /// The agreement in this znode, whose parent must exist.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let agreement = zebu_recipes::Agreement::new(&client, "/transfer", &Acls::creator());
    /// # drop(agreement);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        Self { client: client.clone(), path: path.to_owned(), acl: acl.clone() }
    }

    /// Makes a proposal. It is aborted if votes are missing when the session of this client ends.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if there already is a proposal; the errors of the request. After
    /// [`ErrorKind::Unknown`] the proposal may exist: [`Agreement::proposal`] reads it.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Agreement, Proposal};
    /// let agreement = Agreement::new(&client, "/transfer", &Acls::creator());
    /// let proposal = Proposal { participants: ["a".to_owned()].into(), text: "10 to a".into() };
    /// agreement.propose(&proposal).await?;
    /// agreement.propose(&proposal).await.unwrap_err();
    /// # Ok(()) });
    /// ```
    pub async fn propose(&self, proposal: &Proposal) -> Result<()> {
        for name in &proposal.participants {
            path::check_name(name, &[])?;
        }
        let data = written(proposal);
        let commit = || {
            let mut transaction = self.client.transaction();
            let (persistent, acl) = (CreateMode::Persistent, &self.acl);
            transaction.create(&self.path, &data, persistent, acl);
            transaction.create(&self.below("votes"), "", persistent, acl);
            transaction.create(&self.below("alive"), "", CreateMode::Ephemeral, acl);
            transaction.commit()
        };
        Retry::default().writes(commit).await?;
        Ok(())
    }

    /// The proposal; `None` if there is none.
    ///
    /// # Errors
    /// The errors of reading; [`Error::Foreign`] if the znode is of another kind.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let agreement = zebu_recipes::Agreement::new(&client, "/transfer", &Acls::creator());
    /// assert_eq!(agreement.proposal().await?, None);
    /// # Ok(()) });
    /// ```
    pub async fn proposal(&self) -> Result<Option<Proposal>> {
        let data = match self.read(&self.path).await? {
            Some(data) => data,
            None => return Ok(None),
        };
        let proposal = read(&data).ok_or_else(|| Error::Foreign(self.path.clone()))?;
        Ok(Some(proposal))
    }

    /// Casts a participant's vote. The first vote counts; a different later one is an error.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if the participant has voted differently; [`ErrorKind::Gone`] if
    /// there is no proposal; the errors of the request.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Agreement, Proposal};
    /// let agreement = Agreement::new(&client, "/transfer", &Acls::creator());
    /// let proposal = Proposal { participants: ["a".to_owned()].into(), text: "10 to a".into() };
    /// agreement.propose(&proposal).await?;
    /// agreement.vote("a", false).await?;
    /// agreement.vote("a", false).await?;
    /// agreement.vote("a", true).await.unwrap_err();
    /// # Ok(()) });
    /// ```
    pub async fn vote(&self, participant: &str, yes: bool) -> Result<()> {
        path::check_name(participant, &[])?;
        let path = path::join(&self.below("votes"), participant);
        let word = if yes { "yes" } else { "no" };
        let create = || self.client.create(&path, word, CreateMode::Persistent, &self.acl);
        match Retry::default().reads(create).await {
            Err(error) if error.code() == ErrorCode::NODE_EXISTS => match self.read(&path).await? {
                Some(said) if said == word => Ok(()),
                _ => Err(error.into()),
            },
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    /// Waits for the decision, and makes it as soon as that is possible.
    ///
    /// # Errors
    /// [`Error::Deleted`] if there is no proposal; the errors of the requests.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Agreement, Decision, Proposal};
    /// let agreement = Agreement::new(&client, "/transfer", &Acls::creator());
    /// let proposal = Proposal { participants: ["a".to_owned()].into(), text: "10 to a".into() };
    /// agreement.propose(&proposal).await?;
    /// agreement.vote("a", false).await?;
    /// assert_eq!(agreement.decision().await?, Decision::Abort);
    /// # Ok(()) });
    /// ```
    pub async fn decision(&self) -> Result<Decision> {
        let Some(Proposal { participants, .. }) = self.proposal().await? else {
            return Err(Error::Deleted(self.path.clone()));
        };
        // Watches on the votes, on the decision, and on the proposer's ephemeral znode.
        let mut votes = Children::of(&self.client, &self.below("votes"));
        let mut signs = Children::of(&self.client, &self.path);
        let (mut voted, mut seen) = (votes.next().await?, signs.next().await?);
        loop {
            let is_there =
                |name| seen.as_ref().is_some_and(|seen: &BTreeSet<String>| seen.contains(name));
            if is_there("decision") {
                return self.decided().await;
            }
            if seen.is_none() {
                return Err(Error::Deleted(self.path.clone()));
            }
            let mut found = BTreeMap::new();
            for name in voted.iter().flatten() {
                if let Some(word) = self.read(&path::join(&self.below("votes"), name)).await? {
                    found.insert(name.clone(), word == "yes");
                }
            }
            if let Some(decision) = outcome(&participants, &found, is_there("alive")) {
                return self.decide(decision).await;
            }
            tokio::select! {
                biased;
                next = votes.next() => voted = next?,
                next = signs.next() => seen = next?,
            }
        }
    }

    /// Aborts, unless there is a decision already, and returns the decision. For a proposer that
    /// does not want to wait longer.
    ///
    /// # Errors
    /// The errors of the requests.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Agreement, Decision, Proposal};
    /// let agreement = Agreement::new(&client, "/transfer", &Acls::creator());
    /// let proposal = Proposal { participants: ["a".to_owned()].into(), text: "10 to a".into() };
    /// agreement.propose(&proposal).await?;
    /// assert_eq!(agreement.abort().await?, Decision::Abort);
    /// # Ok(()) });
    /// ```
    pub async fn abort(&self) -> Result<Decision> {
        self.decide(Decision::Abort).await
    }

    /// Records a decision. If another process was faster, its decision counts.
    async fn decide(&self, decision: Decision) -> Result<Decision> {
        let path = self.below("decision");
        let create =
            || self.client.create(&path, decision.word(), CreateMode::Persistent, &self.acl);
        match Retry::default().reads(create).await {
            Ok(_) => Ok(decision),
            Err(error) if error.code() == ErrorCode::NODE_EXISTS && faults::decides_alone() => {
                Ok(decision)
            }
            Err(error) if error.code() == ErrorCode::NODE_EXISTS => self.decided().await,
            Err(error) => Err(error.into()),
        }
    }

    async fn decided(&self) -> Result<Decision> {
        let path = self.below("decision");
        match self.read(&path).await?.as_deref() {
            Some("commit") => Ok(Decision::Commit),
            Some("abort") => Ok(Decision::Abort),
            _ => Err(Error::Foreign(path)),
        }
    }

    async fn read(&self, path: &str) -> Result<Option<String>> {
        match Retry::default().reads(|| self.client.get_data(path)).await {
            Ok((data, _)) => Ok(Some(String::from_utf8_lossy(&data).into_owned())),
            Err(error) if error.kind() == ErrorKind::Gone => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn below(&self, name: &str) -> String {
        path::join(&self.path, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(votes: &str, is_proposer_alive: bool, expected: Option<Decision>) {
        let participants = ["a", "b"].map(str::to_owned).into();
        let votes = votes.split_whitespace().map(|vote| {
            let (name, word) = vote.split_once('=').unwrap();
            (name.to_owned(), word == "yes")
        });
        assert_eq!(outcome(&participants, &votes.collect(), is_proposer_alive), expected);
    }

    #[test]
    fn names_stay_whole() {
        for names in
            [&[][..], &["a"], &["a b", "b"], &["100%", "%20", "é è", "one\ntwo\tthree", " "]]
        {
            let participants: BTreeSet<String> =
                names.iter().map(|name| name.to_string()).collect();
            let proposal = Proposal { participants, text: "do it\nall".into() };
            assert_eq!(read(&written(&proposal)), Some(proposal));
        }
        // The encoding must stay readable for older programs.
        let proposal =
            Proposal { participants: ["a", "b"].map(str::to_owned).into(), text: "c".into() };
        assert_eq!(written(&proposal), "a b\nc");
        for text in ["no line", "a%2\n", "a%zz\n", "%ff\n"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn all_must_agree() {
        check("a=yes b=yes", true, Some(Decision::Commit));
        check("a=yes b=yes", false, Some(Decision::Commit));
        check("a=yes b=no", true, Some(Decision::Abort));
        check("b=no", true, Some(Decision::Abort));
    }

    #[test]
    fn a_missing_vote_is_waited_for_while_there_is_somebody_to_ask() {
        check("a=yes", true, None);
        check("", true, None);
        check("a=yes", false, Some(Decision::Abort));
        // Votes of processes that are not participants do not count.
        check("a=yes c=no d=yes", true, None);
    }
}
