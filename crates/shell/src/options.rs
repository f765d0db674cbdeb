//! The options of one command, parsed as in the original.
//!
//! Options may stand anywhere among the arguments. `-sw` means `-s -w`; `-v5` and `-v=5` mean `-v
//! 5`; all words after `--` are arguments. Source: commons-cli's `DefaultParser`.

use crate::command::Spec;
use crate::failure::Failure;

/// An option of a command.
#[derive(Debug)]
pub(crate) struct Opt {
    /// Its name without the dash.
    pub(crate) name: &'static str,
    /// The name of its value, if it has one.
    pub(crate) value: Option<&'static str>,
    /// Its description.
    pub(crate) help: &'static str,
}

/// An option without a value.
pub(crate) const fn flag(name: &'static str, help: &'static str) -> Opt {
    Opt { name, value: None, help }
}

/// An option with a value.
pub(crate) const fn valued(name: &'static str, value: &'static str, help: &'static str) -> Opt {
    Opt { name, value: Some(value), help }
}

/// The parsed words after the name of a command.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    options: Vec<(&'static str, String)>,
    words: Vec<String>,
}

impl Arguments {
    /// Parses the words after a command's name.
    pub(crate) fn parse(spec: &'static Spec, words: &[String]) -> Result<Self, Failure> {
        let mut parser = Parser { spec, found: Self::default(), waiting: None, is_over: false };
        for word in words {
            parser.take(word)?;
        }
        parser.end()?;
        let found = parser.found;
        if found.words.len() < spec.words.0 || found.words.len() > spec.words.1 {
            return Err(Failure::usage(spec));
        }
        Ok(found)
    }

    /// Whether an option is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(found, _)| *found == name)
    }

    /// The value of an option: the first one if it is given several times.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
    }

    /// All values of an option.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.options
            .iter()
            .filter(move |(found, _)| *found == name)
            .map(|(_, value)| value.as_str())
    }

    /// An option's value as a number.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number =
            value.parse().map_err(|_| Failure::new(format!("-{name} is not a number: {value}")))?;
        Ok(Some(number))
    }

    /// A required argument.
    ///
    /// # Panics
    /// The command's table entry allows fewer arguments.
    pub(crate) fn word(&self, at: usize) -> &str {
        &self.words[at]
    }

    /// An optional argument.
    pub(crate) fn try_word(&self, at: usize) -> Option<&str> {
        self.words.get(at).map(String::as_str)
    }

    /// Number of arguments.
    pub(crate) fn count(&self) -> usize {
        self.words.len()
    }
}

struct Parser {
    spec: &'static Spec,
    found: Arguments,
    /// The option whose value is the next word.
    waiting: Option<&'static str>,
    /// Whether all further words are arguments.
    is_over: bool,
}

impl Parser {
    fn option(&self, name: &str) -> Option<&'static Opt> {
        self.spec.options.iter().find(|option| option.name == name)
    }

    /// Whether a word is one of the command's options, and therefore not a value.
    fn is_option(&self, word: &str) -> bool {
        let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) else {
            return false;
        };
        let first = name.chars().next().map(String::from).unwrap_or_default();
        self.option(name.split('=').next().unwrap_or(name)).is_some()
            || self.option(&first).is_some()
    }

    fn take(&mut self, word: &str) -> Result<(), Failure> {
        if self.is_over {
            self.found.words.push(word.to_owned());
        } else if word == "--" {
            self.is_over = true;
        } else if let Some(name) = self.take_waiting(word) {
            self.found.options.push((name, word.to_owned()));
        } else if let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) {
            self.end()?;
            self.dashed(name)?;
        } else {
            self.found.words.push(word.to_owned());
        }
        Ok(())
    }

    /// The option that waits for its value, if this word can be the value.
    fn take_waiting(&mut self, word: &str) -> Option<&'static str> {
        if self.is_option(word) { None } else { self.waiting.take() }
    }

    fn dashed(&mut self, name: &str) -> Result<(), Failure> {
        if let Some(option) = self.option(name) {
            self.add(option);
            return Ok(());
        }
        if let Some((name, value)) = name.split_once('=')
            && let Some(Opt { name, value: Some(_), .. }) = self.option(name)
        {
            self.found.options.push((name, value.to_owned()));
            return Ok(());
        }
        // Several options in one word. The first option that takes a value gets the rest of the
        // word.
        for (at, letter) in name.char_indices() {
            let Some(option) = self.option(&letter.to_string()) else {
                return Err(Failure::unknown_option(self.spec, &format!("-{name}")));
            };
            self.add(option);
            let rest = &name[at + letter.len_utf8()..];
            if !rest.is_empty()
                && let Some(waiting) = self.waiting.take()
            {
                self.found.options.push((waiting, rest.to_owned()));
                break;
            }
        }
        Ok(())
    }

    fn add(&mut self, option: &'static Opt) {
        match option.value {
            Some(_) => self.waiting = Some(option.name),
            None => self.found.options.push((option.name, String::new())),
        }
    }

    fn end(&mut self) -> Result<(), Failure> {
        match self.waiting {
            Some(name) => {
                Err(Failure::new(format!("Missing argument for option: {name}"))
                    .usage_of(self.spec))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;

    fn parse(line: &str) -> Result<Arguments, String> {
        let words = crate::words::split(line);
        let spec = command::find(&words[0]).expect("a command");
        Arguments::parse(spec, &words[1..]).map_err(|failure| failure.message().to_owned())
    }

    #[test]
    fn options_stand_anywhere() {
        let found = parse("set /a -s data -v 5").unwrap();
        assert_eq!((found.word(0), found.word(1)), ("/a", "data"));
        assert!(found.has("s") && !found.has("b"));
        assert_eq!(found.value("v"), Some("5"));
    }

    #[test]
    fn options_come_together_and_with_their_values() {
        for line in ["set -sv5 /a x", "set -s -v=5 /a x", "set -s -v 5 /a x", "set -v5 -s /a x"] {
            let found = parse(line).unwrap();
            assert!(found.has("s"), "{line}");
            assert_eq!(found.value("v"), Some("5"), "{line}");
        }
        assert_eq!(parse("set -v -1 /a x").unwrap().value("v"), Some("-1"));
        let found = parse("reconfig -add 1=a -add 2=b -remove 3").unwrap();
        assert_eq!(found.values("add").collect::<Vec<_>>(), ["1=a", "2=b"]);
    }

    #[test]
    fn two_dashes_end_the_options() {
        let found = parse("set -- /a -5").unwrap();
        assert_eq!(found.word(1), "-5");
        assert_eq!(parse("set /a -5").unwrap_err(), "Unrecognized option: -5");
        assert_eq!(parse("set /a - ").unwrap().word(1), "-");
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(parse("set /a x -v").unwrap_err(), "Missing argument for option: v");
        assert_eq!(parse("set /a x -v -s").unwrap_err(), "Missing argument for option: v");
        assert!(parse("set /a").unwrap_err().starts_with("set path data [-s] [-v version] [-b]"));
        assert_eq!(parse("get -sz /a").unwrap_err(), "Unrecognized option: -sz");
    }
}
