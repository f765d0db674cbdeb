//! The screen: draws a view, and maps keys to actions. The caller owns the terminal.

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Row, Table};

use super::text;
use super::view::View;

/// The user's choices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Screen {
    /// The index of the first client on the screen.
    pub(super) first_client: usize,
    /// Whether the display is paused.
    pub(super) is_held: bool,
}

/// The action for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// Redraw the screen.
    Redraw,
    /// End the program.
    Quit,
}

impl Screen {
    /// Handles a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Wish {
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Wish::Quit,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Wish::Quit;
            }
            KeyCode::Char('p' | ' ') => self.is_held = !self.is_held,
            KeyCode::Down | KeyCode::Char('j') => self.first_client += 1,
            KeyCode::Up | KeyCode::Char('k') => {
                self.first_client = self.first_client.saturating_sub(1);
            }
            KeyCode::PageDown => self.first_client += 10,
            KeyCode::PageUp => self.first_client = self.first_client.saturating_sub(10),
            KeyCode::Home => self.first_client = 0,
            _ => {}
        }
        Wish::Redraw
    }

    /// Draws the screen. `view`: `None` before the first observation is complete.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, view: Option<&View>) {
        let Some(view) = view else {
            frame.render_widget(Paragraph::new("asking the servers ..."), frame.area());
            return;
        };
        self.first_client = self.first_client.min(view.clients.len().saturating_sub(1));
        let notes = (view.notes.len() as u16).min(4);
        let paths = (view.paths.len() as u16).min(5);
        let with_title = |rows: u16| if rows == 0 { 0 } else { rows + 2 };
        let [top, servers, clients, below, operations, notes_area, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(view.servers.len() as u16 + 2),
            Constraint::Min(3),
            Constraint::Length(with_title(paths)),
            Constraint::Length(u16::from(!view.operations.is_empty())),
            Constraint::Length(notes),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let held = if self.is_held { "  [held]" } else { "" };
        frame.render_widget(Line::styled(format!("{}{held}", view.summary), bold), top);
        draw_servers(frame, servers, view);
        let rows = view.clients.iter().skip(self.first_client).map(text::client_cells);
        let title = "busiest clients";
        let clients_widths = [24, 19, 22, 8, 9, 7, 6, 10];
        draw_table(frame, clients, title, text::CLIENT_COLUMNS, rows, clients_widths);
        let rows = view.paths.iter().map(text::path_cells);
        draw_table(frame, below, "busiest paths", text::PATH_COLUMNS, rows, [32, 9, 9, 9, 9]);
        let line = format!("operations/s: {}", text::operations(view));
        frame.render_widget(Paragraph::new(line), operations);
        let warning = Style::new().fg(Color::Yellow);
        let lines: Vec<Line<'_>> = (view.notes.iter().take(notes.into()))
            .map(|note| Line::styled(format!("! {note}"), warning))
            .collect();
        frame.render_widget(Paragraph::new(lines), notes_area);
        let help = "q quit   p hold   up/down clients";
        frame.render_widget(Line::styled(help, Style::new().add_modifier(Modifier::DIM)), keys);
    }
}

/// Widths of the columns of servers.
const SERVER_WIDTHS: [u16; 16] = [6, 21, 11, 10, 5, 13, 5, 7, 6, 7, 6, 6, 7, 7, 6, 6];

/// The columns that a narrow screen omits, in this order.
const SERVER_COLUMNS_LEFT_OUT: [usize; 10] = [15, 9, 5, 13, 11, 14, 4, 12, 10, 1];

/// The columns of servers that fit.
fn server_columns(width: u16) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..SERVER_WIDTHS.len()).collect();
    for left_out in SERVER_COLUMNS_LEFT_OUT {
        let needed =
            |columns: &[usize]| columns.iter().map(|at| SERVER_WIDTHS[*at] + 1).sum::<u16>();
        if needed(&columns) > width + 1 {
            columns.retain(|at| *at != left_out);
        }
    }
    columns
}

