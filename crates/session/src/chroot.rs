//! The znode a client takes for the root.

use std::borrow::Cow;

use zebu_proto::path::{self, PathError};

/// A prefix that every path gets on its way out and loses on its way in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chroot {
    /// Empty for the real root, else a path without a slash at its end.
    prefix: Box<str>,
}

impl Chroot {
    /// The chroot at `path`; `/` is the real root.
    ///
    /// # Errors
    /// It is no path.
    pub fn new(path: &str) -> Result<Self, PathError> {
        path::validate(path)?;
        Ok(Self { prefix: if path == "/" { "".into() } else { path.into() } })
    }

    /// The path of the root as the server knows it.
    pub fn root(&self) -> &str {
        if self.prefix.is_empty() { "/" } else { &self.prefix }
    }

    /// What the server calls the client's `path`.
    pub fn absolute<'a>(&self, path: &'a str) -> Cow<'a, str> {
        if self.prefix.is_empty() {
            Cow::Borrowed(path)
        } else if path == "/" {
            Cow::Owned(self.prefix.to_string())
        } else {
            Cow::Owned(format!("{}{path}", self.prefix))
        }
    }

    /// What the server calls a path that begins with the client's `prefix`.
    ///
    /// Unlike [`Chroot::absolute`] it keeps the slash of the root: what is appended is below the chroot, not beside it.
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

    /// What the client calls the server's `path`; a path that is not below the chroot stays as it is.
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

    /// A number that the server appends to the root makes a child of it, not a neighbour.
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
