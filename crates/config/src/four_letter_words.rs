//! The four-letter words: their names, the allowed ones, and their effects besides the answer.

/// A four-letter word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // `four_letter` of the server and the administrator's guide say what each prints.
pub enum Word {
    Conf,
    Cons,
    Crst,
    Dirs,
    Dump,
    Envi,
    Gtmk,
    Ruok,
    Stmk,
    Srst,
    Srvr,
    Stat,
    Wchc,
    Wchp,
    Wchs,
    Mntr,
    Isro,
    Hash,
}

/// The bytes that telnet sends for Ctrl-C: the connection is closed without an answer.
const TELNET_INTERRUPT: [u8; 4] = [0xff, 0xf4, 0xff, 0xfd];

/// The meaning of the first four bytes of a connection, if they are not the length of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A word.
    Word(Word),
    /// Close the connection without an answer.
    TelnetInterrupt,
}

impl Received {
    /// The meaning of the bytes; `None` if they are the length of a frame.
    pub fn from_bytes(bytes: [u8; 4]) -> Option<Self> {
        if bytes == TELNET_INTERRUPT {
            return Some(Self::TelnetInterrupt);
        }
        Word::ALL.into_iter().find(|word| word.name().as_bytes() == bytes).map(Self::Word)
    }
}

/// The effect of a word besides its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// Resets the statistics of every connection.
    ResetConnections,
    /// Resets the statistics of the server, with all metrics.
    ResetServer,
    /// Sets the trace mask.
    SetTraceMask(i64),
}

impl Word {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::Conf,
        Self::Cons,
        Self::Crst,
        Self::Dirs,
        Self::Dump,
        Self::Envi,
        Self::Gtmk,
        Self::Ruok,
        Self::Stmk,
        Self::Srst,
        Self::Srvr,
        Self::Stat,
        Self::Wchc,
        Self::Wchp,
        Self::Wchs,
        Self::Mntr,
        Self::Isro,
        Self::Hash,
    ];

    /// The word as it is sent.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conf => "conf",
            Self::Cons => "cons",
            Self::Crst => "crst",
            Self::Dirs => "dirs",
            Self::Dump => "dump",
            Self::Envi => "envi",
            Self::Gtmk => "gtmk",
            Self::Ruok => "ruok",
            Self::Stmk => "stmk",
            Self::Srst => "srst",
            Self::Srvr => "srvr",
            Self::Stat => "stat",
            Self::Wchc => "wchc",
            Self::Wchp => "wchp",
            Self::Wchs => "wchs",
            Self::Mntr => "mntr",
            Self::Isro => "isro",
            Self::Hash => "hash",
        }
    }

    /// The bytes after the word that belong to it: the mask of `stmk`.
    pub const fn argument_bytes(self) -> usize {
        match self {
            Self::Stmk => 8,
            _ => 0,
        }
    }

    /// The effect of the word if it is enabled and, unless [`Word::works_always`], the server
    /// serves clients. `argument` is the mask of `stmk`; other words ignore it.
    pub const fn effect(self, argument: i64) -> Effect {
        match self {
            Self::Crst => Effect::ResetConnections,
            Self::Srst => Effect::ResetServer,
            Self::Stmk => Effect::SetTraceMask(argument),
            _ => Effect::None,
        }
    }

    /// Whether it is answered even if the server serves no clients.
    pub const fn works_always(self) -> bool {
        matches!(self, Self::Envi | Self::Ruok | Self::Gtmk | Self::Stmk)
    }
}

/// The enabled words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whitelist {
    allowed: [bool; Word::ALL.len()],
    unknown: Vec<String>,
}

impl Whitelist {
    /// The words of `4lw.commands.whitelist`, `*` for all. `srvr` is always enabled, `isro` with
    /// read-only mode.
    pub fn new(words: &[String], readonly_mode: bool) -> Self {
        let all = words.iter().any(|word| word == "*");
        let allowed = Word::ALL.map(|word| {
            all || word == Word::Srvr
                || (readonly_mode && word == Word::Isro)
                || words.iter().any(|name| name == word.name())
        });
        let is_known = |name: &str| name == "*" || Word::ALL.iter().any(|word| word.name() == name);
        Self { allowed, unknown: words.iter().filter(|name| !is_known(name)).cloned().collect() }
    }

    /// Whether a word is enabled.
    pub fn allows(&self, word: Word) -> bool {
        Word::ALL.iter().zip(self.allowed).any(|(&other, allowed)| allowed && other == word)
    }

    /// Entries that are not words.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bytes_are_a_word_or_a_length() {
        assert_eq!(Received::from_bytes(*b"mntr"), Some(Received::Word(Word::Mntr)));
        assert_eq!(Received::from_bytes([0xff, 0xf4, 0xff, 0xfd]), Some(Received::TelnetInterrupt));
        assert_eq!(Received::from_bytes(*b"MNTR"), None);
        assert_eq!(Received::from_bytes([0, 0, 0, 45]), None);
    }

    #[test]
    fn srvr_is_always_allowed() {
        let list = |words: &[&str], readonly_mode| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            Whitelist::new(&words, readonly_mode)
        };
        let none = list(&[], false);
        assert!(none.allows(Word::Srvr) && !none.allows(Word::Ruok) && !none.allows(Word::Isro));
        assert!(list(&[], true).allows(Word::Isro));
        let some = list(&["ruok", "nope"], false);
        assert!(some.allows(Word::Ruok) && !some.allows(Word::Stat));
        assert_eq!(some.unknown(), ["nope"]);
        assert!(Word::ALL.iter().all(|&word| list(&["*"], false).allows(word)));
    }
}
