//! A full-screen terminal, restored on drop.

use std::io::{self, IsTerminal, Write};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Print, ResetColor, StyledContent, Stylize};
use crossterm::terminal::{
    self, Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue};
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// Text style.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextStyle {
    #[default]
    Plain,
    Bold,
    Dim,
    Good,
    Busy,
    Bad,
}

impl TextStyle {
    fn apply(self, text: String) -> StyledContent<String> {
        match self {
            TextStyle::Plain => text.stylize(),
            TextStyle::Bold => text.bold(),
            TextStyle::Dim => text.dim(),
            TextStyle::Good => text.dark_green(),
            TextStyle::Busy => text.dark_yellow(),
            TextStyle::Bad => text.dark_red(),
        }
    }
}

/// A line of styled spans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line(Vec<(TextStyle, String)>);

impl Line {
    /// The text without styles.
    #[cfg(test)]
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Appends a span.
    pub fn with(mut self, style: TextStyle, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    /// Appends plain text.
    pub fn plain(self, text: impl Into<String>) -> Self {
        self.with(TextStyle::Plain, text)
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
        let mut left = width;
        let visible = self.0.iter().map(|(style, text)| {
            let text: String = text.chars().filter(|character| !character.is_control()).take(left).collect();
            left -= text.chars().count();
            style.apply(text).to_string()
        });
        visible.collect()
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
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&mut self) -> io::Result<()> {
        execute!(self.out, EnterAlternateScreen, Hide, DisableLineWrap, Clear(ClearType::All))
    }

    fn restore(&mut self) -> io::Result<()> {
        execute!(self.out, ResetColor, EnableLineWrap, Show, LeaveAlternateScreen)
    }

    /// Restores the terminal, stops the process as SIGTSTP would, and enters full-screen mode again
    /// when it continues.
    pub async fn suspend(&mut self) -> io::Result<()> {
        let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
        self.restore()?;
        // The call may return before the process stops: another thread may receive the signal.
        kill_process(getpid(), Signal::STOP)?;
        continued.recv().await;
        self.resize();
        self.enter()
    }

    /// Reads the terminal size again.
    pub fn resize(&mut self) {
        self.size = size();
    }

    /// Draws as many of the lines as fit.
    pub fn draw(&mut self, lines: &[Line]) -> io::Result<()> {
        let (columns, rows) = self.size;
        // One write for each frame, so that no half of it is seen.
        let mut frame = Vec::new();
        queue!(frame, MoveTo(0, 0))?;
        for (row, line) in lines.iter().take(rows).enumerate() {
            let start = if row == 0 { "" } else { "\r\n" };
            queue!(frame, Print(start), Print(line.paint(columns)), Clear(ClearType::UntilNewLine))?;
        }
        queue!(frame, Clear(ClearType::FromCursorDown))?;
        self.out.write_all(&frame)?;
        self.out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.restore();
    }
}

/// The terminal size in columns and rows. Some terminals report zero.
fn size() -> (usize, usize) {
    match terminal::size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => (columns.into(), rows.into()),
        _ => (80, 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_by_what_is_seen_and_obeys_nobody() {
        let line = Line::default().with(TextStyle::Bold, "up").up_to(4).with(TextStyle::Bad, "da\x1b[2Jmage");
        assert_eq!(line.paint(7), "\x1b[1mup\x1b[0m  \x1b[38;5;1mda[\x1b[39m");
    }
}
