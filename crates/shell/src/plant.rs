//! Creates many znodes, parents first, with many requests in flight.

use std::collections::VecDeque;

use bytes::Bytes;
use zebu_client::{Acls, Client, CreateMode, Created, ErrorCode, Pending, Version};

use crate::failure::{Failure, Result};
use crate::progress::Progress;

/// Maximum number of creates in flight.
const WINDOW: usize = 128;

/// Maximum bytes of data in flight.
const WINDOW_BYTES: usize = 8 * 1024 * 1024;

/// A znode to create.
#[derive(Clone, Debug)]
pub(crate) struct Seedling {
    pub(crate) path: String,
    pub(crate) data: Option<Bytes>,
    pub(crate) acl: Acls,
}

impl Seedling {
    fn bytes(&self) -> usize {
        self.data.as_ref().map_or(0, Bytes::len)
    }
}

/// Numbers of created and overwritten znodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Planted {
    pub(crate) created: usize,
    pub(crate) overwritten: usize,
}

/// Creates znodes in the given order.
pub(crate) struct Planter<'a> {
    client: &'a Client,
    /// Whether existing znodes get the new data and ACL. Otherwise an existing znode is an error.
    overwrite: bool,
    under_way: VecDeque<(Seedling, Pending<Created>)>,
    bytes: usize,
    planted: Planted,
    progress: &'a Progress,
}

impl<'a> Planter<'a> {
    pub(crate) fn new(client: &'a Client, overwrite: bool, progress: &'a Progress) -> Self {
        let planted = Planted::default();
        Self { client, overwrite, under_way: VecDeque::new(), bytes: 0, planted, progress }
    }

    /// Adds a znode. Its request may be sent later.
    pub(crate) async fn plant(&mut self, seedling: Seedling) -> Result {
        while !self.under_way.is_empty()
            && (self.under_way.len() >= WINDOW || self.bytes + seedling.bytes() > WINDOW_BYTES)
        {
            self.settle_one().await?;
        }
        let Seedling { path, data, acl } = &seedling;
        let created = match data {
            Some(data) => self.client.create(path, data, CreateMode::Persistent, acl),
            None => self.client.create_null(path, CreateMode::Persistent, acl),
        };
        self.bytes += seedling.bytes();
        self.under_way.push_back((seedling, created));
        Ok(())
    }

    /// Waits for all answers.
    pub(crate) async fn finish(mut self) -> Result<Planted> {
        while !self.under_way.is_empty() {
            self.settle_one().await?;
        }
        Ok(self.planted)
    }

    async fn settle_one(&mut self) -> Result {
        let Some((seedling, created)) = self.under_way.pop_front() else { return Ok(()) };
        self.bytes -= seedling.bytes();
        match created.await {
            Ok(_) => self.planted.created += 1,
            Err(error) if error.code() == ErrorCode::NODE_EXISTS && self.overwrite => {
                let Seedling { path, data, acl } = &seedling;
                let data = data.as_deref().unwrap_or_default();
                let set = self.client.set_data(path, data, Version::ANY);
                let allowed = self.client.set_acl(path, acl, Version::ANY);
                set.await?;
                allowed.await?;
                self.planted.overwritten += 1;
            }
            Err(error) if error.code() == ErrorCode::NODE_EXISTS => {
                return Err(Failure::from(error).hint("overwrite existing znodes with -f"));
            }
            Err(error) => return Err(error.into()),
        }
        self.progress.advance(1);
        Ok(())
    }
}
