//! A walk through a subtree: parents before children, siblings by name, with many requests in
//! flight.

use bytes::Bytes;
use zebu_client::{Acl, Client, Error, ErrorKind, Pending, Stat};

/// Maximum number of reads in flight.
const WINDOW: usize = 128;

/// Maximum number of reads in flight if data are read, which may be large.
const WINDOW_WITH_DATA: usize = 32;

/// The parts of each znode to read, besides its stat and the names of its children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) data: bool,
    pub(crate) acl: bool,
}

/// A znode that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) path: String,
    /// Depth below the root of the walk, which has 0.
    pub(crate) depth: u32,
    pub(crate) stat: Stat,
    /// Sorted.
    pub(crate) children: Vec<String>,
    /// `None` if the data are null or were not requested.
    pub(crate) data: Option<Bytes>,
    /// Empty if the ACL was not requested.
    pub(crate) acl: Vec<Acl>,
}

struct Asked {
    children: Pending<(Vec<String>, Stat)>,
    data: Option<Pending<(Option<Bytes>, Stat)>>,
    acl: Option<Pending<(Vec<Acl>, Stat)>>,
}

struct Place {
    path: String,
    depth: u32,
    asked: Option<Asked>,
}

/// A walk in progress.
pub(crate) struct Walk<'a> {
    client: &'a Client,
    want: Want,
    depth_max: u32,
    /// The places to visit. The next one is last.
    places: Vec<Place>,
    in_flight: usize,
}

/// A znode that could not be read, and the reason. Its subtree is left out, and the walk continues.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(crate) depth: u32,
    pub(crate) error: Error,
}

impl<'a> Walk<'a> {
    /// A walk from `root`, at most `depth_max` levels down.
    pub(crate) fn new(client: &'a Client, root: &str, want: Want, depth_max: u32) -> Self {
        let places = vec![Place { path: root.to_owned(), depth: 0, asked: None }];
        Self { client, want, depth_max, places, in_flight: 0 }
    }

    /// The next znode; `None` after the last one. Znodes deleted meanwhile are left out.
    pub(crate) async fn next(&mut self) -> Option<Result<Found, Unread>> {
        loop {
            self.ask();
            let Place { path, depth, asked } = self.places.pop()?;
            let asked = asked.expect("the next one was asked for");
            self.in_flight -= 1;
            match asked.answers().await {
                Ok((mut children, stat, data, acl)) => {
                    children.sort_unstable();
                    if depth < self.depth_max {
                        let below = children.iter().rev().map(|name| Place {
                            path: join(&path, name),
                            depth: depth + 1,
                            asked: None,
                        });
                        self.places.extend(below);
                    }
                    self.ask();
                    return Some(Ok(Found { path, depth, stat, children, data, acl }));
                }
                Err(error) if error.kind() == ErrorKind::Gone && depth > 0 => {}
                Err(error) => return Some(Err(Unread { depth, error })),
            }
        }
    }

    /// Sends the next requests.
    fn ask(&mut self) {
        let window = if self.want.data { WINDOW_WITH_DATA } else { WINDOW };
        let (client, want) = (self.client, self.want);
        for (at, place) in self.places.iter_mut().rev().take(window).enumerate() {
            if place.asked.is_some() {
                continue;
            }
            // The next place is always requested.
            if self.in_flight >= window && at > 0 {
                break;
            }
            place.asked = Some(Asked {
                children: client.get_children(&place.path),
                data: want.data.then(|| client.get_data_or_null(&place.path)),
                acl: want.acl.then(|| client.get_acl(&place.path)),
            });
            self.in_flight += 1;
        }
    }
}

type Answers = (Vec<String>, Stat, Option<Bytes>, Vec<Acl>);

impl Asked {
    async fn answers(self) -> Result<Answers, Error> {
        let (children, stat) = self.children.await?;
        let data = match self.data {
            Some(data) => data.await?.0,
            None => None,
        };
        let acl = match self.acl {
            Some(acl) => acl.await?.0,
            None => Vec::new(),
        };
        Ok((children, stat, data, acl))
    }
}

/// The path of a child.
pub(crate) fn join(parent: &str, name: &str) -> String {
    format!("{}/{name}", parent.trim_end_matches('/'))
}

/// The path below `new_root` that corresponds to a path below `root`.
pub(crate) fn transplant(path: &str, root: &str, new_root: &str) -> String {
    let rest =
        path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path).trim_start_matches('/');
    if rest.is_empty() { new_root.to_owned() } else { join(new_root, rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_and_transplanted() {
        assert_eq!(join("/", "a"), "/a");
        assert_eq!(join("/a", "b"), "/a/b");
        assert_eq!(transplant("/a/b/c", "/a", "/x"), "/x/b/c");
        assert_eq!(transplant("/a", "/a", "/x"), "/x");
        assert_eq!(transplant("/a/b", "/", "/x"), "/x/a/b");
        assert_eq!(transplant("/a/b", "/a", "/"), "/b");
        assert_eq!(transplant("/", "/", "/x"), "/x");
    }
}
