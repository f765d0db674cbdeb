//! The rules: a list of `DEFAULT` and `RULE:[components:format](match)s/from/to/g`.

use std::fmt;

use regex::{Captures, Regex, RegexBuilder};

use super::{NoShortName, Principal};

/// A compiled expression larger than this is refused. Expressions in real rules have some
/// kilobytes.
const EXPRESSION_BYTES_MAX: usize = 1 << 20;

/// Rules that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    rule: String,
    why: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "auth_to_local has no valid rule at {:?}: {}; ", self.rule, self.why)?;
        f.write_str("use DEFAULT or RULE:[COMPONENTS:FORMAT](MATCH)s/FROM/TO/g")
    }
}

impl std::error::Error for RuleError {}

/// Rules in the order in which they are tried. Two lists are equal if their texts are.
#[derive(Clone)]
pub struct Rules {
    text: String,
    rules: Vec<Rule>,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rules").field(&self.text).finish()
    }
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Rules {}

impl Default for Rules {
    /// The original's default: names of this machine's realm lose the realm.
    fn default() -> Self {
        Self { text: "DEFAULT".to_owned(), rules: vec![Rule::Default] }
    }
}

#[derive(Debug, Clone)]
enum Rule {
    Default,
    Rewrite(Rewrite),
}

#[derive(Debug, Clone)]
struct Rewrite {
    components: usize,
    format: Vec<Piece>,
    /// The expression that the whole formatted name must match.
    wanted: Option<Regex>,
    replaced: Option<(Regex, Vec<Piece>)>,
    is_repeated: bool,
}

/// A piece of a format or a replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// A component of the name (0 is the realm), or a group of the expression.
    Number(usize),
}

impl Rules {
    /// Parses rules.
    ///
    /// # Errors
    /// The position and the fault.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let mut rules = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let fault = |why: String| RuleError { rule: rest.to_owned(), why };
            if let Some(behind) = rest.strip_prefix("DEFAULT") {
                rules.push(Rule::Default);
                rest = behind.trim_start();
                continue;
            }
            let (rule, behind) = rewrite(rest).map_err(fault)?;
            rules.push(Rule::Rewrite(rule));
            rest = behind.trim_start();
        }
        Ok(Self { text: text.trim().to_owned(), rules })
    }

    /// The short name of a principal, by the first rule that applies. A name without a realm is
    /// already short.
    ///
    /// # Errors
    /// No rule applies, or the first applicable rule produces a name with a `/` or an `@`.
    pub fn short_name(&self, name: &Principal, default_realm: &str) -> Result<String, NoShortName> {
        let Some(realm) = name.realm() else { return Ok(name.service().to_owned()) };
        let mut parts = vec![realm, name.service()];
        parts.extend(name.host());
        self.rules
            .iter()
            .find_map(|rule| rule.apply(&parts, default_realm))
            .filter(|short| !short.contains(['/', '@']))
            .ok_or_else(|| NoShortName(name.to_string()))
    }
}

impl Rule {
    fn apply(&self, parts: &[&str], default_realm: &str) -> Option<String> {
        let rule = match self {
            Self::Default => return (parts[0] == default_realm).then(|| parts[1].to_owned()),
            Self::Rewrite(rule) => rule,
        };
        if parts.len() - 1 != rule.components {
            return None;
        }
        let mut base = String::new();
        for piece in &rule.format {
            match piece {
                Piece::Text(text) => base.push_str(text),
                Piece::Number(number) => base.push_str(parts[*number]), // Checked when it was read.
            }
        }
        if rule.wanted.as_ref().is_some_and(|wanted| !wanted.is_match(&base)) {
            return None;
        }
        let Some((from, to)) = &rule.replaced else { return Some(base) };
        let replacement = |captures: &Captures<'_>| {
            let mut text = String::new();
            for piece in to {
                match piece {
                    Piece::Text(piece) => text.push_str(piece),
                    Piece::Number(group) => {
                        text.push_str(captures.get(*group).map_or("", |found| found.as_str()));
                    }
                }
            }
            text
        };
        let limit = if rule.is_repeated { 0 } else { 1 };
        Some(from.replacen(&base, limit, replacement).into_owned())
    }
}

/// Parses one rule at the beginning of a text. Returns it and the rest of the text.
fn rewrite(text: &str) -> Result<(Rewrite, &str), String> {
    let rest = text.strip_prefix("RULE:[").ok_or("it begins with neither DEFAULT nor RULE:[")?;
    let (components, rest) = rest.split_once(':').ok_or("there is no colon")?;
    let is_number = !components.is_empty() && components.bytes().all(|byte| byte.is_ascii_digit());
    let components = components
        .parse::<usize>()
        .ok()
        .filter(|_| is_number)
        .ok_or("the number of components is not a number")?;
    let (format, mut rest) = rest.split_once(']').ok_or("there is no closing bracket")?;
    let format = format_pieces(format, components)?;
    let mut wanted = None;
    // As in Java's expression, an incomplete part begins the next rule.
    if let Some((pattern, behind)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        expression(pattern)?; // By itself: within the brackets below it could close them.
        wanted = Some(expression(&format!("^(?:{pattern})$"))?);
        rest = behind;
    }
    let mut replaced = None;
    let mut is_repeated = false;
    if let Some((from, to, behind)) = substitution(rest) {
        let from = expression(from)?;
        let to = replacement_pieces(to, from.captures_len())?;
        replaced = Some((from, to));
        is_repeated = behind.starts_with('g');
        rest = behind.strip_prefix('g').unwrap_or(behind);
    }
    Ok((Rewrite { components, format, wanted, replaced, is_repeated }, rest))
}

fn substitution(rest: &str) -> Option<(&str, &str, &str)> {
    let (from, rest) = rest.strip_prefix("s/")?.split_once('/')?;
    let (to, rest) = rest.split_once('/')?;
    Some((from, to, rest))
}

fn expression(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).size_limit(EXPRESSION_BYTES_MAX).build();
    built.map_err(|error| one_line(&error))
}

/// The last line of an error of `regex`; the lines before it draw the position.
fn one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    format!("its regular expression is not supported ({})", last.trim_start_matches("error: "))
}

fn format_pieces(format: &str, components: usize) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut parts = format.split('$');
    pieces.push(Piece::Text(parts.next().unwrap_or_default().to_owned()));
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let number = part[..digits].parse().ok().filter(|number| *number <= components);
        let number = number
            .ok_or_else(|| format!("${} names no component of {components}", &part[..digits]))?;
        pieces.push(Piece::Number(number));
        pieces.push(Piece::Text(part[digits..].to_owned()));
    }
    Ok(pieces)
}

/// A replacement in Java's syntax: a backslash before a plain character, and group numbers with as
/// many digits as there are groups for.
fn replacement_pieces(text: &str, groups: usize) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '\\' => plain.push(rest.next().ok_or("the replacement ends with a backslash")?),
            '$' => {
                let first = rest.next().and_then(|digit| digit.to_digit(10));
                let mut group =
                    first.ok_or("a $ in the replacement is not followed by a digit")? as usize;
                if group >= groups {
                    return Err(format!(
                        "the replacement names group {group}, which does not exist"
                    ));
                }
                while let Some(digit) = rest.peek().and_then(|next| next.to_digit(10)) {
                    let longer = group * 10 + digit as usize;
                    if longer >= groups {
                        break;
                    }
                    group = longer;
                    rest.next();
                }
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
                pieces.push(Piece::Number(group));
            }
            _ => plain.push(next),
        }
    }
    pieces.push(Piece::Text(plain));
    Ok(pieces)
}
