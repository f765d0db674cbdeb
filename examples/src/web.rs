//! Links, and pages fetched by plain HTTP, for the crawler.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Maximum number of bytes that are read of a page.
const PAGE_BYTES_MAX: u64 = 1 << 20;

/// Maximum number of links that are followed of a page: all of them go into one transaction.
const LINKS_MAX: usize = 100;

/// Maximum time for a page.
const TIME_MAX: Duration = Duration::from_secs(30);

/// The address of a page: `http://HOST:PORT/PATH`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    host: String,
    /// The path, with its first slash.
    path: String,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.host, self.path)
    }
}

impl FromStr for Link {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let rest =
            text.strip_prefix("http://").context("not a link: http://HOST/PATH is wanted")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (path, _) = path.split_once('#').unwrap_or((path, ""));
        let link = Self { host: host.to_owned(), path: format!("/{path}") };
        let is_fine = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || !is_fine(host) || !is_fine(path) {
            bail!("not a link: {text}");
        }
        Ok(link)
    }
}

impl Link {
    /// The depth of the page within its site.
    pub fn depth(&self) -> u8 {
        u8::try_from(self.path.matches('/').count()).unwrap_or(u8::MAX)
    }

    /// The target of a reference on this page, if it is on the same host.
    fn follow(&self, reference: &str) -> Option<Self> {
        let text = if reference.contains("://") {
            reference.to_owned()
        } else if reference.starts_with('/') {
            format!("http://{}{reference}", self.host)
        } else if reference.is_empty() || reference.starts_with('#') || reference.contains(':') {
            return None;
        } else {
            let (folder, _) = self.path.rsplit_once('/')?;
            format!("http://{}{folder}/{reference}", self.host)
        };
        text.parse().ok().filter(|link: &Self| link.host == self.host)
    }
}

/// The answer of a web server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The status code; 200 for success.
    pub status: u16,
    /// The content.
    pub body: String,
}

/// Fetches a page.
///
/// # Errors
/// The server cannot be reached, takes too long, or does not speak HTTP.
pub async fn get(link: &Link) -> Result<Page> {
    tokio::time::timeout(TIME_MAX, ask(link)).await.context("takes too long")?
}

async fn ask(link: &Link) -> Result<Page> {
    let address = match link.host.contains(':') {
        true => link.host.clone(),
        false => format!("{}:80", link.host),
    };
    let mut stream = TcpStream::connect(&address).await.with_context(|| address.clone())?;
    let request = format!("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", link.path, link.host);
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(PAGE_BYTES_MAX).read_to_end(&mut answer).await?;
    parse(&String::from_utf8_lossy(&answer)).context("not an answer of HTTP")
}

fn parse(answer: &str) -> Option<Page> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    Some(Page { status: status.trim().parse().ok()?, body: body.to_owned() })
}

/// The links of a page to its own host, each once.
pub fn links(page: &Link, body: &str) -> Vec<Link> {
    let mut found: Vec<Link> = Vec::new();
    for piece in body.split("href=\"").skip(1) {
        let Some((reference, _)) = piece.split_once('"') else { continue };
        if let Some(link) = page.follow(reference)
            && !found.contains(&link)
            && found.len() < LINKS_MAX
        {
            found.push(link);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_on_their_host() {
        let page: Link = "http://h:1/a/b".parse().unwrap();
        let body = "<a href=\"c\"> <a href=\"/d#x\"> <a href=\"http://h:1/e/\"> <a href=\"c\"> \
                    <a href=\"http://other/\"> <a href=\"mailto:x\"> <a href=\"#top\"> <a href=\"";
        let found: Vec<String> = links(&page, body).iter().map(Link::to_string).collect();
        assert_eq!(found, ["http://h:1/a/c", "http://h:1/d", "http://h:1/e/"]);
        assert_eq!(page.depth(), 2);
        for nonsense in ["", "ftp://h/", "http://", "http://h/a b", "h/a"] {
            nonsense.parse::<Link>().unwrap_err();
        }
    }

    #[test]
    fn an_answer_is_taken_apart() {
        let page = parse("HTTP/1.1 404 Not Found\r\nA: b\r\n\r\nnot here").unwrap();
        assert_eq!(page, Page { status: 404, body: "not here".into() });
        assert_eq!(parse("SSH-2.0"), None);
    }
}
