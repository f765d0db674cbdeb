//! Applications whose servers keep their metadata in ZooKeeper. Each is alive while the servers of
//! the ensemble below it change from the original to Zebu and back, and while the leader is killed.
//!
//! Each application has a Java program in `clients/dependants` that uses it all the time. The
//! program prints `ready`. For a line of input it makes something with that name, which the servers
//! of the application write into ZooKeeper, and prints `made NAME`. For `check` it reads everything
//! back and prints `acknowledged N, lost M`.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use tempfile::TempDir;

use crate::deps;
use crate::ensemble::Ensemble;
use crate::run::Program;
use crate::server::{Kind, Options, free_ports, java_with};

/// The time limit for the start of several Java programs on a busy machine.
const START: Duration = Duration::from_secs(240);
/// The time limit for creating new content, and for reading everything back.
const WORK: Duration = Duration::from_secs(240);

/// An application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependant {
    /// Two brokers of Kafka 3.9 in ZooKeeper mode.
    Kafka,
    /// A master and two region servers of HBase 2.6.
    Hbase,
    /// Two nodes of SolrCloud 9.8.
    Solr,
}

/// The running programs of an application.
struct Running {
    servers: Vec<Program>,
    work: Program,
    _folder: TempDir,
}

impl Dependant {
    /// All applications.
    pub const ALL: [Self; 3] = [Self::Kafka, Self::Hbase, Self::Solr];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Hbase => "hbase",
            Self::Solr => "solr",
        }
    }

    fn libraries(self) -> String {
        format!("{}/*", deps::installed(&format!("dependant-{}", self.name())).display())
    }

    fn start(self, ensemble: &Ensemble) -> Result<Running> {
        let folder = tempfile::tempdir()?;
        let (servers, mut work) = match self {
            Self::Kafka => self.kafka(ensemble, folder.path())?,
            Self::Hbase => self.hbase(ensemble, folder.path())?,
            Self::Solr => self.solr(ensemble, folder.path())?,
        };
        let work = Program::start(&mut work)?;
        let running = Running { servers, work, _folder: folder };
        running.work.wait_for(START, |text| text.contains("ready")).with_context(|| {
            let logs = running.servers.iter().map(|server| server.text().unwrap_or_default());
            logs.collect::<Vec<_>>().join("\n")
        })?;
        Ok(running)
    }

    /// Its folder of `clients/dependants`.
    fn files(self) -> PathBuf {
        deps::client("dependants").join(self.name())
    }

    fn work(self, classpath: &str) -> Command {
        let mut command = java_with(classpath);
        command.arg(self.files().join("Work.java"));
        command
    }

    fn kafka(self, ensemble: &Ensemble, folder: &Path) -> Result<(Vec<Program>, Command)> {
        fs::write(folder.join("log4j.properties"), LOGGING)?;
        let classpath = format!("{}:{}", folder.display(), self.libraries());
        let first = free_ports(2);
        let ids = first..first + 2;
        let mut brokers = Vec::new();
        for port in ids.clone() {
            let settings = folder.join(format!("{port}.properties"));
            fs::write(
                &settings,
                format!(
                    "broker.id={port}\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={}\nzookeeper.connect={}\n\
                     offsets.topic.replication.factor=2\nauto.create.topics.enable=false\nreserved.broker.max.id=65536\n",
                    folder.join(port.to_string()).display(),
                    connect_string(ensemble),
                ),
            )?;
            let mut command = java_with(&classpath);
            brokers.push(Program::start(command.arg("kafka.Kafka").arg(settings))?);
        }
        for broker in &brokers {
            broker.wait_for(START, |text| text.contains("started (kafka.server.KafkaServer)"))?;
        }
        let mut work = self.work(&classpath);
        work.arg(ids.map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(","));
        Ok((brokers, work))
    }

    fn hbase(self, ensemble: &Ensemble, folder: &Path) -> Result<(Vec<Program>, Command)> {
        let ports = free_ports(3);
        let mut classpaths = Vec::new();
        for index in 0..3 {
            let conf = folder.join(format!("conf{index}"));
            fs::create_dir(&conf)?;
            fs::write(conf.join("log4j.properties"), LOGGING)?;
            let mut settings = String::from("<configuration>\n");
            for (name, value) in [
                ("hbase.cluster.distributed", "true"),
                ("hbase.rootdir", &format!("file://{}", folder.join("root").display())),
                ("hbase.unsafe.stream.capability.enforce", "false"),
                ("hbase.wal.provider", "filesystem"),
                ("hbase.zookeeper.quorum", &connect_string(ensemble)),
                ("zookeeper.session.timeout", "20000"),
                ("hbase.master.hostname", "localhost"),
                ("hbase.regionserver.hostname", "localhost"),
                ("hbase.master.port", &ports.to_string()),
                ("hbase.regionserver.port", &(ports + index).to_string()),
                ("hbase.master.info.port", "-1"),
                ("hbase.regionserver.info.port", "-1"),
                ("hbase.tmp.dir", &folder.join(format!("tmp{index}")).display().to_string()),
            ] {
                let (open, close) = ("<property><name>", "</value></property>");
                writeln!(settings, "{open}{name}</name><value>{value}{close}")?;
            }
            fs::write(conf.join("hbase-site.xml"), settings + "</configuration>\n")?;
            classpaths.push(format!("{}:{}", conf.display(), self.libraries()));
        }
        let mut servers = Vec::new();
        let classes =
            ["master.HMaster", "regionserver.HRegionServer", "regionserver.HRegionServer"];
        for (classpath, class) in classpaths.iter().zip(classes) {
            let mut command = java_with(classpath);
            command.args([&format!("org.apache.hadoop.hbase.{class}"), "start"]);
            servers.push(Program::start(&mut command)?);
        }
        let opened = Regex::new("Master has completed initialization")?;
        servers[0].wait_for(START, |text| opened.is_match(text))?;
        Ok((servers, self.work(&classpaths[0])))
    }

    fn solr(self, ensemble: &Ensemble, folder: &Path) -> Result<(Vec<Program>, Command)> {
        let servers = connect_string(ensemble);
        let mut nodes = Vec::new();
        for port in [free_ports(1), free_ports(1)] {
            let home = folder.join(port.to_string());
            fs::create_dir(&home)?;
            fs::copy(self.files().join("home/solr.xml"), home.join("solr.xml"))?;
            let mut command = java_with(&self.libraries());
            command.arg(self.files().join("Node.java")).args([&port.to_string(), &servers]);
            nodes.push(Program::start(command.arg(home))?);
        }
        for node in &nodes {
            node.wait_for(START, |text| text.contains("the node serves"))?;
        }
        let mut work = self.work(&self.libraries());
        work.arg(servers).arg(self.files().join("config"));
        Ok((nodes, work))
    }

    /// Runs the whole test. Returns a line for each step.
    ///
    /// # Errors
    /// A server or the application fails, a session of the application expires, or an acknowledged
    /// write of the application is lost.
    pub fn outlives_the_replacement_of_its_servers(self) -> Result<Vec<String>> {
        let limits = Options::default().config("initLimit", 10).config("syncLimit", 5);
        let options = limits.config("forceSync", "yes");
        let mut ensemble = Ensemble::start(&[Kind::Java395; 3], &options)?;
        let mut running = self.start(&ensemble)?;
        let mut seen = Vec::new();
        let mut step = |running: &mut Running, what: String| {
            let name = format!("step{}", seen.len());
            running.make(&name).with_context(|| what.clone())?;
            println!("{}: {what}", self.name());
            seen.push(what);
            anyhow::Ok(())
        };
        step(&mut running, "three servers of the original".into())?;
        for _ in 0..3 {
            let (id, was) = change_next(&mut ensemble, Kind::Zebu)?;
            step(&mut running, format!("member {id}, a {was}, is Zebu now"))?;
        }
        let leader = ensemble.leader(None)?;
        ensemble.member(leader).kill()?;
        ensemble.leader(Some(leader))?;
        step(&mut running, format!("member {}, the leader, was killed", leader + 1))?;
        ensemble.member(leader).launch()?;
        step(&mut running, format!("member {} is back", leader + 1))?;
        for _ in 0..3 {
            let (id, was) = change_next(&mut ensemble, Kind::Java395)?;
            step(&mut running, format!("member {id}, a {was}, is the original again"))?;
        }
        seen.push(running.check()?);
        ensemble.no_mismatches()?;
        Ok(seen)
    }
}

