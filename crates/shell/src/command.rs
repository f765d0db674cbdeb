//! The table of all commands: name, options and description. Help, completion and the parser use
//! this table. The commands themselves are in `commands`.

use std::fmt::Write as _;

use strsim::osa_distance;

use crate::options::{Opt, flag, valued};

/// The shells that have a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The original's shell has it, with the same output.
    Original,
    /// Only this shell has it.
    Zebu,
}

/// A command.
#[derive(Debug)]
pub(crate) struct Spec {
    /// Its name.
    pub(crate) name: &'static str,
    /// The syntax of its arguments.
    pub(crate) arguments: &'static str,
    /// Its description, in one line.
    pub(crate) about: &'static str,
    /// Its options.
    pub(crate) options: &'static [Opt],
    /// Minimum and maximum number of arguments.
    pub(crate) words: (usize, usize),
    /// The shells that have it.
    pub(crate) origin: Origin,
}

/// Any number of arguments.
const ANY: usize = usize::MAX;

const fn original(
    name: &'static str,
    arguments: &'static str,
    words: (usize, usize),
    options: &'static [Opt],
    about: &'static str,
) -> Spec {
    Spec { name, arguments, about, options, words, origin: Origin::Original }
}

const fn zebu(
    name: &'static str,
    arguments: &'static str,
    words: (usize, usize),
    options: &'static [Opt],
    about: &'static str,
) -> Spec {
    Spec { name, arguments, about, options, words, origin: Origin::Zebu }
}

const STAT: Opt = flag("s", "also show the stat");
const WATCH: Opt = flag("w", "set a watch");
const DEPTH: Opt = valued("d", "depth", "number of levels below the path");

