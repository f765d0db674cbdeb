//! A scenario against the original and Zebu: the administrators of an application, and a guest who
//! finds one znode without protection. ACL-17.

use std::time::Duration;

use anyhow::Result;
use tokio::runtime::Runtime;
use zebu_client::{Acls, Client, Connector, CreateMode, Perms, Result as Answer, Version};
use zebu_interop::scenario::same;
use zebu_interop::server::{Options, Server, soon};

const CONFIG: &str = "/apps/SuperApp/config";

/// A user, authenticated or as a guest.
async fn connect(server: &Server, name: Option<&str>) -> Result<Client> {
    let mut connector = Connector::new().session_timeout(Duration::from_secs(20));
    if let Some(name) = name {
        connector = connector.authenticate("digest", format!("{name}:secret"));
    }
    Ok(soon(connector.connect(&server.connect_string())).await??)
}

fn all(name: &str) -> Acls {
    Acls::user(name, "secret", Perms::ALL)
}

/// The result: success, or the error.
fn outcome<T>(answer: Answer<T>) -> String {
    answer.map_or_else(|error| format!("{}", error.code()), |_| "done".to_owned())
}

/// What a user may do with the configuration and the znodes around it. Changes nothing.
async fn tries(who: &Client, name: &str) -> String {
    let mut said = Vec::new();
    for path in ["/", "/apps", "/apps/SuperApp"] {
        said.push(format!("ls {path} {}", outcome(who.get_children(path).await)));
    }
    said.push(format!("read {}", outcome(who.get_data(CONFIG).await)));
    said.push(format!("write {}", outcome(who.set_data(CONFIG, "v", Version::ANY).await)));
    let made = who.create("/apps/SuperApp/more", "", CreateMode::Ephemeral, &all("dom")).await;
    said.push(format!("create {}", outcome(made)));
    said.push(format!("delete {}", outcome(who.delete("/apps/SuperApp/more", Version::ANY).await)));
    format!("{name}: {}\n", said.join(", "))
}

async fn story(server: &mut Server) -> Result<String> {
    let amy = connect(server, Some("amy")).await?;
    let dom = connect(server, Some("dom")).await?;
    let nico = connect(server, Some("nico")).await?;
    let gabe = connect(server, None).await?;
    let mut said = String::new();

    // The root and /apps belong to amy, the application to amy and dom.
    amy.create("/apps", "", CreateMode::Persistent, &all("amy")).await?;
    amy.set_acl("/", &all("amy"), Version::ANY).await?;
    let both = all("amy").and(all("dom"));
    amy.create("/apps/SuperApp", "", CreateMode::Persistent, &both).await?;
    // Dom sees nothing above, but can work below. He forgets to set an ACL.
    dom.create(CONFIG, "v", CreateMode::Persistent, &Acls::open_to_all()).await?;
    for (who, name) in [(&amy, "amy"), (&dom, "dom"), (&gabe, "gabe")] {
        said += &tries(who, name).await;
    }
    // Deleting is a right on the parent, but gabe can still exclude all other users.
    said += &format!("gabe deletes: {}\n", outcome(gabe.delete(CONFIG, Version::ANY).await));
    let nobody = Acls::user("gabe", "other", Perms::ALL);
    said +=
        &format!("gabe restricts: {}\n", outcome(gabe.set_acl(CONFIG, &nobody, Version(0)).await));
    said += &tries(&dom, "dom, kept out").await;
    // With his rights on the parent, dom can still delete it and create his own.
    dom.delete(CONFIG, Version::ANY).await?;
    dom.create(CONFIG, "v", CreateMode::Persistent, &all("dom")).await?;
    for (who, name) in [(&dom, "dom"), (&nico, "nico"), (&gabe, "gabe")] {
        said += &tries(who, name).await;
    }
    // Nico, too.
    let two = all("dom").and(all("nico"));
    said += &format!("gabe adds nico: {}\n", outcome(gabe.set_acl(CONFIG, &two, Version(0)).await));
    said += &format!("dom adds nico: {}\n", outcome(dom.set_acl(CONFIG, &two, Version(0)).await));
    said += &format!("dom, late: {}\n", outcome(dom.set_acl(CONFIG, &two, Version(0)).await));
    said += &tries(&nico, "nico").await;
    // Machines read it by their addresses, whatever user they run as. First these are not in the
    // ACL, then they are.
    for (network, version) in [("10.11.12.0/24", 1), ("127.0.0.0/8", 2)] {
        let machines = two.clone().and(Acls::address(network, Perms::READ));
        let set = nico.set_acl(CONFIG, &machines, Version(version)).await;
        said += &format!("nico adds {network}: {}\n", outcome(set));
        said += &tries(&gabe, "gabe").await;
    }
    said += &format!("{:?}\n", dom.get_acl(CONFIG).await?.0);
    // A user with the ADMIN permission on the application's znode can remove its creator from the
    // ACL.
    let dropped = dom.set_acl("/apps/SuperApp", &all("dom"), Version::ANY).await;
    said += &format!("dom drops amy: {}\n", outcome(dropped));
    said += &tries(&amy, "amy").await;
    Ok(said)
}

/// The first line with this beginning.
fn line<'t>(text: &'t str, begin: &str) -> &'t str {
    text.lines().find(|line| line.starts_with(begin)).unwrap_or_default()
}

/// ACL-01 to ACL-05, ACL-17: in every step both servers permit the same, as the documentation says.
#[test]
#[ignore = "needs third-party programs: cargo xtask deps"]
fn one_open_znode_in_a_restricted_tree() {
    same("access-story", &Options::default(), |server| {
        let said = Runtime::new()?.block_on(story(server))?;
        let denied = "NO_AUTH (-102)";
        assert_eq!(
            line(&said, "gabe:"),
            format!(
                "gabe: ls / {denied}, ls /apps {denied}, ls /apps/SuperApp {denied}, read done, \
                 write done, create {denied}, delete {denied}"
            )
        );
        assert_eq!(line(&said, "gabe restricts:"), "gabe restricts: done");
        assert_eq!(line(&said, "dom adds nico:"), "dom adds nico: done");
        assert_eq!(line(&said, "gabe adds nico:"), format!("gabe adds nico: {denied}"));
        Ok(said)
    });
}
