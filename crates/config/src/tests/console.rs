//! The console and other pages beside the admin server's commands.

use std::time::Duration;

use super::Case;

#[test]
fn the_commands_leave_the_paths_of_others_alone() {
    for url in ["/jmx", "/health/x", "/console/", "/backup"] {
        let fault = Case::file(&format!("admin.commandURL={url}")).load().unwrap_err().to_string();
        assert!(fault.contains("is served already"), "{fault}");
    }
}

#[test]
fn the_console_is_off_unless_it_is_asked_for() {
    assert_eq!(Case::file("").config().admin.unwrap().console, None, "nobody gets it unasked");
    let text =
        "admin.console=true\nadmin.console.hosts=a.example, b\nadmin.console.idleTimeout=2000";
    let console = Case::file(text).config().admin.unwrap().console.unwrap();
    assert_eq!(console.hosts, ["a.example", "b"]);
    assert_eq!(console.idle_timeout, Duration::from_secs(2));
}