fn draw_servers(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let columns = server_columns(area.width);
    let rows = view.servers.iter().map(|server| {
        let style = match server.health.as_str() {
            "ok" => Style::new(),
            "read-only" => Style::new().fg(Color::Yellow),
            _ => Style::new().fg(Color::Red),
        };
        let cells = text::server_cells(server);
        Row::new(columns.iter().map(|at| cells[*at].clone()).collect::<Vec<_>>()).style(style)
    });
    let widths = columns.iter().map(|at| Constraint::Length(SERVER_WIDTHS[*at]));
    let names = columns.iter().map(|at| text::SERVER_COLUMNS[*at]);
    let header = Row::new(names).style(Style::new().add_modifier(Modifier::BOLD));
    let block = Block::new().borders(Borders::TOP).title(Span::raw("servers"));
    frame.render_widget(Table::new(rows, widths).header(header).block(block), area);
}

fn draw_table<const N: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    columns: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    widths: [u16; N],
) {
    if area.height == 0 {
        return;
    }
    let rows = rows.take(area.height.into()).map(Row::new);
    let header = Row::new(columns).style(Style::new().add_modifier(Modifier::BOLD));
    let block = Block::new().borders(Borders::TOP).title(Span::raw(title));
    let table = Table::new(rows, widths.map(Constraint::Length)).header(header).block(block);
    frame.render_widget(table, area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::tests::samples;
    use super::*;

    fn drawn(screen: &mut Screen, view: Option<&View>, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned()).collect()
    }

    fn view() -> View {
        let (before, after) = samples();
        View::new(&before, &after, 100)
    }

    #[test]
    fn servers_clients_paths_and_notes_are_on_the_screen() {
        let lines = drawn(&mut Screen::default(), Some(&view()), 150, 30);
        assert!(lines[0].starts_with("leader server.1, epoch 2, 2 of 3 voters serve"));
        assert!(lines[2].starts_with("server address"), "{lines:#?}");
        let leader: Vec<_> = lines[3].split_whitespace().collect();
        assert_eq!(leader[..5], ["1", "127.0.0.1:1", "ok", "leader", "2"]);
        let client = lines.iter().position(|line| line.contains("0x11")).unwrap();
        let other = lines.iter().position(|line| line.contains("0x12")).unwrap();
        assert!(client < other, "the busiest is first: {lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("/app_1 ")), "{lines:#?}");
        assert!(lines.contains(&"operations/s: set_data 50  ping 1".to_owned()), "{lines:#?}");
        assert!(lines.contains(&"! 127.0.0.1:3: connection refused".to_owned()), "{lines:#?}");
        assert!(lines[29].starts_with("q quit"));
    }

    #[test]
    fn any_size_and_nothing_to_show_can_be_drawn() {
        let view = view();
        for (width, height) in [(1, 1), (20, 3), (40, 8), (80, 24), (300, 100)] {
            drawn(&mut Screen::default(), Some(&view), width, height);
            drawn(&mut Screen::default(), Some(&View::default()), width, height);
            drawn(&mut Screen::default(), None, width, height);
        }
        for width in [40, 80] {
            let lines = drawn(&mut Screen::default(), Some(&view), width, 24);
            assert!(lines[3].contains(" leader ") && lines[3].contains(" 500"), "{lines:#?}");
        }
    }

    #[test]
    fn keys_are_obeyed() {
        let mut screen = Screen::default();
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        assert_eq!(screen.press(key(KeyCode::Down)), Wish::Redraw);
        let lines = drawn(&mut screen, Some(&view()), 150, 30);
        assert!(!lines.iter().any(|line| line.contains("0x11")), "the first is scrolled away");
        screen.press(key(KeyCode::PageDown));
        drawn(&mut screen, Some(&view()), 150, 30);
        assert_eq!(screen.first_client, 1, "not beyond the last");
        screen.press(key(KeyCode::Char('p')));
        assert!(screen.is_held);
        assert!(drawn(&mut screen, Some(&view()), 150, 30)[0].ends_with("[held]"));
        for quit in [
            key(KeyCode::Esc),
            key(KeyCode::Char('q')),
            KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
        ] {
            assert_eq!(screen.press(quit), Wish::Quit);
        }
        assert_eq!(screen.press(key(KeyCode::Char('c'))), Wish::Redraw);
    }
}
