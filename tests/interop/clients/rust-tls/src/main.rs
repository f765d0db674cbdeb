//! What the crate `zookeeper-client` does over TLS: `rust-tls SERVERS CA CERTIFICATE KEY`, files in
//! PEM; and with SASL: `rust-tls SERVERS USER PASSWORD`. Prints a transcript.

use std::error::Error;
use std::fs::read_to_string;
use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, SaslOptions, TlsOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (servers, ca, certificate, key) = match words.as_slice() {
        [servers, ca, certificate, key] => (servers, ca, certificate, key),
        [servers, user, password] => return with_sasl(servers, user, password).await,
        _ => return Err("usage: rust-tls SERVERS (CA CERTIFICATE KEY | USER PASSWORD)".into()),
    };
    let (ca, certificate, key) =
        (read_to_string(ca)?, read_to_string(certificate)?, read_to_string(key)?);
    let tls = || TlsOptions::new().with_pem_ca(&ca)?.with_pem_identity(&certificate, &key);
    let connect = || async {
        let connector = Client::connector().with_tls(tls()?);
        connector.with_session_timeout(Duration::from_secs(20)).secure_connect(servers).await
    };
    let (client, other) = (connect().await?, connect().await?);
    let mut users = client.list_auth_users().await?;
    users.sort_by_key(|user| user.scheme().to_owned());
    println!("who am i: {:?}", users.iter().map(|user| user.scheme()).collect::<Vec<_>>());

    // Values of many records, both ways.
    let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create("/large", &[7; 900_000], &open).await?;
    let (data, stat) = other.get_data("/large").await?;
    println!("large: {} bytes, all the same: {}", data.len(), data.iter().all(|byte| *byte == 7));
    println!("version: {}", stat.version);

    // A notification, and many requests at once.
    let (_, _, changed) = other.get_and_watch_data("/large").await?;
    let many: Vec<_> =
        (0..500).map(|n| client.set_data("/large", n.to_string().as_bytes(), None)).collect();
    for one in many {
        one.await?;
    }
    println!("notified: {:?}", changed.changed().await.event_type);
    println!("version: {}", client.get_data("/large").await?.1.version);

    // An identity of the certificate's alone.
    client.create("/mine", b"", &CreateMode::Persistent.with_acls(Acls::creator_all())).await?;
    println!("mine: {}", other.get_acl("/mine").await?.0[0].scheme());
    println!("deleted: {:?}", client.delete("/large", None).await);
    Ok(())
}

/// DIGEST-MD5, right and wrong.
async fn with_sasl(servers: &str, user: &str, password: &str) -> Result<(), Box<dyn Error>> {
    let connect = |password: String| {
        let sasl = SaslOptions::digest_md5(user.to_owned(), password);
        let connector = Client::connector().with_sasl(sasl);
        let connector = connector.with_session_timeout(Duration::from_secs(20));
        async move { connector.connect(servers).await }
    };
    let client = connect(password.to_owned()).await?;
    let mut users: Vec<String> = (client.list_auth_users().await?.iter())
        .map(|user| format!("{}:{}", user.scheme(), user.user()))
        .filter(|user| user.starts_with("sasl:"))
        .collect();
    users.sort();
    println!("who am i: {users:?}");
    let own = CreateMode::Persistent.with_acls(Acls::creator_all());
    client.create("/sasl", b"mine", &own).await?;
    println!("acl: {:?}", client.get_acl("/sasl").await?.0);
    println!("data: {:?}", client.get_data("/sasl").await?.0);
    let stranger = Client::connector().connect(servers).await?;
    println!("a stranger: {:?}", stranger.get_data("/sasl").await.map(|(data, _)| data));
    println!("a wrong password: {:?}", connect(format!("{password}?")).await.map(drop));
    Ok(())
}
