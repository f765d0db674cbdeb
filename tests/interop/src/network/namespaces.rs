//! Network namespaces: one for each member, and one for the router between them.
//!
//! The addresses are from the block for network benchmarks (RFC 2544), which real networks do not
//! use.

use std::fs::{File, TryLockError};
use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::network::Place;

/// Maximum number of networks at the same time.
const SLOTS: u8 = 250;

/// The last numbers of the router's address and of this process's address.
const ROUTER: u8 = 254;
const HERE: u8 = 253;

/// The namespaces of one ensemble. Dropping them removes them.
#[derive(Debug)]
pub(super) struct Namespaces {
    slot: u8,
    members: u8,
    cuts: Vec<(u8, u8)>,
    /// Locked while this process uses the slot. The kernel releases the lock even after a kill.
    _lock: File,
}

impl Namespaces {
    pub(super) fn make(members: usize) -> Result<Self> {
        let members = u8::try_from(members)?;
        let (slot, lock) = free_slot()?;
        let made = Self { slot, members, cuts: Vec::new(), _lock: lock };
        // A killed process may have left namespaces behind.
        made.remove();
        made.wire()?;
        Ok(made)
    }

    fn host(&self, last: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.slot, last)
    }

    /// A member's second address. The member sends from its first one.
    fn second(&self, last: u8) -> Ipv4Addr {
        self.host(last + 100)
    }

    /// The address of a member that cuts do not affect.
    pub(super) fn other(&self, member: usize) -> Ipv4Addr {
        self.second(number(member))
    }

    fn router(&self) -> String {
        format!("zebu-{}-router", self.slot)
    }

    fn namespace(&self, last: u8) -> String {
        format!("zebu-{}-{last}", self.slot)
    }

    /// The router's end of the link to a member or to this process.
    fn link(&self, last: u8) -> String {
        format!("zb{}-{last}", self.slot)
    }

    fn wire(&self) -> Result<()> {
        let (router, gateway) = (self.router(), self.host(ROUTER));
        ip(&format!("netns add {router}"))?;
        ip(&format!("-n {router} link set lo up"))?;
        ip(&format!("-n {router} addr add {gateway}/32 dev lo"))?;
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        let mut sysctl = Command::new("ip");
        succeed(sysctl.args(["netns", "exec", &router, "sh", "-c", forward]))?;
        for last in 1..=self.members {
            let (member, link, host) = (self.namespace(last), self.link(last), self.host(last));
            ip(&format!("netns add {member}"))?;
            ip(&format!("-n {member} link set lo up"))?;
            ip(&format!(
                "link add name {link} netns {router} type veth peer name eth0 netns {member}"
            ))?;
            ip(&format!("-n {member} addr add {host}/32 dev eth0"))?;
            let second = self.second(last);
            ip(&format!("-n {member} addr add {second}/32 dev eth0"))?;
            ip(&format!("-n {member} link set eth0 up"))?;
            ip(&format!("-n {member} route add {gateway} dev eth0"))?;
            ip(&format!("-n {member} route add default via {gateway} dev eth0"))?;
            ip(&format!("-n {router} link set {link} up"))?;
            ip(&format!("-n {router} route add {host} dev {link}"))?;
            ip(&format!("-n {router} route add {second} dev {link}"))?;
        }
        let (link, host) = (self.link(HERE), self.host(HERE));
        ip(&format!("link add name {link} type veth peer name outside netns {router}"))?;
        ip(&format!("addr add {host}/32 dev {link}"))?;
        ip(&format!("link set {link} up"))?;
        ip(&format!("-n {router} link set outside up"))?;
        ip(&format!("-n {router} route add {host} dev outside"))?;
        ip(&format!("route add {gateway} dev {link} src {host}"))?;
        ip(&format!("route add {}/24 via {gateway} dev {link} src {host}", self.host(0)))
    }

    pub(super) fn place(&self, member: usize) -> Place {
        let last = number(member);
        Place { host: self.host(last), namespace: Some(self.namespace(last)) }
    }

    pub(super) fn cut(&mut self, from: usize, to: usize) -> Result<()> {
        let cut = (number(from), number(to));
        if !self.cuts.contains(&cut) {
            self.rule("add", cut)?;
            self.cuts.push(cut);
        }
        Ok(())
    }

    pub(super) fn heal(&mut self) -> Result<()> {
        for cut in std::mem::take(&mut self.cuts) {
            self.rule("del", cut)?;
        }
        Ok(())
    }

    /// The router drops these packets without an error message.
    fn rule(&self, what: &str, (from, to): (u8, u8)) -> Result<()> {
        let (router, from, to) = (self.router(), self.host(from), self.host(to));
        ip(&format!("-n {router} rule {what} from {from} to {to} blackhole"))
    }

    fn remove(&self) {
        // Errors about missing parts are ignored. Links are removed with their namespaces.
        for last in 1..=self.members.max(9) {
            ip(&format!("netns del {}", self.namespace(last))).ok();
        }
        ip(&format!("netns del {}", self.router())).ok();
        ip(&format!("link del {}", self.link(HERE))).ok();
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The last number of a member's address.
fn number(member: usize) -> u8 {
    u8::try_from(member + 1).expect("few members")
}

/// A number that no other process on this machine uses, and the lock on it.
fn free_slot() -> Result<(u8, File)> {
    for slot in 1..=SLOTS {
        let path = std::env::temp_dir().join(format!("zebu-network-{slot}.lock"));
        let file = File::options().create(true).truncate(false).write(true).open(&path)?;
        match file.try_lock() {
            Ok(()) => return Ok((slot, file)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
    anyhow::bail!("all {SLOTS} networks are in use")
}

fn ip(words: &str) -> Result<()> {
    succeed(Command::new("ip").args(words.split(' ')))
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", said.trim());
    Ok(())
}
