//! Service discovery with the znodes and JSON of Curator's `x-discovery`.

mod instance;
mod strategy;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;
use zebu_client::{Acls, Client, CreateMode, ErrorKind, Retry, Version, Zxid};

use crate::{Cache, Changes, Error, PersistentNode, Result, path};

pub use instance::{ServiceInstance, ServiceType, UriSpec};
pub use strategy::{Random, RoundRobin, Sticky, Strategy};

/// Registered services. Each service is a znode with its instances below it. Curator's
/// `ServiceDiscovery` with the same path finds these services, and this recipe finds Curator's
/// services.
///
/// ```text
/// PATH/SERVICE/ID    an instance, as JSON
/// ```
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// use zebu_client::Acls;
/// use zebu_recipes::{Discovery, RoundRobin, ServiceInstance};
///
/// let discovery = Discovery::new(&client, "/services", &Acls::creator());
/// let mut web = ServiceInstance::new("web", "10.0.0.1");
/// web.port = Some(8080);
/// let registration = discovery.register(web).await?;
///
/// let provider = discovery.provider("web", RoundRobin::default())?;
/// let chosen = provider.instance().await?.expect("there is one");
/// assert_eq!(chosen.address, "10.0.0.1");
/// registration.unregister().await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Discovery {
    client: Client,
    path: String,
    acl: Acls,
}

impl Discovery {
    /// The services below this znode. Missing znodes are created with this ACL.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let discovery = zebu_recipes::Discovery::new(&client, "/services", &Acls::creator());
    /// # drop(discovery);
    /// # Ok(()) });
    /// ```
    pub fn new(client: &Client, path: &str, acl: &Acls) -> Self {
        Self { client: client.clone(), path: path.to_owned(), acl: acl.clone() }
    }

    /// Registers an instance. Returns when others can find it. An instance with the same id, from
    /// an earlier session or another program, is replaced.
    ///
    /// # Errors
    /// [`Error::Name`] for a name or an id that no znode can have; those of
    /// [`PersistentNode::keep`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Discovery, ServiceInstance};
    /// let discovery = Discovery::new(&client, "/services", &Acls::creator());
    /// let _offered = discovery.register(ServiceInstance::new("web", "10.0.0.1")).await?;
    /// assert_eq!(discovery.services().await?, ["web"]);
    /// # Ok(()) });
    /// ```
    pub async fn register(&self, instance: ServiceInstance) -> Result<Registration> {
        path::check_name(&instance.id, &[])?;
        let path = path::join(&self.service(&instance.name)?, &instance.id);
        let mode = match instance.kind {
            ServiceType::Dynamic => CreateMode::Ephemeral,
            ServiceType::DynamicSequential => CreateMode::EphemeralSequential,
            ServiceType::Static | ServiceType::Permanent => CreateMode::Persistent,
        };
        if !mode.is_sequential() {
            // A new create gives the znode a new transaction.
            match Retry::default().reads(|| self.client.delete(&path, Version::ANY)).await {
                Err(error) if error.kind() != ErrorKind::Gone => return Err(error.into()),
                _ => {}
            }
        }
        let data = instance.to_json();
        let node = PersistentNode::keep(&self.client, &path, data, mode, &self.acl).await?;
        Ok(Registration { instance, node })
    }

    /// The names of all services, whether they have instances or not.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let discovery = zebu_recipes::Discovery::new(&client, "/services", &Acls::creator());
    /// assert_eq!(discovery.services().await?, [""; 0]);
    /// # Ok(()) });
    /// ```
    pub async fn services(&self) -> Result<Vec<String>> {
        self.names(&self.path).await
    }

    /// All instances of a service. Invalid ones are left out and logged.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let discovery = zebu_recipes::Discovery::new(&client, "/services", &Acls::creator());
    /// assert_eq!(discovery.instances("web").await?, []);
    /// # Ok(()) });
    /// ```
    pub async fn instances(&self, service: &str) -> Result<Vec<ServiceInstance>> {
        let path = self.service(service)?;
        let mut found = Vec::new();
        for id in self.names(&path).await? {
            found.extend(self.instance(service, &id).await?);
        }
        Ok(found)
    }

