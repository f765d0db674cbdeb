//! The words of `JVMFLAGS` and `SERVER_JVMFLAGS`: `-Dname=value` is a setting. All other words are
//! for a JVM, and are ignored.

/// The content of a variable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JvmFlags {
    /// `-Dname=value`, in order; without `=` the value is empty.
    pub defines: Vec<(String, String)>,
    /// Flags of the JVM, each with its argument.
    pub ignored: Vec<String>,
    /// Words that are neither settings nor flags.
    pub stray: Vec<String>,
}

/// Flags whose argument is the next word.
const WITH_ARGUMENT: [&str; 9] = [
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--add-modules",
    "--add-opens",
    "--add-exports",
    "--add-reads",
];

/// Parses a variable.
pub fn parse(text: &str) -> JvmFlags {
    let mut flags = JvmFlags::default();
    let mut words = split(text).into_iter();
    while let Some(word) = words.next() {
        if let Some(define) = word.strip_prefix("-D") {
            flags.defines.push(define_pair(define));
        } else if WITH_ARGUMENT.contains(&word.as_str()) {
            let argument = words.next().unwrap_or_default();
            flags.ignored.push(format!("{word} {argument}").trim_end().to_owned());
        } else if word.starts_with('-') {
            flags.ignored.push(word);
        } else {
            flags.stray.push(word);
        }
    }
    flags
}

/// Splits `name=value`; without `=` the value is empty, as for the JVM.
pub fn define_pair(define: &str) -> (String, String) {
    let (name, value) = define.split_once('=').unwrap_or((define, ""));
    (name.trim().to_owned(), value.to_owned())
}

/// Splits at blanks, except within single or double quotes and after a backslash. A quote left open
/// ends with the text.
fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (_, '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        assert_eq!(split("  a  b\tc\n"), ["a", "b", "c"]);
        assert_eq!(split(r#"a"b c"d 'e "f' \ g "" "h\"i""#), ["ab cd", "e \"f", " g", "", "h\"i"]);
        assert_eq!(split("'open end"), ["open end"]);
        assert!(split("").is_empty());
    }

    #[test]
    fn defines_are_told_from_jvm_flags() {
        let flags = parse(
            "-Xmx1g -Dzookeeper.snapCount=10 -cp a:b -ea '-Dx=a b' -Dflag -XX:+UseG1GC stray",
        );
        assert_eq!(
            flags.defines,
            [
                ("zookeeper.snapCount".to_owned(), "10".to_owned()),
                ("x".to_owned(), "a b".to_owned()),
                ("flag".to_owned(), String::new()),
            ]
        );
        assert_eq!(flags.ignored, ["-Xmx1g", "-cp a:b", "-ea", "-XX:+UseG1GC"]);
        assert_eq!(flags.stray, ["stray"]);
    }
}
