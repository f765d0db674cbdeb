//! The cores that a server and the generator may use.

#[cfg(target_os = "linux")]
use linux::{cores_of_thread, set};
#[cfg(not(target_os = "linux"))]
use other::{cores_of_thread, set};

/// The cores of a server and those of the generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) server: Vec<usize>,
    pub(crate) own: Vec<usize>,
}

impl Split {
    /// The first `count` cores for the server and the others for the generator. If none is left,
    /// both share all cores.
    pub(crate) fn new(all: &[usize], count: usize) -> Self {
        let (server, rest) = all.split_at(count.min(all.len()));
        let own = if rest.is_empty() { all } else { rest };
        Self { server: server.to_vec(), own: own.to_vec() }
    }

    /// Whether a core belongs to both.
    pub(crate) fn is_shared(&self) -> bool {
        self.own.iter().any(|core| self.server.contains(core))
    }
}

/// The cores this thread may use.
pub(crate) fn cores() -> anyhow::Result<Vec<usize>> {
    cores_of_thread()
}

/// Keeps the calling thread, and the threads and processes that it starts, on these cores until it
/// is dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    before: Vec<usize>,
}

impl Pinned {
    pub(crate) fn to(wanted: &[usize]) -> anyhow::Result<Self> {
        let before = cores()?;
        set(wanted)?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = set(&self.before); // they were ours before
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use anyhow::{Context, ensure};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) fn cores_of_thread() -> anyhow::Result<Vec<usize>> {
        let set = sched_getaffinity(None).context("ask for the cores of this process")?;
        Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
    }

    pub(super) fn set(wanted: &[usize]) -> anyhow::Result<()> {
        ensure!(!wanted.is_empty(), "no core to run on");
        let mut set = CpuSet::new();
        for &core in wanted {
            set.set(core);
        }
        sched_setaffinity(None, &set).with_context(|| format!("keep to the cores {wanted:?}"))
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use anyhow::bail;

    pub(super) fn cores_of_thread() -> anyhow::Result<Vec<usize>> {
        bail!("servers are kept to cores on Linux only")
    }

    pub(super) fn set(_wanted: &[usize]) -> anyhow::Result<()> {
        bail!("servers are kept to cores on Linux only")
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_generator_has_what_the_server_leaves_or_shares_all() {
        let split = Split::new(&[0, 2, 3], 1);
        assert_eq!((&split.server[..], &split.own[..]), (&[0][..], &[2, 3][..]));
        assert!(!split.is_shared());
        let split = Split::new(&[0, 2], 2);
        assert_eq!((&split.server[..], &split.own[..]), (&[0, 2][..], &[0, 2][..]));
        assert!(split.is_shared());
    }

    #[test]
    fn a_thread_is_where_it_was_put_and_goes_back() {
        std::thread::spawn(|| {
            let all = cores().unwrap();
            {
                let _pinned = Pinned::to(&all[..1]).unwrap();
                assert_eq!(cores().unwrap(), all[..1]);
                // Threads that it starts stay on these cores too.
                assert_eq!(std::thread::spawn(|| cores().unwrap()).join().unwrap(), all[..1]);
            }
            assert_eq!(cores().unwrap(), all);
        })
        .join()
        .unwrap();
    }
}