    /// One instance; `None` if it does not exist, or is invalid.
    ///
    /// # Errors
    /// The errors of reading.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let discovery = zebu_recipes::Discovery::new(&client, "/services", &Acls::creator());
    /// assert_eq!(discovery.instance("web", "1").await?, None);
    /// # Ok(()) });
    /// ```
    pub async fn instance(&self, service: &str, id: &str) -> Result<Option<ServiceInstance>> {
        path::check_name(id, &[])?;
        let path = path::join(&self.service(service)?, id);
        match Retry::default().reads(|| self.client.get_data(&path)).await {
            Ok((data, _)) => Ok(read(&path, &data)),
            Err(error) if error.kind() == ErrorKind::Gone => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Provides instances of a service from a [`Cache`]. A strategy chooses among them.
    ///
    /// # Errors
    /// [`Error::Name`] for an invalid name.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// let discovery = zebu_recipes::Discovery::new(&client, "/services", &Acls::creator());
    /// let provider = discovery.provider("web", zebu_recipes::Random)?;
    /// assert!(provider.instance().await?.is_none());
    /// # Ok(()) });
    /// ```
    pub fn provider(&self, service: &str, strategy: impl Strategy + 'static) -> Result<Provider> {
        let path = self.service(service)?;
        let cache = Cache::children(&self.client, &path).start();
        Ok(Provider {
            path,
            cache,
            strategy: Box::new(strategy),
            down: DownPolicy::default(),
            known: Mutex::default(),
            failures: Mutex::default(),
        })
    }

    fn service(&self, name: &str) -> Result<String> {
        path::check_name(name, &[])?;
        Ok(path::join(&self.path, name))
    }

    async fn names(&self, path: &str) -> Result<Vec<String>> {
        match Retry::default().reads(|| self.client.get_children(path)).await {
            Ok((mut names, _)) => {
                names.sort();
                Ok(names)
            }
            Err(error) if error.kind() == ErrorKind::Gone => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

fn read(path: &str, data: &[u8]) -> Option<ServiceInstance> {
    let instance = ServiceInstance::from_json(data);
    if instance.is_none() {
        warn!("ignored, because the data are no service instance: {path}");
    }
    instance
}

/// A registered instance. The registration ends when this value is dropped, or the session ends.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// # use zebu_recipes::{Discovery, ServiceInstance};
/// let discovery = Discovery::new(&client, "/services", &Acls::creator());
/// let offered = discovery.register(ServiceInstance::new("web", "10.0.0.1")).await?;
/// println!("{}", offered.instance().id);
/// # Ok(()) });
/// ```
#[derive(Debug)]
#[must_use = "an instance that is dropped is not offered any more"]
pub struct Registration {
    instance: ServiceInstance,
    node: PersistentNode,
}

impl Registration {
    /// The instance.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Discovery, ServiceInstance};
    /// let discovery = Discovery::new(&client, "/services", &Acls::creator());
    /// let offered = discovery.register(ServiceInstance::new("web", "10.0.0.1")).await?;
    /// assert_eq!(offered.instance().name, "web");
    /// # Ok(()) });
    /// ```
    pub fn instance(&self) -> &ServiceInstance {
        &self.instance
    }

    /// Changes the content of the instance. Its name, id and type cannot change.
    ///
    /// # Errors
    /// As [`PersistentNode::set_data`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Discovery, ServiceInstance};
    /// let discovery = Discovery::new(&client, "/services", &Acls::creator());
    /// let mut offered = discovery.register(ServiceInstance::new("web", "10.0.0.1")).await?;
    /// offered.update(|instance| instance.enabled = false).await?;
    /// assert!(!discovery.instances("web").await?[0].enabled);
    /// # Ok(()) });
    /// ```
    pub async fn update(&mut self, change: impl FnOnce(&mut ServiceInstance)) -> Result<()> {
        let mut changed = self.instance.clone();
        change(&mut changed);
        changed.name.clone_from(&self.instance.name);
        changed.id.clone_from(&self.instance.id);
        changed.kind = self.instance.kind;
        self.node.set_data(changed.to_json()).await?;
        self.instance = changed;
        Ok(())
    }

    /// Waits until the registration ends, and returns the reason, as [`PersistentNode::lost`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Discovery, ServiceInstance};
    /// let discovery = Discovery::new(&client, "/services", &Acls::creator());
    /// let offered = discovery.register(ServiceInstance::new("web", "10.0.0.1")).await?;
    /// client.close().await?;
    /// assert!(offered.lost().await.is_session_over());
    /// # Ok(()) });
    /// ```
    pub async fn lost(&self) -> Error {
        self.node.lost().await
    }

    /// Ends the registration, and returns when the znode is deleted.
    ///
    /// # Errors
    /// As [`PersistentNode::close`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Discovery, ServiceInstance};
    /// let discovery = Discovery::new(&client, "/services", &Acls::creator());
    /// discovery.register(ServiceInstance::new("web", "h")).await?.unregister().await?;
    /// assert_eq!(discovery.instances("web").await?, []);
    /// # Ok(()) });
    /// ```
    pub async fn unregister(self) -> Result<()> {
        self.node.close().await
    }
}

/// When an instance that fails is not given out any more.
///
/// ```
/// let down = zebu_recipes::DownPolicy::default();
/// assert_eq!((down.failures, down.rest.as_secs()), (2, 30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownPolicy {
    /// After this many failures, the provider does not choose the instance for a while.
    pub failures: u32,
    /// The time after the first failure at which the provider forgets all failures.
    pub rest: Duration,
}

impl Default for DownPolicy {
    fn default() -> Self {
        Self { failures: 2, rest: Duration::from_secs(30) }
    }
}

/// Failures of an instance.
#[derive(Debug)]
struct Failures {
    count: u32,
    first: Instant,
}

/// An instance, and the transaction that wrote it.
type Known = HashMap<String, (Zxid, Option<Arc<ServiceInstance>>)>;

/// Provides instances of one service. It ends with its last user, or with the session.
///
/// ```
/// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
/// # embedded::run(async |client| {
/// # use zebu_client::Acls;
/// # use zebu_recipes::{Discovery, Random, Sticky};
/// let discovery = Discovery::new(&client, "/services", &Acls::creator());
/// let provider = discovery.provider("web", Sticky::new(Random))?;
/// match provider.instance().await? {
///     Some(instance) => println!("{}", instance.address),
///     None => println!("no instance is registered"),
/// }
/// # Ok(()) });
/// ```
pub struct Provider {
    path: String,
    cache: Cache,
    strategy: Box<dyn Strategy>,
    down: DownPolicy,
    known: Mutex<Known>,
    /// The instances by id.
    failures: Mutex<HashMap<String, Failures>>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Provider").field(&self.path).finish()
    }
}

impl Provider {
    /// When an instance that fails is not given out any more.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Discovery, DownPolicy, Random};
    /// let discovery = Discovery::new(&client, "/services", &Acls::creator());
    /// let down = DownPolicy { failures: 1, ..DownPolicy::default() };
    /// let provider = discovery.provider("web", Random)?.down_policy(down);
    /// # drop(provider);
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn down_policy(mut self, down: DownPolicy) -> Self {
        self.down = down;
        self
    }

    /// An instance to use; `None` if no instance is both enabled and not excluded after failures.
    /// The first call waits until the instances are read. Without a connection, the provider uses
    /// the last known instances.
    ///
    /// # Errors
    /// The session has ended; those of [`Cache::current`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Discovery, Random};
    /// let discovery = Discovery::new(&client, "/services", &Acls::creator());
    /// assert!(discovery.provider("web", Random)?.instance().await?.is_none());
    /// # Ok(()) });
    /// ```
    pub async fn instance(&self) -> Result<Option<Arc<ServiceInstance>>> {
        let instances = self.instances().await?;
        let chosen = self.strategy.choose(&instances);
        Ok(chosen.and_then(|at| instances.get(at).cloned()))
    }

    /// All instances that are enabled and not excluded after failures, by id.
    ///
    /// # Errors
    /// As for [`Provider::instance`].
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Discovery, Random};
    /// let discovery = Discovery::new(&client, "/services", &Acls::creator());
    /// assert!(discovery.provider("web", Random)?.instances().await?.is_empty());
    /// # Ok(()) });
    /// ```
    pub async fn instances(&self) -> Result<Vec<Arc<ServiceInstance>>> {
        // Without a connection, the last known instances are used.
        self.cache.filled().await?;
        let children = self.cache.children_of(&self.path);
        let mut known = self.known.lock();
        // They are sorted by path.
        known.retain(|path, _| children.binary_search_by(|znode| znode.path.cmp(path)).is_ok());
        let mut found = Vec::with_capacity(children.len());
        for znode in children {
            let kept = known.get(&znode.path).filter(|(zxid, _)| *zxid == znode.stat.mzxid);
            let instance = match kept {
                Some((_, instance)) => instance.clone(),
                None => {
                    let instance = read(&znode.path, &znode.data).map(Arc::new);
                    known.insert(znode.path.clone(), (znode.stat.mzxid, instance.clone()));
                    instance
                }
            };
            found.extend(instance.filter(|it| it.enabled && !self.rests(&it.id)));
        }
        found.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(found)
    }

    /// Reports a failure of an instance. After too many failures, the provider excludes it for a
    /// while.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Discovery, Random, ServiceInstance};
    /// let discovery = Discovery::new(&client, "/services", &Acls::creator());
    /// let _offered = discovery.register(ServiceInstance::new("web", "10.0.0.1")).await?;
    /// let provider = discovery.provider("web", Random)?;
    /// let instance = provider.instance().await?.expect("there is one");
    /// provider.failed(&instance);
    /// provider.failed(&instance);
    /// assert!(provider.instance().await?.is_none());
    /// # Ok(()) });
    /// ```
    pub fn failed(&self, instance: &ServiceInstance) {
        let now = Instant::now();
        let mut failures = self.failures.lock();
        failures.retain(|_, failures| now - failures.first < self.down.rest);
        let failures = failures.entry(instance.id.clone());
        failures.or_insert(Failures { count: 0, first: now }).count += 1;
    }

    /// Changes of the service's instances, as the changes of a [`Cache`] of the service's znode and
    /// its children.
    ///
    /// ```
    /// # mod embedded { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../client/tests/support/embedded.in")); }
    /// # embedded::run(async |client| {
    /// # use zebu_client::Acls;
    /// # use zebu_recipes::{Change, Discovery, Random};
    /// let discovery = Discovery::new(&client, "/services", &Acls::creator());
    /// let mut changes = discovery.provider("web", Random)?.changes();
    /// assert_eq!(changes.next().await?, Change::Current);
    /// # Ok(()) });
    /// ```
    pub fn changes(&self) -> Changes {
        self.cache.changes()
    }

    fn rests(&self, id: &str) -> bool {
        let failures = self.failures.lock();
        failures.get(id).is_some_and(|failures| {
            failures.first.elapsed() < self.down.rest && failures.count >= self.down.failures
        })
    }
}