/// All commands, sorted by name.
pub(crate) const COMMANDS: &[Spec] = &[
    original(
        "addWatch",
        "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - default is PERSISTENT_RECURSIVE",
        (1, 1),
        &[valued(
            "m",
            "mode",
            "PERSISTENT: the znode and its child list; PERSISTENT_RECURSIVE: all below it",
        )],
        "set a persistent watch, which removewatches removes",
    ),
    original(
        "addauth",
        "scheme auth",
        (1, ANY),
        &[],
        "authenticate, for example: addauth digest user:password",
    ),
    original("close", "", (0, ANY), &[], "close the session, but not the shell"),
    original(
        "config",
        "[-c] [-w] [-s]",
        (0, ANY),
        &[STAT, WATCH, flag("c", "only the client addresses")],
        "show the ensemble's configuration",
    ),
    original(
        "connect",
        "host:port",
        (0, ANY),
        &[],
        "open a new session, with the same or another server",
    ),
    zebu(
        "cp",
        "[-r] [-f] source target",
        (2, 2),
        &[
            flag("r", "copy the whole subtree"),
            flag("f", "overwrite existing znodes"),
            flag("no-acl", "do not copy ACLs"),
        ],
        "copy a znode; the target may be in another ensemble: zk://host:port/path",
    ),
    original(
        "create",
        "[-s] [-e] [-c] [-t ttl] path [data] [acl]",
        (1, ANY),
        &[
            flag("e", "ephemeral: deleted with this session"),
            flag("s", "sequential: the server appends a number to the name"),
            flag("c", "container: deleted after its last child"),
            valued("t", "ttl", "deleted after this many milliseconds without changes and children"),
        ],
        "create a znode",
    ),
    original(
        "delete",
        "[-v version] path",
        (1, ANY),
        &[valued("v", "version", "only if the data have this version")],
        "delete a znode without children",
    ),
    original(
        "deleteall",
        "path [-b batch size]",
        (1, ANY),
        &[valued("b", "batch size", "znodes in one transaction, 1000 by default; 0: one by one")],
        "delete a znode and everything below it",
    ),
    original(
        "delquota",
        "[-n|-b|-N|-B] path",
        (1, ANY),
        &[
            flag("n", "the soft limit on znodes"),
            flag("b", "the soft limit on bytes"),
            flag("N", "the hard limit on znodes"),
            flag("B", "the hard limit on bytes"),
        ],
        "remove a quota, or one of its limits",
    ),
    zebu(
        "du",
        "[-s] [-d depth] [-n count] [path]",
        (0, 1),
        &[
            flag("s", "show only the total"),
            valued("d", "depth", "show subtrees down to this level, default 1"),
            valued("n", "count", "show only this many, the largest ones"),
        ],
        "show the bytes and znodes of subtrees, largest first",
    ),
    zebu(
        "edit",
        "path",
        (1, 1),
        &[],
        "edit the data in $EDITOR; they are saved only if no other client has changed them",
    ),
    zebu("exit", "", (0, ANY), &[], "close the session and end the shell"),
    zebu(
        "export",
        "[-e] path [file]",
        (1, 2),
        &[flag("e", "include ephemeral znodes")],
        "write a subtree as JSON lines, to a file or to stdout",
    ),
    zebu(
        "find",
        "[-name glob] [-regex re] [-type p|e] [-minsize bytes] [-empty] [-owner session] [-d depth] [path]",
        (0, 1),
        &[
            valued("name", "glob", "name pattern: * matches any text, ? any character"),
            valued("regex", "re", "regular expression for the path"),
            valued("type", "p|e", "persistent or ephemeral"),
            valued("minsize", "bytes", "minimum size of the data"),
            flag("empty", "neither data nor children"),
            valued("owner", "session", "ephemeral znodes of this session"),
            DEPTH,
        ],
        "list the paths of znodes that meet all conditions",
    ),
    original(
        "get",
        "[-s] [-w] [-b] [-x] path",
        (1, ANY),
        &[
            flag("b", "Output data in base64 format"),
            flag("s", "Print znode stats additionally"),
            flag("w", "Watch for changes on the znode"),
            flag("x", "Output data in hexdump format"),
        ],
        "show a znode's data",
    ),
    original("getAcl", "[-s] path", (1, ANY), &[STAT], "show a znode's ACL"),
    original("getAllChildrenNumber", "path", (1, ANY), &[], "count all znodes below a path"),
    original(
        "getEphemerals",
        "path",
        (0, ANY),
        &[],
        "list this session's ephemeral znodes whose paths begin with the argument",
    ),
    zebu(
        "grep",
        "[-i] [-l] [-c] [-F] pattern [path]",
        (1, 2),
        &[
            flag("i", "ignore case"),
            flag("l", "show only the paths"),
            flag("c", "show only the number of matching lines"),
            flag("F", "the pattern is plain text, not a regular expression"),
        ],
        "search the data in a subtree for matching lines",
    ),
    zebu("help", "[command]", (0, 1), &[], "describe all commands, or one of them"),
    original("history", "", (0, ANY), &[], "list the last commands with their numbers"),
    zebu(
        "import",
        "[-f] [-n] file [path]",
        (1, 2),
        &[
            flag("f", "overwrite data and ACLs of existing znodes"),
            flag("n", "only show what would be done"),
            flag("no-acl", "give all znodes the default ACL"),
        ],
        "create the znodes in a file of export, at their old paths or below another path",
    ),
    original("listquota", "path", (1, ANY), &[], "show a quota's limits and usage"),
    original(
        "ls",
        "[-s] [-w] [-R] path",
        (1, ANY),
        &[flag("?", "help"), flag("R", "recurse"), flag("s", "stat"), flag("w", "watch")],
        "list a znode's children",
    ),
    original("printwatches", "on|off", (0, ANY), &[], "show events, or do not"),
    original("quit", "", (0, ANY), &[], "close the session and end the shell"),
    original(
        "reconfig",
        "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | [-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
        (0, ANY),
        &[
            flag("s", "also show the stat"),
            valued("v", "version", "only if the configuration has this version, in hex"),
            valued("file", "path", "file with all members"),
            valued("members", "servers", "all members"),
            valued("add", "servers", "servers to add or to change"),
            valued("remove", "ids", "ids of servers to remove"),
        ],
        "change the members of the ensemble",
    ),
    original("redo", "cmdno", (0, ANY), &[], "run a command of the history again"),
    original(
        "removewatches",
        "path [-c|-d|-a] [-l]",
        (1, ANY),
        &[
            flag("c", "child watches"),
            flag("d", "data watches"),
            flag("p", "persistent watches"),
            flag("r", "persistent recursive watches"),
            flag("a", "all of them (default)"),
            flag("l", "without a connection, remove them in the client only"),
        ],
        "remove watches",
    ),
    original(
        "set",
        "path data [-s] [-v version] [-b]",
        (2, ANY),
        &[
            flag("b", "Supply data in base64 format"),
            flag("s", "Print znode stats additionally"),
            valued("v", "arg", "Set with an expected version"),
        ],
        "change a znode's data",
    ),
    original(
        "setAcl",
        "[-s] [-v version] [-R] path acl",
        (2, ANY),
        &[
            STAT,
            valued("v", "version", "only if the ACL has this version"),
            flag("R", "also of all znodes below"),
        ],
        "set a znode's ACL, for example: setAcl /a world:anyone:r,auth::cdrwa",
    ),
    original(
        "setquota",
        "-n|-b|-N|-B val path",
        (1, ANY),
        &[
            valued("n", "val", "soft limit on znodes: the servers log a warning"),
            valued("b", "val", "soft limit on bytes"),
            valued("N", "val", "hard limit on znodes: the servers refuse more"),
            valued("B", "val", "hard limit on bytes"),
        ],
        "set a quota on a subtree",
    ),
    original("stat", "[-w] path", (1, ANY), &[WATCH], "show a znode's stat"),
    original("sync", "path", (1, ANY), &[], "wait until this server has all earlier writes"),
    zebu(
        "tree",
        "[-s] [-d depth] [path]",
        (0, 1),
        &[flag("s", "also show the sizes of data"), DEPTH],
        "draw a subtree",
    ),
    original("version", "", (0, 0), &[], "show the version of this shell"),
    zebu(
        "watch",
        "[-v] [-n count] [-t seconds] [path]",
        (0, 1),
        &[
            flag("v", "also show the new data"),
            valued("n", "count", "end after this many changes"),
            valued("t", "seconds", "end after this many seconds"),
        ],
        "show the changes in a subtree until Ctrl-C",
    ),
    original(
        "whoami",
        "",
        (0, ANY),
        &[],
        "show the identities that the server knows of this client",
    ),
];

