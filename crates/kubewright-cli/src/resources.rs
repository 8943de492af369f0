//! `kubewright api-resources` and `kubewright api-versions`: discovery.

use std::error::Error;

use crate::connection::Connection;
use crate::table::Table;

/// Prints the resources, those of the core group first.
pub async fn resources(connection: &Connection) -> Result<(), Box<dyn Error>> {
    let found = connection.client()?.discovery().discover().await?;
    let mut table = Table::new(["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]);
    let mut rows: Vec<_> = found.preferred_resources().collect();
    rows.sort_by(|(a, one), (b, other)| (&a.group, &one.plural).cmp(&(&b.group, &other.plural)));
    for (group_version, resource) in rows {
        table.row([
            resource.plural.to_string(),
            resource.short_names.join(","),
            group_version.to_string(),
            resource.namespaced.to_string(),
            resource.kind.kind.to_string(),
        ]);
    }
    table.print()?;
    match found.failures.first() {
        Some(failure) => Err(failure.clone().into()),
        None => Ok(()),
    }
}

/// Prints groups with their versions.
pub async fn versions(connection: &Connection) -> Result<(), Box<dyn Error>> {
    let found = connection.client()?.discovery().discover().await?;
    let mut versions: Vec<String> = found.group_versions().map(|version| format!("{version}\n")).collect();
    versions.sort();
    Ok(crate::output::print(versions.concat())?)
}
