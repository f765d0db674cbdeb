//! Chroot: the znode that a client uses as its root.

use std::borrow::Cow;

use zebu_proto::path::{self, PathError};

/// A prefix that is added to every outgoing path and removed from every incoming one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chroot {
    /// Empty for the real root, otherwise a path without a trailing slash.
    prefix: Box<str>,
}

impl Chroot {
    /// The chroot at `path`; `/` is the real root.
    ///
    /// # Errors
    /// `path` is invalid.
    pub fn new(path: &str) -> Result<Self, PathError> {
        path::validate(path)?;
        Ok(Self { prefix: if path == "/" { "".into() } else { path.into() } })
    }

    /// The server's path of the root.
    pub fn root(&self) -> &str {
        if self.prefix.is_empty() { "/" } else { &self.prefix }
    }

    /// The server's path for the client's `path`.
    pub fn absolute<'a>(&self, path: &'a str) -> Cow<'a, str> {
        if self.prefix.is_empty() {
            Cow::Borrowed(path)
        } else if path == "/" {
            Cow::Owned(self.prefix.to_string())
        } else {
            Cow::Owned(format!("{}{path}", self.prefix))
        }
    }

    /// The server's form of a path that starts with the client's `prefix`.
    ///
    /// Unlike [`Chroot::absolute`] it keeps the slash of the root: the appended part is below the
    /// chroot, not beside it.
    pub fn absolute_prefix<'a>(&self, prefix: &'a str) -> Cow<'a, str> {
        match self.prefix.is_empty() {
            true => Cow::Borrowed(prefix),
            false => Cow::Owned(format!("{}{prefix}", self.prefix)),
        }
    }

    /// Whether the server's `path` is the chroot or below it.
    pub fn contains(&self, path: &str) -> bool {
        path.strip_prefix(&*self.prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The client's path for the server's `path`. A path outside the chroot stays unchanged.
    pub fn relative<'a>(&self, path: &'a str) -> &'a str {
        match path.strip_prefix(&*self.prefix) {
            Some("") if !self.prefix.is_empty() => "/",
            Some(rest) if rest.starts_with('/') => rest,
            _ => path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_out_and_come_back() {
        let chroot = Chroot::new("/app/one").unwrap();
        for (inside, outside) in [("/", "/app/one"), ("/a", "/app/one/a"), ("/a/b", "/app/one/a/b")]
        {
            assert_eq!(chroot.absolute(inside), outside);
            assert_eq!(chroot.relative(outside), inside);
        }
        // Names that only begin alike, and what lies beside the chroot.
        for path in ["/app/one-more", "/zookeeper/config", "/"] {
            assert_eq!(chroot.relative(path), path);
            assert!(!chroot.contains(path));
        }
        assert!(chroot.contains("/app/one") && chroot.contains("/app/one/a"));
    }

    /// A counter that the server appends to the root creates a child of it, not a sibling.
    #[test]
    fn what_begins_with_the_root_is_below_it() {
        let chroot = Chroot::new("/app").unwrap();
        assert_eq!(chroot.absolute_prefix("/"), "/app/");
        assert_eq!(chroot.absolute_prefix("/n-"), "/app/n-");
        assert_eq!(Chroot::default().absolute_prefix("/"), "/");
    }

    #[test]
    fn the_real_root_changes_nothing() {
        let root = Chroot::new("/").unwrap();
        assert_eq!((root.absolute("/"), root.relative("/a"), root.root()), ("/".into(), "/a", "/"));
        assert!(Chroot::new("/a/").is_err());
    }
}
