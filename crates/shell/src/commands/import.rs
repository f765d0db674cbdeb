//! Reads the files of `export`.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};

use bytes::Bytes;
use serde_json::{Map, Value, json};
use zebu_client::Acls;

use super::Context;
use super::export::{FORMAT, FORMAT_VERSION};
use crate::failure::{Failure, Result};
use crate::options::Arguments;
use crate::plant::{Planter, Seedling};
use crate::progress::Progress;
use crate::render;
use crate::walk::transplant;

/// A file that is read line by line.
struct Lines {
    from: Box<dyn BufRead>,
    name: String,
    number: usize,
}

/// One line of a file.
#[derive(Debug)]
enum Line {
    Znode(Map<String, Value>),
    /// The last line, with the number of znodes.
    End(usize),
}

impl Lines {
    fn wrong(&self, what: impl std::fmt::Display) -> Failure {
        Failure::new(format!("{}:{}: {what}", self.name, self.number))
    }

    fn object(&mut self) -> Result<Option<Map<String, Value>>> {
        let mut text = String::new();
        self.number += 1;
        if self.from.read_line(&mut text).map_err(|error| self.wrong(error))? == 0 {
            return Ok(None);
        }
        match serde_json::from_str(&text) {
            Ok(Value::Object(object)) => Ok(Some(object)),
            Ok(_) => Err(self.wrong("not a JSON object")),
            Err(error) => Err(self.wrong(error)),
        }
    }

    /// Reads the first line. Returns the root of the subtree.
    fn begin(&mut self) -> Result<String> {
        let head = self.object()?.unwrap_or_default();
        if head.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return Err(self
                .wrong("not written by export")
                .hint("write such a file with: export PATH FILE"));
        }
        if head.get("version").and_then(Value::as_u64) != Some(FORMAT_VERSION) {
            return Err(self
                .wrong("written by a later version")
                .hint("import it with that version"));
        }
        match head.get("root") {
            Some(Value::String(root)) => Ok(root.clone()),
            _ => Err(self.wrong("no root")),
        }
    }

    fn next(&mut self) -> Result<Line> {
        let Some(object) = self.object()? else {
            return Err(self.wrong("the file ends too early").hint("export it again"));
        };
        match object.get("znodes").and_then(Value::as_u64) {
            Some(count) => Ok(Line::End(usize::try_from(count).unwrap_or(usize::MAX))),
            None => Ok(Line::Znode(object)),
        }
    }

    fn seedling(&self, object: &Map<String, Value>, with_acl: bool) -> Result<Seedling> {
        let Some(Value::String(path)) = object.get("path") else {
            return Err(self.wrong("no path"));
        };
        let data = render::take_data(object).map_err(|what| self.wrong(what))?.map(Bytes::from);
        let mut acl = Acls::open_to_all();
        if with_acl {
            let mut wrong = None;
            let entries = object.get("acl").and_then(Value::as_array).map(Vec::as_slice);
            let texts = entries.unwrap_or_default().iter().filter_map(Value::as_str);
            let parsed =
                texts.flat_map(|text| render::parse_acl(text, &mut |what| wrong = Some(what)));
            acl = parsed.collect::<Vec<_>>().into();
            if let Some(what) = wrong {
                return Err(self.wrong(what));
            }
            if acl.entries().is_empty() {
                return Err(self.wrong("no ACL").hint("-no-acl gives everybody all permissions"));
            }
        }
        Ok(Seedling { path: path.clone(), data, acl })
    }
}

