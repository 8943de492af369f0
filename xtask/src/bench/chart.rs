//! A bar chart of the main metric of each row: one SVG without scripts, for light and dark themes.

use std::fmt::Write;

use super::report::{Played, number};

const WIDTH: usize = 900;
const BAR: usize = 16;
const LEFT: usize = 330;

pub fn svg(plays: &[Played]) -> String {
    let (mut body, mut y) = (String::new(), 24);
    for played in plays {
        let metric = played.row.charted;
        let mut shown: Vec<(&str, &str, f64)> = Vec::new();
        for (case, contestant) in &played.figures.lines {
            if let Some(value) = played.figures.median(case, contestant, metric) {
                shown.push((case, contestant, value));
            }
        }
        if shown.is_empty() {
            continue;
        }
        let _ = writeln!(
            body,
            r#"<text x="8" y="{y}" class="title">{} — {}</text>"#,
            escape(played.row.title),
            escape(metric)
        );
        y += 10;
        for (case, contestant, value) in &shown {
            // Bars are scaled per case; the longest has the full width.
            let most =
                shown.iter().filter(|other| other.0 == *case).map(|other| other.2).fold(f64::MIN_POSITIVE, f64::max);
            let length = (value / most * (WIDTH - LEFT - 110) as f64).max(1.0);
            let class = match contestant.split([' ', ',']).next().unwrap_or_default() {
                "kubewright" => "ours",
                "client-go" => "go",
                _ => "other",
            };
            let middle = y + BAR - 4;
            let _ = writeln!(
                body,
                r#"<text x="{}" y="{middle}" text-anchor="end">{}, {}</text><rect x="{LEFT}" y="{y}" width="{length:.0}" height="{}" class="{class}"/><text x="{:.0}" y="{middle}">{}</text>"#,
                LEFT - 6,
                escape(case),
                escape(contestant),
                BAR - 3,
                LEFT as f64 + length + 5.0,
                number(*value),
            );
            y += BAR;
        }
        y += 28;
    }
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}">
<style>text {{ font: 11px sans-serif; fill: #777 }} .title {{ font-weight: bold; font-size: 13px }} .ours {{ fill: #2a7ae2 }} .go {{ fill: #e0a030 }} .other {{ fill: #b0605a }}</style>
{body}</svg>
"#
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