/// The command with this name.
pub(crate) fn find(name: &str) -> Option<&'static Spec> {
    COMMANDS.iter().find(|spec| spec.name == name)
}

/// The command with the most similar name, if one is similar enough.
pub(crate) fn similar(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let near = |spec: &Spec| (osa_distance(&name, &spec.name.to_lowercase()), spec.name);
    let (distance, found) = COMMANDS.iter().map(near).min_by_key(|(distance, _)| *distance)?;
    (distance <= 2 && distance < name.chars().count()).then_some(found)
}

impl Spec {
    /// Whether the command fails without a session before its arguments are checked, as in the
    /// original.
    pub(crate) fn is_refused_without_session(&self) -> bool {
        self.origin == Origin::Original
            && !matches!(self.name, "connect" | "history" | "printwatches" | "quit" | "redo")
    }

    /// The command and its arguments.
    pub(crate) fn syntax(&self) -> String {
        format!("{} {}", self.name, self.arguments).trim_end().to_owned()
    }

    /// The text shown if arguments are missing. Some of the original's commands list their options
    /// in it.
    pub(crate) fn usage(&self) -> String {
        let mut text = self.syntax();
        if matches!(self.name, "get" | "set") || self.origin == Origin::Zebu {
            text.push_str(&self.option_list());
        }
        text
    }

