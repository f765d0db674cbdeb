//! The grammar of a JAAS file.
//!
//! ```text
//! file    = { name "{" { class flag { option "=" value } ";" } "}" ";" }
//! ```
//!
//! Words are split as by Java's `StreamTokenizer`: quotes may not span lines and support C's
//! escapes, and `#` starts a comment at the beginning of a word.

use std::collections::BTreeMap;

use super::{Flag, Module};
use crate::secret::Secret;

type Fault = (usize, String);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(Secret),
    Quoted(Secret),
    Mark(char),
}

struct Tokens<'a> {
    /// System properties, for `${name}` in the values.
    property: &'a dyn Fn(&str) -> Option<String>,
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    line: usize,
    /// The token that was peeked at, with its line.
    next: Option<(usize, Token)>,
}

pub(super) fn sections(
    text: &str,
    property: &dyn Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, Vec<Module>>, Fault> {
    let mut tokens = Tokens { property, rest: text.chars().peekable(), line: 1, next: None };
    let mut sections = BTreeMap::new();
    while let Some((line, name)) = tokens.word_or_end("the name of a section")? {
        tokens.mark('{', "after the name of a section")?;
        let mut modules = Vec::new();
        while !tokens.is_mark('}')? {
            modules.push(module(&mut tokens)?);
        }
        tokens.mark('}', "at the end of a section")?;
        tokens.mark(';', "after the closing brace of a section")?;
        if sections.insert(name.clone(), modules).is_some() {
            return Err((line, format!("section {name} is there twice; leave one")));
        }
    }
    Ok(sections)
}

fn module(tokens: &mut Tokens<'_>) -> Result<Module, Fault> {
    let (line, class) = tokens.word("the class of a login module or a closing brace")?;
    let (flag_line, flag) = tokens.word("a flag such as required")?;
    let flag = match flag.to_ascii_lowercase().as_str() {
        "required" => Flag::Required,
        "requisite" => Flag::Requisite,
        "sufficient" => Flag::Sufficient,
        "optional" => Flag::Optional,
        _ => {
            return Err((
                flag_line,
                format!("{flag:?} is no flag; use required, requisite, sufficient or optional"),
            ));
        }
    };
    let mut options = BTreeMap::new();
    while !tokens.is_mark(';')? {
        let (_, name) = tokens.word("an option, or a semicolon after the last one")?;
        tokens.mark('=', &format!("after the option {name}"))?;
        let value = tokens.value(&name)?;
        options.insert(name, value); // As in Java, the last one of a name counts.
    }
    tokens.mark(';', "after the options of a login module")?;
    Ok(Module { class, flag, options, line })
}

impl Tokens<'_> {
    fn word_or_end(&mut self, wanted: &str) -> Result<Option<(usize, String)>, Fault> {
        if self.look()?.is_none() { Ok(None) } else { self.word(wanted).map(Some) }
    }

    /// A word or a quoted text that is not secret.
    fn word(&mut self, wanted: &str) -> Result<(usize, String), Fault> {
        match self.take()? {
            (line, Some(Token::Word(text) | Token::Quoted(text))) => {
                Ok((line, text.expose_str().unwrap_or_default().to_owned()))
            }
            (line, Some(Token::Mark(mark))) => {
                Err((line, format!("{mark:?} stands where {wanted} should be")))
            }
            (line, None) => Err((line, format!("the file ends where {wanted} should be"))),
        }
    }

    fn value(&mut self, name: &str) -> Result<Secret, Fault> {
        match self.take()? {
            (line, Some(Token::Word(text) | Token::Quoted(text))) => {
                self.expand(text).map_err(|fault| (line, format!("the option {name}: {fault}")))
            }
            (line, _) => Err((line, format!("the option {name} has no value"))),
        }
    }

    /// Replaces each `${name}` by its value; `${/}` is the path separator.
    fn expand(&self, value: Secret) -> Result<Secret, String> {
        let text = value.expose_str().unwrap_or_default();
        if !text.contains("${") {
            return Ok(value);
        }
        let mut out = zeroize::Zeroizing::new(String::new());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            // Without a closing brace it is plain text, as in Java.
            let Some((name, behind)) = after.split_once('}') else { break };
            out.push_str(before);
            match name {
                "/" => out.push('/'),
                _ => match (self.property)(name) {
                    Some(value) => out.push_str(&value),
                    None => {
                        return Err("it names a system property in ${} that is not set".to_owned());
                    }
                },
            }
            rest = behind;
        }
        out.push_str(rest);
        Ok(Secret::from(out.as_str()))
    }

    fn is_mark(&mut self, mark: char) -> Result<bool, Fault> {
        Ok(matches!(self.look()?, Some((_, Token::Mark(next))) if *next == mark))
    }

    fn mark(&mut self, mark: char, place: &str) -> Result<(), Fault> {
        let (line, token) = self.take()?;
        if token == Some(Token::Mark(mark)) {
            return Ok(());
        }
        // This text may be a password, so the error does not show it.
        let end = if token.is_none() { ", where the file ends" } else { "" };
        Err((line, format!("{mark:?} is missing {place}{end}")))
    }

    fn look(&mut self) -> Result<Option<&(usize, Token)>, Fault> {
        if self.next.is_none() {
            self.next = self.read()?;
        }
        Ok(self.next.as_ref())
    }

    fn take(&mut self) -> Result<(usize, Option<Token>), Fault> {
        self.look()?;
        Ok(match self.next.take() {
            Some((line, token)) => (line, Some(token)),
            None => (self.line, None),
        })
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    fn read(&mut self) -> Result<Option<(usize, Token)>, Fault> {
        loop {
            let Some(&first) = self.rest.peek() else { return Ok(None) };
            match first {
                '{' | '}' | ';' | '=' | ',' => {
                    self.bump();
                    return Ok(Some((self.line, Token::Mark(first))));
                }
                '"' | '\'' => return self.quoted().map(Some),
                '#' => while self.bump().is_some_and(|next| next != '\n') {},
                '/' => {
                    let mut ahead = self.rest.clone();
                    ahead.next();
                    match ahead.next() {
                        Some('/') => while self.bump().is_some_and(|next| next != '\n') {},
                        Some('*') => self.block_comment()?,
                        _ => return Ok(Some(self.bare())),
                    }
                }
                _ if is_space(first) => {
                    self.bump();
                }
                _ => return Ok(Some(self.bare())),
            }
        }
    }

    fn block_comment(&mut self) -> Result<(), Fault> {
        let line = self.line;
        self.bump();
        self.bump();
        let mut before = ' ';
        while let Some(next) = self.bump() {
            if before == '*' && next == '/' {
                return Ok(());
            }
            before = next;
        }
        Err((line, "the comment has no end".to_owned()))
    }

    fn bare(&mut self) -> (usize, Token) {
        let line = self.line;
        let mut text = zeroize::Zeroizing::new(String::new());
        while let Some(&next) = self.rest.peek() {
            if is_space(next) || matches!(next, '{' | '}' | ';' | '=' | ',' | '"' | '\'') {
                break;
            }
            text.push(next);
            self.bump();
        }
        (line, Token::Word(Secret::from(text.as_str())))
    }

    fn quoted(&mut self) -> Result<(usize, Token), Fault> {
        let line = self.line;
        let quote = self.bump();
        let mut text = zeroize::Zeroizing::new(String::new());
        loop {
            let next = self.bump();
            match next {
                None | Some('\n' | '\r') => {
                    return Err((
                        line,
                        "the quoted text has no closing quote on its line".to_owned(),
                    ));
                }
                _ if next == quote => break,
                Some('\\') => text.push(self.escape(line)?),
                Some(next) => text.push(next),
            }
        }
        Ok((line, Token::Quoted(Secret::from(text.as_str()))))
    }

    /// C's escapes, including octal ones. An unknown escape is the character itself.
    fn escape(&mut self, line: usize) -> Result<char, Fault> {
        let Some(next) = self.bump() else {
            return Err((line, "the quoted text has no closing quote on its line".to_owned()));
        };
        Ok(match next {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '0'..='7' => {
                let mut value = next.to_digit(8).unwrap_or_default();
                // At most three digits, or two if the first is above 3.
                let more = if next <= '3' { 2 } else { 1 };
                for _ in 0..more {
                    let Some(digit) = self.rest.peek().and_then(|next| next.to_digit(8)) else {
                        break;
                    };
                    self.bump();
                    value = value * 8 + digit;
                }
                char::from_u32(value).unwrap_or('\u{fffd}')
            }
            '\n' => {
                return Err((line, "the quoted text has no closing quote on its line".to_owned()));
            }
            other => other,
        })
    }
}

/// Java's tokenizer treats every control character and the blank as space.
fn is_space(character: char) -> bool {
    character <= ' '
}
