//! Counts the connections of each identity.

use std::collections::BTreeMap;

/// Counts the connections of each identity, up to a limit.
#[derive(Debug)]
pub struct Identities<I> {
    max: Option<u32>,
    /// The number of connections of each identity; none is 0.
    connections: BTreeMap<I, u32>,
}

impl<I: Ord + Clone> Identities<I> {
    /// Maximum connections of an identity; 0: no limit.
    pub fn new(max: u32) -> Self {
        Self { max: (max > 0).then_some(max), connections: BTreeMap::new() }
    }

    /// Whether connections are counted at all.
    pub fn are_counted(&self) -> bool {
        self.max.is_some()
    }

    /// Counts one more connection of each of these identities, or of none of them.
    ///
    /// # Errors
    /// The identity that already has the maximum.
    pub fn enter<'i>(&mut self, identities: &'i [I]) -> Result<(), &'i I> {
        let Some(max) = self.max else { return Ok(()) };
        let is_full = |it: &&I| self.connections.get(it).is_some_and(|count| *count >= max);
        if let Some(full) = identities.iter().find(is_full) {
            return Err(full);
        }
        for identity in identities {
            *self.connections.entry(identity.clone()).or_default() += 1;
        }
        Ok(())
    }

    /// A connection with these identities has ended.
    pub fn leave(&mut self, identities: &[I]) {
        if self.max.is_none() {
            return;
        }
        for identity in identities {
            let count = self.connections.get_mut(identity).expect("it has entered");
            *count -= 1;
            if *count == 0 {
                self.connections.remove(identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_has_so_many_connections() {
        let mut identities = Identities::new(2);
        assert_eq!(identities.enter(&["amy", "ops"]), Ok(()));
        assert_eq!(identities.enter(&["bob", "ops"]), Ok(()));
        assert_eq!(identities.enter(&["cat", "ops"]), Err(&"ops"));
        assert_eq!(identities.enter(&["cat"]), Ok(()), "a refusal counts for nobody");
        identities.leave(&["amy", "ops"]);
        assert_eq!(identities.enter(&["ops"]), Ok(()));
        for left in [&["bob", "ops"][..], &["cat"], &["ops"]] {
            identities.leave(left);
        }
        assert!(identities.connections.is_empty());
        let mut free = Identities::new(0);
        assert!((0..100).all(|_| free.enter(&["amy"]).is_ok()));
        free.leave(&["amy"]);
        assert!(free.connections.is_empty());
    }
}
