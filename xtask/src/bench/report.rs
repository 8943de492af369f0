//! Formats the figures as Markdown: a table per row, with goals below it.

use std::fmt::Write;

use super::figures::Figures;
use super::goals::Goals;
use super::row::Row;

/// A finished row.
pub struct Played {
    pub row: &'static Row,
    pub figures: Figures,
    pub goals: Goals,
    pub failure: Option<String>,
}

/// The command and options of the run.
pub struct Kind {
    pub quick: bool,
    pub partial: bool,
    /// Load of the machine.
    pub machine: String,
}

pub fn markdown(plays: &[Played], kind: &Kind, skipped: &[String]) -> String {
    let mut out = String::from("# Side by side\n\n");
    let size = if kind.quick { "a quick run" } else { "a full run" };
    let part = if kind.partial { " of some rows" } else { "" };
    let machine = &kind.machine;
    let _ = writeln!(
        out,
        "Written by `cargo xtask bench`: {size}{part}, {machine}. Medians, in parentheses the \
         smallest and the largest. Compare within one run; differences below 15 % are noise on a shared machine, and wall times mean \
         little above a load of one.\n\n![chart](LATEST.svg)\n"
    );
    for reason in skipped {
        let _ = writeln!(out, "**SKIPPED** {reason}\n");
    }
    summary(&mut out, plays);
    for played in plays {
        let _ = writeln!(out, "## {}\n", played.row.title);
        if let Some(failure) = &played.failure {
            let _ = writeln!(out, "**FAILED** {failure}\n");
        }
        table(&mut out, &played.figures);
        goals(&mut out, &played.goals);
    }
    out
}

fn summary(out: &mut String, plays: &[Played]) {
    let all = || plays.iter().flat_map(|played| played.goals.iter());
    let (count, met) = (all().count(), all().filter(|goal| goal.met).count());
    let unknown = all().filter(|goal| goal.value.is_none()).count();
    let _ =
        writeln!(out, "Of {count} goals {met} are met, {} missed, {unknown} not measured.\n", count - met - unknown);
}

fn table(out: &mut String, figures: &Figures) {
    if figures.lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "| | | {} |", figures.metrics.join(" | "));
    let _ = writeln!(out, "|---|---|{}", "---:|".repeat(figures.metrics.len()));
    for (case, contestant) in &figures.lines {
        let cells = figures.metrics.iter().map(|metric| {
            let values = figures.sorted(case, contestant, metric);
            match (figures.median(case, contestant, metric), values.first(), values.last()) {
                (Some(median), Some(least), Some(most)) if values.len() > 1 => {
                    format!("{} ({}–{})", number(median), number(*least), number(*most))
                }
                (Some(median), ..) => number(median),
                _ => String::new(),
            }
        });
        let _ = writeln!(out, "| {case} | {contestant} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    out.push('\n');
}

fn goals(out: &mut String, goals: &Goals) {
    for goal in goals.iter() {
        let bound = number(goal.bound);
        let _ = match goal.value {
            Some(value) if goal.met => {
                writeln!(out, "- met: {} (bound {bound}, measured {})", goal.text, number(value))
            }
            Some(value) => writeln!(out, "- **MISSED**: {} (bound {bound}, measured {})", goal.text, number(value)),
            None => writeln!(out, "- not measured: {} (bound {bound})", goal.text),
        };
    }
    out.push('\n');
}

/// A number with three significant digits and thousands separators.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let mut out = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if !part.is_empty() {
        out.push('.');
        out.push_str(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_have_about_three_digits() {
        let shown = [1234567.8, 123.4, 12.34, 1.234, 0.1234, -1234.0, 0.0].map(number);
        assert_eq!(shown, ["1,234,568", "123", "12.3", "1.23", "0.123", "-1,234", "0.00"]);
    }
}
