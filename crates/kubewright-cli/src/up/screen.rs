//! A full-screen terminal, restored on drop.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

/// Text style.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    #[default]
    Plain,
    Bold,
    Dim,
    Good,
    Busy,
    Bad,
}

impl Style {
    /// The parameters of the escape sequence.
    fn code(self) -> &'static str {
        match self {
            Style::Plain => "0",
            Style::Bold => "0;1",
            Style::Dim => "0;2",
            Style::Good => "0;32",
            Style::Busy => "0;33",
            Style::Bad => "0;31",
        }
    }
}

/// A line of styled spans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line(Vec<(Style, String)>);

impl Line {
    /// The text without styles.
    #[cfg(test)]
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Appends a span.
    pub fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    /// Appends plain text.
    pub fn plain(self, text: impl Into<String>) -> Self {
        self.with(Style::Plain, text)
    }

    /// Pads up to this column.
    pub fn up_to(self, column: usize) -> Self {
        let blanks = column.saturating_sub(self.width());
        self.plain(" ".repeat(blanks))
    }

    /// Appends another line.
    pub fn then(mut self, other: Line) -> Self {
        self.0.extend(other.0);
        self
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// The line with escape sequences, truncated to `width`. Control characters are removed.
    fn paint(&self, width: usize) -> String {
        let (mut painted, mut left) = (String::new(), width);
        for (style, text) in &self.0 {
            painted.extend(["\x1b[", style.code(), "m"]);
            let piece = text.chars().filter(|character| !character.is_control()).take(left);
            let before = painted.chars().count();
            painted.extend(piece);
            left -= painted.chars().count() - before;
        }
        painted + "\x1b[0m"
    }
}

/// The terminal in full-screen mode. Dropping it restores the previous content.
pub struct Screen {
    out: io::Stdout,
    /// Columns and rows.
    pub size: (usize, usize),
}

impl Screen {
    /// Whether standard output is a terminal that supports escape sequences.
    pub fn is_possible() -> bool {
        let term = std::env::var("TERM").unwrap_or_default();
        io::stdout().is_terminal() && !matches!(term.as_str(), "" | "dumb")
    }

    /// Enters full-screen mode.
    pub fn open() -> io::Result<Self> {
        let mut screen = Screen { out: io::stdout(), size: size() };
        screen.take()?;
        Ok(screen)
    }

    fn take(&mut self) -> io::Result<()> {
        // Alternate screen, no cursor, no line wrap.
        self.out.write_all(b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J")?;
        self.out.flush()
    }

    fn give_back(&mut self) -> io::Result<()> {
        self.out.write_all(b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l")?;
        self.out.flush()
    }

    /// Restores the terminal, stops the process as SIGTSTP would, and enters full-screen mode again
    /// when it continues.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.give_back()?;
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?;
        self.resize();
        self.take()
    }

    /// Reads the terminal size again.
    pub fn resize(&mut self) {
        self.size = size();
    }

    /// Draws as many of the lines as fit.
    pub fn draw(&mut self, lines: &[Line]) -> io::Result<()> {
        let (columns, rows) = self.size;
        let mut text = "\x1b[H".to_owned();
        for (at, line) in lines.iter().take(rows).enumerate() {
            text += if at == 0 { "" } else { "\r\n" };
            text += &line.paint(columns);
            text += "\x1b[K";
        }
        text += "\x1b[J";
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.give_back();
    }
}

/// The terminal size in columns and rows, from `stty`: the system call would need unsafe code or
/// another crate.
fn size() -> (usize, usize) {
    let asked = Command::new("stty").arg("size").stdin(Stdio::inherit()).stderr(Stdio::null()).output();
    let text = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let mut numbers = text.split_whitespace().filter_map(|number| number.parse::<usize>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(rows), Some(columns)) if rows > 0 && columns > 0 => (columns, rows),
        _ => (80, 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_by_what_is_seen_and_obeys_nobody() {
        let line = Line::default().with(Style::Bold, "up").up_to(4).with(Style::Bad, "da\x1b[2Jmage");
        assert_eq!(line.paint(7), "\x1b[0;1mup\x1b[0m  \x1b[0;31mda[\x1b[0m");
    }
}
