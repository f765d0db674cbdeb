//! What the crate `zookeeper-client` does over TLS: `rust-tls SERVERS CA CERTIFICATE KEY`, files in PEM. Prints a transcript.

use std::error::Error;
use std::fs::read_to_string;
use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, TlsOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [servers, ca, certificate, key] = words.as_slice() else {
        return Err("usage: rust-tls SERVERS CA CERTIFICATE KEY".into());
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
