//! The blocking half of the Python package, which is made from the half for asyncio.
//!
//! A method of the one awaits what the same method of the other waits for. So one half is the
//! source, and the other half is the source without the words of asyncio.

use std::fmt::Write as _;

/// A source and what is made from it, below `crates/python/python/zebu`.
const HALVES: [(&str, &str); 2] =
    [("aio_recipes.py", "recipes.py"), ("_aio_client.py", "_client.py")];

/// The replacements for the blocking half, in this order.
const WORDS: [(&str, &str); 21] = [
    (
        "Recipes for asyncio: what `zebu.recipes` has, with methods that are awaited.",
        "Recipes, with methods that block.",
    ),
    (
        "The methods of a client for asyncio. `zebu.aio` opens it.",
        "The methods of a client, which block.",
    ),
    ("AsyncIterator", "Iterator"),
    ("    Iterator,\n    Awaitable,\n", "    Awaitable,\n"),
    ("    Awaitable,\n", ""),
    (" Awaitable,", ""),
    ("async with await ", "with "),
    ("async with", "with"),
    ("async for", "for"),
    ("async def", "def"),
    ("await ", ""),
    ("__aenter__", "__enter__"),
    ("__aexit__", "__exit__"),
    ("__aiter__", "__iter__"),
    ("from ._awaiting import", "from ._waiting import"),
    ("from .aio_recipes import", "from .recipes import"),
    ("from ._aio_client import", "from ._client import"),
    ("`zebu.aio`", "`zebu`"),
    ("`zebu.recipes`", "This file"),
    ("`_client.py`", "This file"),
    (" from this file: ", " from SOURCE: "),
];

/// The blocking half of a source.
fn blocking(source: &str, name: &str) -> String {
    let mut text = without_awaitable(source);
    for (word, other) in WORDS {
        text = text.replace(word, other);
    }
    text.replace("SOURCE", name)
}

/// Replaces each `Awaitable[T]` by `T`.
fn without_awaitable(source: &str) -> String {
    const OPENING: &str = "Awaitable[";
    let mut made = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, after)) = rest.split_once(OPENING) {
        made += before;
        let mut depth = 1;
        let end = after.find(|letter| {
            depth += match letter {
                '[' => 1,
                ']' => -1,
                _ => 0,
            };
            depth == 0
        });
        let Some(end) = end else {
            let _ = write!(made, "{OPENING}");
            rest = after;
            continue;
        };
        // Nested ones are replaced, too.
        made += &without_awaitable(&after[..end]);
        rest = &after[end + 1..];
    }
    made + rest
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// `UPDATE_EXPECT=1` writes the blocking half.
    #[test]
    fn halves_are_current() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/python/python/zebu");
        for (source, made) in HALVES {
            let expected = blocking(&fs::read_to_string(package.join(source)).unwrap(), source);
            let made = package.join(made);
            if std::env::var_os("UPDATE_EXPECT").is_some() {
                fs::write(&made, &expected).unwrap();
            }
            let found = fs::read_to_string(&made).unwrap();
            assert!(found == expected, "{} is not made from {source}", made.display());
        }
    }

    #[test]
    fn methods_that_are_awaited_become_methods_that_block() {
        let source = "    async def run(self, func: Callable[..., Awaitable[T]]) -> Awaitable[List[T]]:\n        \
                      async with await self.lead():\n            return await func()\n";
        let expected = "    def run(self, func: Callable[..., T]) -> List[T]:\n        \
                        with self.lead():\n            return func()\n";
        assert_eq!(blocking(source, ""), expected);
    }
}
