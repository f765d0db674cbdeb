//! A crawler: many processes fetch the pages of web sites. They fetch each page once, even if some
//! of them die.
//!
//! ```text
//! cargo run --example crawler -- add http://127.0.0.1:8000/
//! cargo run --example crawler -- work --until-done
//! cargo run --example crawler -- show
//! ```
//!
//! Links wait in a [`Queue`]. A link stays in the queue until its page has been read, so another
//! process fetches it if its crawler dies. The tree also contains all known links. One transaction
//! records that a page was read, and adds the links of that page, so each link enters the queue
//! once.
//!
//! The crawler follows only pages of the added hosts, by plain HTTP.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use zebu_client::{Acls, Client, CreateMode, ErrorCode, ErrorKind, Retry, Transaction, Version};
use zebu_examples::connection::{Connection, is_session_over, log};
use zebu_examples::web::{self, Link};
use zebu_recipes::{Item, Queue};

/// Crawl web sites, together with other processes
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    connection: Connection,

    /// The root znode of the crawler
    #[arg(long, value_name = "PATH", default_value = "/crawler")]
    root: String,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Put links into the queue
    Add {
        /// http://HOST:PORT/PATH
        #[arg(required = true)]
        links: Vec<String>,
    },
    /// Take links from the queue, and fetch them
    Work {
        /// End when no link is left
        #[arg(long)]
        until_done: bool,

        /// Pause before each page, to limit the load of the web site
        #[arg(long, value_name = "MS", default_value_t = 0)]
        pause_ms: u64,
    },
    /// Print all links and their results
    Show,
}

#[tokio::main]
async fn main() -> ExitCode {
    log();
    zebu_examples::exit_code(run(Args::parse()).await)
}

async fn run(args: Args) -> Result<()> {
    let stop = zebu_examples::asked_to_stop();
    tokio::pin!(stop);
    loop {
        let (client, acl) = args.connection.open().await?;
        let crawler = Crawler::new(&client, &acl, &args.root);
        crawler.prepare().await?;
        let doing = async {
            match &args.command {
                Command::Add { links } => crawler.add(links).await,
                Command::Work { until_done, pause_ms } => {
                    let pause = std::time::Duration::from_millis(*pause_ms);
                    crawler.work(*until_done, pause).await
                }
                Command::Show => crawler.show().await,
            }
        };
        let end = tokio::select! {
            end = doing => end,
            asked = &mut stop => asked.map_err(Into::into),
        };
        match end {
            // The link that was being fetched is in the queue again.
            Err(error) if is_session_over(&error) => println!("session over"),
            end => {
                client.close().await?;
                return end;
            }
        }
    }
}

struct Crawler {
    client: Client,
    acl: Acls,
    queue: Queue,
    /// The parent of all known links.
    known: String,
}

impl Crawler {
    fn new(client: &Client, acl: &Acls, root: &str) -> Self {
        let queue = Queue::new(client, &format!("{root}/queue"), acl);
        let (client, acl) = (client.clone(), acl.clone());
        Self { client, acl, queue, known: format!("{root}/known") }
    }

    async fn prepare(&self) -> Result<()> {
        Retry::default().reads(|| self.client.create_all(&self.known, &self.acl)).await?;
        Ok(self.queue.prepare().await?)
    }

    async fn add(&self, links: &[String]) -> Result<()> {
        for text in links {
            let link: Link = text.parse()?;
            let commit = || {
                let mut transaction = self.client.transaction();
                self.add_to(&mut transaction, &link);
                transaction.commit()
            };
            // A repetition does no harm: a known link is not added again.
            match Retry::default().reads(commit).await {
                Ok(_) => println!("{link} is new"),
                Err(error) if error.code() == ErrorCode::NODE_EXISTS => println!("{link} is known"),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Records a link as known, and puts it into the queue. Pages near the root come first.
    fn add_to(&self, transaction: &mut Transaction, link: &Link) {
        let path = self.znode(link);
        transaction.create(&path, "waiting", CreateMode::Persistent, &self.acl);
        self.queue.put_in(transaction, link.to_string(), link.depth());
    }

    /// The znode of a link: a name has no slashes.
    fn znode(&self, link: &Link) -> String {
        let name = link.to_string().replace('%', "%25").replace('/', "%2F");
        format!("{}/{name}", self.known)
    }

    async fn work(&self, until_done: bool, pause: std::time::Duration) -> Result<()> {
        loop {
            let item = tokio::select! {
                item = self.queue.take() => item?,
                () = self.done(), if until_done => {
                    println!("done");
                    return Ok(());
                }
            };
            self.fetch(item, pause).await?;
        }
    }

    /// Waits until the queue is empty, and no process works on an item.
    async fn done(&self) {
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            // Another process would fail in the same way.
            if let Ok(true) = self.queue.is_empty().await {
                return;
            }
        }
    }

    async fn fetch(&self, mut item: Item, pause: std::time::Duration) -> Result<()> {
        let text = String::from_utf8_lossy(item.data()).into_owned();
        println!("fetching {text}");
        tokio::time::sleep(pause).await;
        let link: Link = text.parse()?;
        let (result, mut links) = match web::get(&link).await {
            Ok(page) => (format!("status {}", page.status), web::links(&link, &page.body)),
            // A failed fetch is a result, too.
            Err(error) => (format!("failed: {error:#}"), Vec::new()),
        };
        loop {
            links = self.unknown(links).await?;
            let finished = item
                .try_finish(|transaction| {
                    transaction.set_data(&self.znode(&link), &result, Version::ANY);
                    for new in &links {
                        self.add_to(transaction, new);
                    }
                })
                .await;
            match finished {
                Ok(()) => println!("{text}: {result}, {} new links", links.len()),
                // Another process has found one of the links meanwhile.
                Err(zebu_recipes::Error::Client(error)) if error.kind() == ErrorKind::Conflict => {
                    continue;
                }
                // Another process has this link now, and will read the page again.
                Err(zebu_recipes::Error::Deleted(_)) => println!("{text}: too late"),
                Err(error) => return Err(error.into()),
            }
            return Ok(());
        }
    }

    /// The links that no process has found yet.
    async fn unknown(&self, links: Vec<Link>) -> Result<Vec<Link>> {
        let look = || async {
            let looks: Vec<_> =
                links.iter().map(|link| self.client.exists(&self.znode(link))).collect();
            let mut unknown = Vec::new();
            for (link, look) in links.iter().zip(looks) {
                if look.await?.is_none() {
                    unknown.push(link.clone());
                }
            }
            Ok(unknown)
        };
        Ok(Retry::default().reads(look).await?)
    }

    async fn show(&self) -> Result<()> {
        let (mut names, _) = self.client.get_children(&self.known).await?;
        names.sort();
        let reads: Vec<_> = names
            .iter()
            .map(|name| self.client.get_data(&format!("{}/{name}", self.known)))
            .collect();
        for (name, read) in names.iter().zip(reads) {
            let (data, _) = read.await?;
            let link = name.replace("%2F", "/").replace("%25", "%");
            println!("{link}: {}", String::from_utf8_lossy(&data));
        }
        Ok(())
    }
}