pub(super) async fn import(cx: &Context, args: &Arguments) -> Result {
    let mut lines = open(args.word(0))?;
    let root = lines.begin()?;
    let target = args.try_word(1).unwrap_or(&root);
    let (with_acl, is_dry) = (!args.has("no-acl"), args.has("n"));
    let progress = Progress::counting(&cx.out, "creating");
    let mut planter = Planter::new(&cx.client, args.has("f"), &progress);
    let mut count = 0;
    loop {
        let object = match lines.next()? {
            Line::Znode(object) => object,
            Line::End(written) if written == count => break,
            Line::End(written) => {
                return Err(lines.wrong(format!("{count} znodes instead of {written}")));
            }
        };
        count += 1;
        let mut seedling = lines.seedling(&object, with_acl)?;
        seedling.path = transplant(&seedling.path, &root, target);
        if is_dry {
            let is_there = cx.client.exists(&seedling.path).await?.is_some();
            let verb = if is_there { "exists" } else { "create" };
            cx.out.emit(
                || format!("{verb} {}", seedling.path),
                || json!({ "path": seedling.path, "would": verb }),
            )?;
        } else if seedling.path != "/" {
            planter.plant(seedling).await?;
        }
    }
    let planted = planter.finish().await?;
    drop(progress);
    if is_dry {
        return Ok(());
    }
    cx.out.json_only(|| {
        json!({ "root": target, "created": planted.created, "overwritten": planted.overwritten })
    })
}

/// Opens a file and checks that it is complete before any znode is created.
fn open(name: &str) -> Result<Lines> {
    if name == "-" {
        let from = Box::new(BufReader::new(std::io::stdin()));
        return Ok(Lines { from, name: "stdin".to_owned(), number: 0 });
    }
    let wrong = |error: std::io::Error| Failure::new(format!("{name}: {error}"));
    let mut file = File::open(name).map_err(wrong)?;
    let from = BufReader::new(file.try_clone().map_err(wrong)?);
    let mut lines = Lines { from: Box::new(from), name: name.to_owned(), number: 0 };
    lines.begin()?;
    while let Line::Znode(object) = lines.next()? {
        lines.seedling(&object, false)?;
    }
    file.rewind().map_err(wrong)?;
    Ok(Lines { from: Box::new(BufReader::new(file)), name: name.to_owned(), number: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &'static str) -> Lines {
        Lines { from: Box::new(text.as_bytes()), name: "f".to_owned(), number: 0 }
    }

    const HEAD: &str = "{\"format\":\"zebu-export\",\"version\":1,\"root\":\"/a\"}\n";

    #[test]
    fn a_file_says_what_it_is() {
        assert_eq!(lines(HEAD).begin().unwrap(), "/a");
        let refused = |text| lines(text).begin().unwrap_err().message().to_owned();
        assert_eq!(refused(""), "f:1: not written by export");
        assert_eq!(
            refused("{\"format\":\"zebu-export\",\"version\":2,\"root\":\"/\"}"),
            "f:1: written by a later version"
        );
        assert!(refused("junk").starts_with("f:1: "));
    }

    #[test]
    fn a_file_that_is_cut_off_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{HEAD}{{\"path\":\"/a\",\"data\":null}}\n")).unwrap();
        let failure = open(file.path().to_str().unwrap()).err().expect("it is refused");
        assert!(failure.message().ends_with(":3: the file ends too early"), "{failure:?}");
    }

    #[test]
    fn a_znode_needs_a_path_and_an_acl() {
        let seedling = |text: &str, with_acl| {
            let Value::Object(object) = serde_json::from_str(text).unwrap() else {
                panic!("object")
            };
            lines("").seedling(&object, with_acl).map_err(|failure| failure.message().to_owned())
        };
        let found = seedling("{\"path\":\"/a\",\"data\":\"x\",\"acl\":[\"ip:127.0.0.1:r\"]}", true)
            .unwrap();
        assert_eq!((found.path.as_str(), found.data.as_deref()), ("/a", Some(&b"x"[..])));
        assert_eq!(found.acl.entries().len(), 1);
        assert_eq!(seedling("{\"data\":\"x\"}", false).unwrap_err(), "f:0: no path");
        assert_eq!(seedling("{\"path\":\"/a\"}", true).unwrap_err(), "f:0: no ACL");
        assert!(seedling("{\"path\":\"/a\",\"data\":1}", false).is_err());
    }
}
