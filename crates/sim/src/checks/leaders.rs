//! P-1 and S-3: an epoch has one leader in the whole run.

use std::collections::BTreeMap;

use zebu_proto::Epoch;

/// The leader of each epoch.
#[derive(Default)]
pub(crate) struct Leaders(BTreeMap<Epoch, usize>);

impl Leaders {
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The leader of `epoch`.
    pub(crate) fn of(&self, epoch: Epoch) -> Option<usize> {
        self.0.get(&epoch).copied()
    }

    pub(crate) fn established(&mut self, server: usize, epoch: Epoch) -> Result<(), String> {
        match self.0.insert(epoch, server) {
            None => Ok(()),
            Some(other) => {
                Err(format!("S-3: servers {other} and {server} both lead epoch {}", epoch.0))
            }
        }
    }
}