    /// The complete help of the command.
    pub(crate) fn help(&self) -> String {
        format!("{}\n  {}{}", self.syntax(), self.about, self.option_list())
    }

    fn option_list(&self) -> String {
        let left = |option: &Opt| match option.value {
            Some(value) => format!("-{} <{value}>", option.name),
            None => format!("-{}", option.name),
        };
        let width = self.options.iter().map(|option| left(option).len()).max().unwrap_or(0);
        let mut text = String::new();
        for option in self.options {
            write!(text, "\n {:<width$}   {}", left(option), option.help)
                .expect("writing to a string");
        }
        text
    }
}

/// The syntax of all commands, one a line. zkCli also shows this list after an unknown command.
pub(crate) fn syntaxes() -> String {
    let mut text =
        "zebu shell -server host:port[,host:port...][/chroot] [options] command arguments"
            .to_owned();
    for spec in COMMANDS {
        write!(text, "\n\t{}", spec.syntax()).expect("writing to a string");
    }
    text
}

/// The list shown by `help`.
pub(crate) fn overview() -> String {
    let mut text = String::new();
    for (origin, title) in [(Origin::Original, "As in zkCli:"), (Origin::Zebu, "Only here:")] {
        writeln!(text, "{title}").expect("writing to a string");
        for spec in COMMANDS.iter().filter(|spec| spec.origin == origin) {
            writeln!(text, "  {:<21} {}", spec.name, spec.about).expect("writing to a string");
        }
    }
    text.push_str("help <command> shows its options; --json in any command makes its output JSON");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_sorted_and_have_distinct_names() {
        assert!(COMMANDS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for spec in COMMANDS {
            assert!(spec.words.0 <= spec.words.1, "{}", spec.name);
            assert!(!spec.about.is_empty() && !spec.about.ends_with('.'), "{}", spec.name);
            for option in spec.options {
                let shown = format!("-{}", option.name);
                let is_hidden = matches!(option.name, "?" | "no-acl" | "p" | "r");
                assert!(spec.arguments.contains(&shown) || is_hidden, "{} {shown}", spec.name);
            }
        }
    }

    #[test]
    fn usage_is_the_originals() {
        assert_eq!(find("ls").unwrap().usage(), "ls [-s] [-w] [-R] path");
        assert_eq!(
            find("set").unwrap().usage(),
            "set path data [-s] [-v version] [-b]\n -b         Supply data in base64 format\n \
             -s         Print znode stats additionally\n -v <arg>   Set with an expected version"
        );
    }

    #[test]
    fn a_slip_is_recognised() {
        assert_eq!(similar("sl"), Some("ls"));
        assert_eq!(similar("getacl"), Some("getAcl"));
        assert_eq!(similar("quti"), Some("quit"));
        assert_eq!(similar("nonsense"), None);
        assert_eq!(similar("x"), None);
    }

    #[test]
    fn every_command_is_documented() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/shell.md");
        let found = std::fs::read_to_string(&file).unwrap();
        let mark = "cargo test -p zebu-shell documented -->\n";
        let head = &found[..found.find(mark).expect("the mark") + mark.len()];
        let mut wanted = head.to_owned();
        for (origin, title) in [(Origin::Original, "As in zkCli"), (Origin::Zebu, "Only here")] {
            writeln!(wanted, "\n### {title}\n\n```text").unwrap();
            let all = COMMANDS.iter().filter(|spec| spec.origin == origin);
            let texts: Vec<String> = all.map(Spec::help).collect();
            writeln!(wanted, "{}\n```", texts.join("\n\n")).unwrap();
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&file, wanted).unwrap();
        } else {
            assert_eq!(found, wanted, "run with UPDATE_EXPECT=1 and read the difference");
        }
    }
}
