//! How processes enter and leave a double barrier with the znodes of the Python package kazoo.

use std::collections::BTreeSet;

use zebu_client::{
    Acls, Client, CreateMode, ErrorKind, EventKind, Retry, SessionState, Signal, Version, Watch,
};

use crate::place::Place;
use crate::{Error, Result, path};

/// The znode whose creation opens the barrier.
const READY: &str = "ready";

/// A double barrier with kazoo's znodes.
///
/// ```text
/// PATH/ID      ephemeral: a process that is inside, or waits to enter; its data are the name
/// PATH/ready   enough processes have come
/// ```
///
/// Source: kazoo's `DoubleBarrier`.
#[derive(Clone, Debug)]
pub(crate) struct KazooBarrier {
    pub(crate) client: Client,
    pub(crate) path: String,
    pub(crate) size: usize,
    pub(crate) acl: Acls,
}

impl KazooBarrier {
    /// Waits until enough processes have come.
    pub(crate) async fn enter(&self, name: &str) -> Result<Place> {
        Retry::default().reads(|| self.client.create_all(&self.path, &self.acl)).await?;
        let ready = path::join(&self.path, READY);
        // The watch is set before this process comes: others may enter and leave, and so delete
        // `ready`, before this process looks.
        let watch = || self.client.watch_exists(&ready);
        let (_, mut opened) = Retry::default().reads(watch).await?;
        let (mode, name) = (CreateMode::Ephemeral, name.as_bytes());
        let place = Place::protected(&self.client, &self.path, "in", mode, name, &self.acl).await?;
        loop {
            let look = || async {
                let children = self.client.watch_children(&self.path);
                let ready = self.client.exists(&ready);
                Ok((children.await?, ready.await?))
            };
            let ((names, _, come), stat) = Retry::default().reads(look).await?;
            if !names.iter().any(|name| name == place.name()) {
                return Err(Error::Deleted(place.path().to_owned()));
            }
            // A `ready` that is older than this process was left behind by processes that died.
            if stat.is_some_and(|stat| stat.czxid > place.created()) {
                return Ok(place);
            }
            if others(&names, place.name()).count() + 1 >= self.size {
                self.open(&ready).await?;
                return Ok(place);
            }
            tokio::select! {
                biased;
                event = next_event(&mut opened) => match event? {
                    Some(EventKind::Created) => return Ok(place),
                    Some(_) => (_, opened) = Retry::default().reads(watch).await?,
                    None => {}
                },
                come = come => drop(come?),
            }
        }
    }

    /// Lets the processes enter that wait for the creation of `ready`.
    async fn open(&self, ready: &str) -> Result<()> {
        let create = || self.client.create(ready, "", CreateMode::Persistent, &self.acl);
        match Retry::default().reads(create).await {
            Err(error) if error.kind() != ErrorKind::Conflict => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Waits until every process that is inside now wants to leave, or is gone.
    pub(crate) async fn leave(&self, mut place: Place) -> Result<()> {
        let ready = path::join(&self.path, READY);
        let close = || self.client.delete(&ready, Version::ANY);
        match Retry::default().reads(close).await {
            Err(error) if error.kind() != ErrorKind::Gone => return Err(error.into()),
            _ => {}
        }
        let mut inside: BTreeSet<String> =
            others(&self.names().await?, place.name()).map(str::to_owned).collect();
        // The lowest process stays until all others have left, and the others wait for it: each
        // process watches one znode.
        let is_lowest = inside.first().is_none_or(|lowest| place.name() < lowest.as_str());
        if !is_lowest {
            place.leave().await?;
        }
        loop {
            let names: BTreeSet<String> = self.names().await?.into_iter().collect();
            inside.retain(|name| names.contains(name));
            let next = if is_lowest { inside.last() } else { inside.first() };
            let Some(next) = next else { break };
            let path = path::join(&self.path, next);
            let (stat, gone) = Retry::default().reads(|| self.client.watch_exists(&path)).await?;
            if stat.is_some() {
                gone.await?;
            }
        }
        if is_lowest {
            place.leave().await?;
        }
        Ok(())
    }

    async fn names(&self) -> Result<Vec<String>> {
        match Retry::default().reads(|| self.client.get_children(&self.path)).await {
            Ok((names, _)) => Ok(names),
            Err(error) if error.kind() == ErrorKind::Gone => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The names of the other processes.
fn others<'a>(names: &'a [String], own: &'a str) -> impl Iterator<Item = &'a str> {
    names.iter().map(String::as_str).filter(move |name| *name != READY && *name != own)
}

/// Waits for the event of a watch. `None` if the connection is lost: then no event arrives, and a
/// new read finds out whether a server is reachable.
async fn next_event(watch: &mut Watch) -> Result<Option<EventKind>> {
    loop {
        match watch.next().await? {
            Signal::Event(event) => return Ok(Some(event.kind)),
            Signal::Session(SessionState::Disconnected) => return Ok(None),
            Signal::Session(_) => {}
        }
    }
}
