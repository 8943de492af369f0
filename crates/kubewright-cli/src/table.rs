//! Text tables.

use std::io::{self, Write};

use kubewright_core::Value;

/// Rows with headings, each column as wide as its widest cell so far.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    /// The widest cells of rows that were printed.
    widths: Vec<usize>,
    is_wide: bool,
    has_namespaces: bool,
    /// Precedes names, as in `pod/web`.
    type_name: Option<String>,
    shown: Vec<usize>,
    has_headings: bool,
}

impl Table {
    /// A table with these headings.
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        Table { rows: vec![headings.map(str::to_owned).to_vec()], ..Table::default() }
    }

    /// A table with the columns of the first server-side table; all of them if `is_wide`.
    pub fn of_server(is_wide: bool) -> Self {
        Table { is_wide, ..Table::default() }
    }

    /// Adds a column for the namespace of each row.
    pub fn with_namespaces(mut self) -> Self {
        self.has_namespaces = true;
        self
    }

    /// Prints `type_name/` before each name.
    pub fn with_type(mut self, type_name: String) -> Self {
        self.type_name = Some(type_name);
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds the rows of a server-side table.
    pub fn add(&mut self, table: &Value) {
        let items = |field: &str| table.get(field).and_then(Value::as_array).map_or(&[][..], |list| &list[..]);
        let columns = items("columnDefinitions");
        if self.rows.is_empty() && !columns.is_empty() {
            let text =
                |column: &Value, field: &str| column.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let is_shown = |column: &&Value| self.is_wide || column.get("priority").and_then(Value::as_i64) == Some(0);
            self.shown = (0..columns.len()).filter(|at| is_shown(&&columns[*at])).collect();
            let names = self.shown.iter().map(|at| text(&columns[*at], "name").to_uppercase());
            let namespace = self.has_namespaces.then(|| "NAMESPACE".to_owned());
            self.rows.push(namespace.into_iter().chain(names).collect());
        }
        for row in items("rows") {
            let cells = row.get("cells").and_then(Value::as_array).map_or(&[][..], |list| &list[..]);
            let mut cells: Vec<String> =
                self.shown.iter().map(|at| cells.get(*at).map_or_else(String::new, plain)).collect();
            if let (Some(type_name), Some(name)) = (&self.type_name, cells.first_mut()) {
                *name = format!("{type_name}/{name}");
            }
            if self.has_namespaces {
                cells.insert(0, namespace_of(row));
            }
            self.rows.push(cells);
        }
    }

    /// Whether there are no rows besides the headings.
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// Prints the rows and removes them; the headings are printed once, with the first rows.
    pub fn print_new(&mut self) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let from = usize::from(std::mem::replace(&mut self.has_headings, true));
        self.print_from(from)?;
        self.rows.truncate(1);
        Ok(())
    }

    /// Prints all rows.
    pub fn print(&mut self) -> io::Result<()> {
        self.print_from(0)
    }

    fn print_from(&mut self, from: usize) -> io::Result<()> {
        for row in &self.rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut out = io::stdout().lock();
        for row in self.rows.iter().skip(from) {
            let mut line = String::new();
            for (width, cell) in self.widths.iter().zip(row) {
                line += &format!("{cell:width$}   ");
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        out.flush()
    }
}

fn namespace_of(row: &Value) -> String {
    let found = row.get("object").and_then(|object| object.get("metadata")?.get("namespace")?.as_str());
    found.unwrap_or_default().to_owned()
}

/// A cell without quotes.
fn plain(cell: &Value) -> String {
    match cell {
        Value::String(text) => text.to_string(),
        Value::Null => "<none>".to_owned(),
        other => other.to_string(),
    }
}
