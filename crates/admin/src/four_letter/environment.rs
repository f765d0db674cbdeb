//! The facts of `envi` about the machine and the process.

use std::fs;

/// The values in place of the original's Java properties.
const NOT_AVAILABLE: &str = "<NA>";

/// Machine and process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // As `envi` prints them.
pub struct Environment {
    pub host_name: String,
    pub tmp_dir: String,
    pub os_name: String,
    pub os_arch: String,
    pub os_version: String,
    pub user_name: String,
    pub user_home: String,
    pub user_dir: String,
    /// Memory that the system can still give to processes, in MiB.
    pub memory_free_mib: u64,
    /// The machine's memory, in MiB.
    pub memory_max_mib: u64,
    /// This process's memory, in MiB.
    pub memory_total_mib: u64,
}

impl Environment {
    /// Reads the facts of this process. Unknown facts are `<NA>` or 0.
    pub fn collect() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let file = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let or_na = |text: Option<String>| text.unwrap_or_else(|| NOT_AVAILABLE.to_owned());
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let process = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let user = user_id(&process).and_then(|id| User::of(&users, id));
        Self {
            host_name: or_na(file("/proc/sys/kernel/hostname").or_else(|| variable("HOSTNAME"))),
            tmp_dir: std::env::temp_dir().display().to_string(),
            os_name: os_name(std::env::consts::OS).to_owned(),
            os_arch: os_arch(std::env::consts::ARCH).to_owned(),
            os_version: or_na(file("/proc/sys/kernel/osrelease")),
            user_name: or_na(
                user.as_ref()
                    .map(|user| user.name.clone())
                    .or_else(|| variable("USER"))
                    .or_else(|| variable("LOGNAME"))
                    .or_else(|| user_id(&process).map(str::to_owned)),
            ),
            user_home: or_na(user.map(|user| user.home).or_else(|| variable("HOME"))),
            user_dir: or_na(std::env::current_dir().ok().map(|dir| dir.display().to_string())),
            memory_free_mib: mib_of(&memory, "MemAvailable:"),
            memory_max_mib: mib_of(&memory, "MemTotal:"),
            memory_total_mib: mib_of(&process, "VmRSS:"),
        }
    }

    /// Keys and values, in the original's order.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let text = str::to_owned;
        vec![
            ("zookeeper.version", super::full_version()),
            ("host.name", text(&self.host_name)),
            ("java.version", text(NOT_AVAILABLE)),
            ("java.vendor", text(NOT_AVAILABLE)),
            ("java.home", text(NOT_AVAILABLE)),
            ("java.class.path", text(NOT_AVAILABLE)),
            ("java.library.path", text(NOT_AVAILABLE)),
            ("java.io.tmpdir", text(&self.tmp_dir)),
            ("java.compiler", text(NOT_AVAILABLE)),
            ("os.name", text(&self.os_name)),
            ("os.arch", text(&self.os_arch)),
            ("os.version", text(&self.os_version)),
            ("user.name", text(&self.user_name)),
            ("user.home", text(&self.user_home)),
            ("user.dir", text(&self.user_dir)),
            ("os.memory.free", format!("{}MB", self.memory_free_mib)),
            ("os.memory.max", format!("{}MB", self.memory_max_mib)),
            ("os.memory.total", format!("{}MB", self.memory_total_mib)),
        ]
    }
}

/// The user of the process.
#[derive(Debug, PartialEq, Eq)]
struct User {
    name: String,
    home: String,
}

impl User {
    /// The user with this id in `/etc/passwd`.
    fn of(users: &str, id: &str) -> Option<Self> {
        users.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let &[name, _, number, _, _, home, ..] = fields.as_slice() else { return None };
            (number == id).then(|| Self { name: name.to_owned(), home: home.to_owned() })
        })
    }
}

/// The effective user id in `/proc/self/status`.
fn user_id(process: &str) -> Option<&str> {
    process.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1))
}

/// Java's name of the operating system.
fn os_name(name: &'static str) -> &'static str {
    match name {
        "linux" => "Linux",
        "macos" => "Mac OS X",
        "windows" => "Windows",
        other => other,
    }
}

/// Java's name of the processor.
fn os_arch(name: &'static str) -> &'static str {
    match name {
        "x86_64" => "amd64",
        other => other,
    }
}

/// The value of a line `name:   12 kB`, in MiB.
fn mib_of(text: &str, name: &str) -> u64 {
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_proc_lines() {
        let text = "MemTotal:       24567890 kB\nMemFree:  1 kB\n";
        assert_eq!(mib_of(text, "MemTotal:"), 23_992);
        assert_eq!(mib_of(text, "MemAvailable:"), 0);
    }

    #[test]
    fn the_user_is_known_without_variables() {
        let process = "Name:\tzebu\nUid:\t0\t1001\t1001\t1001\nGid:\t0\n";
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nzk:x:1001:9::/var/lib/zk:/bin/false\n";
        let id = user_id(process).unwrap();
        let (name, home) = ("zk".to_owned(), "/var/lib/zk".to_owned());
        assert_eq!(User::of(users, id), Some(User { name, home }));
        assert_eq!((User::of(users, "7"), user_id("")), (None, None));
    }

    #[test]
    fn collecting_never_fails() {
        let entries = Environment::collect().entries();
        assert_eq!(entries.len(), 18);
        assert!(entries.iter().all(|(_, value)| !value.contains('\n')));
    }
}
