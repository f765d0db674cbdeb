//! Paths of children, and unique names.

use std::hash::{BuildHasher as _, RandomState};

use crate::{Error, Result};

/// The path of a child.
pub(crate) fn join(parent: &str, name: &str) -> String {
    format!("{}/{name}", parent.trim_end_matches('/'))
}

/// Refuses invalid names of children, and names that the recipe uses itself.
pub(crate) fn check_name(name: &str, reserved: &[&str]) -> Result<()> {
    let reason = match name {
        "" => "it is empty",
        "." | ".." => "paths have no such parts",
        _ if name.contains('/') => "it contains a slash",
        _ if reserved.contains(&name) => "this recipe uses it itself",
        _ => return Ok(()),
    };
    Err(Error::Name { name: name.to_owned(), reason })
}

/// The last part of a path.
pub(crate) fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The path of the parent; of the root, the root.
pub(crate) fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((parent, _)) if !parent.is_empty() => parent,
        _ => "/",
    }
}

/// A random UUID.
pub(crate) fn uuid() -> String {
    // Each state has random keys of its own.
    let [high, low] = [0, 1].map(|half: u64| RandomState::new().hash_one(half));
    let version = (high & 0x0fff) | 0x4000;
    let variant = (low >> 48 & 0x3fff) | 0x8000;
    let (first, second) = (high >> 32, high >> 16 & 0xffff);
    format!("{first:08x}-{second:04x}-{version:04x}-{variant:04x}-{:012x}", low & 0xffff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_random_ones() {
        let uuid = uuid();
        let parts: Vec<&str> = uuid.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{uuid}");
        assert_ne!(uuid, super::uuid());
    }

    #[test]
    fn parents() {
        assert_eq!([parent("/a/b"), parent("/a"), parent("/")], ["/a", "/", "/"]);
    }

    #[test]
    fn names_that_are_no_children_are_refused() {
        for (name, reason) in [
            ("", "it is empty"),
            ("..", "paths have no such parts"),
            ("a/b", "it contains a slash"),
            ("ready", "this recipe uses it itself"),
        ] {
            let error = check_name(name, &["ready"]).unwrap_err().to_string();
            assert_eq!(error, format!("invalid name: {name:?}: {reason}"));
        }
        check_name("amy b", &["ready"]).unwrap();
    }
}