impl Running {
    fn make(&mut self, name: &str) -> Result<()> {
        self.work.say(name)?;
        let made = format!("made {name}\n");
        self.work.wait_for(WORK, |text| text.contains(&made))
    }

    fn check(mut self) -> Result<String> {
        self.work.say("check")?;
        self.work.wait_for(WORK, |text| text.contains("acknowledged "))?;
        let text = self.work.text()?;
        let line = text.lines().find(|line| line.starts_with("acknowledged ")).context("a line")?;
        ensure!(line.ends_with(", lost 0"), "{line}");
        let expired = Regex::new("(?i)session (0x[0-9a-f]+ )?(has )?expired")?;
        for server in &mut self.servers {
            ensure!(server.is_running()?, "a server has ended\n{}", server.text()?);
            let text = server.text()?;
            if let Some(line) = text.lines().find(|line| expired.is_match(line)) {
                bail!("a session was lost: {line}");
            }
        }
        Ok(line.to_owned())
    }
}

/// Changes the kind of one member: of a follower while there is one of another kind, then of the
/// leader. Returns its id and its role before.
fn change_next(ensemble: &mut Ensemble, kind: Kind) -> Result<(usize, &'static str)> {
    let leader = ensemble.leader(None)?;
    let changes = |index: &usize| ensemble.members()[*index].kind() != kind;
    let follower = (0..ensemble.members().len()).filter(changes).find(|index| *index != leader);
    let index = follower.unwrap_or(leader);
    let member = ensemble.member(index);
    member.stop()?;
    member.change_kind(kind);
    member.launch()?;
    Ok((index + 1, if follower.is_some() { "follower" } else { "leader" }))
}

fn connect_string(ensemble: &Ensemble) -> String {
    let addresses = ensemble.addresses();
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

const LOGGING: &str = "log4j.rootLogger=INFO, out\n\
    log4j.appender.out=org.apache.log4j.ConsoleAppender\n\
    log4j.appender.out.layout=org.apache.log4j.PatternLayout\n\
    log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n\n";
