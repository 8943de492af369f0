//! One row of the report.

use super::figures::Figures;
use super::goals::Goals;
use super::session::Session;

/// One row.
pub struct Row {
    pub name: &'static str,
    pub title: &'static str,
    /// The metric that the chart shows.
    pub charted: &'static str,
    /// Packages of the bench's workspace.
    pub packages: &'static [&'static str],
    /// Folders of Go programs, and the programs' names.
    pub go: &'static [(&'static str, &'static str)],
    /// Measures all available contestants.
    pub play: fn(&Session, &mut Figures) -> Result<(), String>,
    pub goals: fn(&Figures, &mut Goals),
}
